//! The daemon: everything it knows, and its one loop.
//!
//! One thread, and another for filters ([`work`]). A turn: wait until something is to be done, hear what programs ask and do
//! it ([`requests`]), see to what is due, tell everybody when the tables have changed. What takes long in a turn is making
//! a place for a program (some 10 ms of the kernel's work); packets do not wait for the daemon, and neither do grants for
//! much longer than the system calls that enter them.
//!
//! [`Attachment`] is what the daemon knows of a slot beside what the ledger does: its connection, its record, its place.

mod adoption;
mod attach;
mod attachments;
mod batches;
mod bounds;
mod claims;
mod direct;
mod generals;
mod leftovers;
mod rates;
mod report;
mod requests;
mod resolving;
mod revocation;
mod successors;
mod taps;
mod terms;
mod time_wait;
mod turn;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use exos_host::error::Result;
use exos_host::netlink::{Address, Netlink, RouteEntry, Watch};
use exos_host::netns::NetNs;
use exos_host::shared::LentMemory;
use exos_xok::message::{Farewell, Notice};
use exos_xok::tables::Route;
use rustix::time::{ClockId, clock_gettime};

use crate::interface::Interface;
use crate::ledger::{Ledger, Now, SlotId};
use crate::limits::REATTACH_TIME;
use crate::policy::Policy;
use crate::reservations::Reservations;
use crate::server::{ConnectionId, Server, Turns};
use crate::slot::SlotPair;
use crate::state;
use crate::tables::Tables;

/// What to serve, and where to listen.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where programs find us.
    pub socket: PathBuf,
    /// Who may do what.
    pub policy: Policy,
}

/// A program's slot, as far as it is not in the ledger.
#[derive(Debug)]
pub(crate) struct Attachment {
    /// What it has, as a successor of this daemon is told.
    record: state::Slot,
    /// Its connection; `None` while an adopted program has not come back.
    connection: Option<ConnectionId>,
    /// The interface, by index.
    interface: u32,
    /// Its place in the kernel, kept for what it holds; `None` when it has a queue of the interface itself.
    _place: Option<SlotPair>,
    /// Tells who has its memory; `None` for what an earlier daemon lent.
    memory: Option<LentMemory>,
    /// When it is taken because its program has not come back.
    ends: Option<Now>,
    /// What it is asked to give back.
    revoked: revocation::Revocations,
    /// What is to become of its filters.
    changes: generals::Changes,
}

/// The daemon.
pub struct Daemon {
    config: Config,
    server: Server,
    ledger: Ledger,
    reservations: Reservations,
    taps: taps::Taps,
    interfaces: Vec<Interface>,
    attachments: BTreeMap<SlotId, Attachment>,
    leftovers: leftovers::Leftovers,
    /// Slots whose filters may be others by now, and from when on that is looked after.
    renewals: BTreeMap<SlotId, Now>,
    /// Interfaces on which something was passed on that is not written down yet.
    unsaved: BTreeSet<u32>,
    /// When it is written down at the earliest.
    save_after: Now,
    tables: Tables,
    netlink: Netlink,
    watch: Watch,
    /// Addresses and routes of the host as they were last told of.
    host_seen: Option<(Vec<Address>, Vec<RouteEntry>)>,
    /// There may be others by now.
    host_due: bool,
    /// The routes that are in the tables.
    routes: Vec<Route>,
    refusals: BTreeMap<&'static str, u64>,
    reports: report::Reports,
    turns: Turns,
    time_waits: time_wait::TimeWaits,
    resolves: resolving::Resolves,
    rates: rates::Rates,
    worker: work::FilterWorker,
    /// Numbers changes of filters.
    last_change: u64,
    /// When queues of interfaces were given back.
    given_back: BTreeMap<(u32, u32), Now>,
    started: Now,
    counted: Now,
    replaced: bool,
}

impl Daemon {
    /// Takes the interfaces and listens.
    pub fn start(config: Config) -> Result<Self> {
        let netlink = Netlink::new()?;
        let inode = NetNs::current()?.inode()?;
        let server = Server::prepare(&config.socket)?;
        let interfaces = config.policy.interfaces.iter().cloned();
        let opened = interfaces.map(|i| Interface::open(&netlink, inode, i));
        let mut daemon = Self {
            interfaces: opened.collect::<Result<_>>()?,
            server,
            taps: taps::Taps::default(),
            ledger: Ledger::new(u64::from_le_bytes(random())),
            reservations: Reservations::default(),
            attachments: BTreeMap::new(),
            leftovers: leftovers::Leftovers::default(),
            renewals: BTreeMap::new(),
            unsaved: BTreeSet::new(),
            save_after: Now::ZERO,
            tables: Tables::new()?,
            watch: Watch::everything()?,
            host_seen: None,
            host_due: false,
            routes: Vec::new(),
            netlink,
            refusals: BTreeMap::new(),
            reports: report::Reports::default(),
            turns: Turns::default(),
            time_waits: time_wait::TimeWaits::default(),
            resolves: resolving::Resolves::default(),
            rates: rates::Rates::default(),
            worker: work::FilterWorker::new()?,
            last_change: 0,
            given_back: BTreeMap::new(),
            started: now(),
            counted: now(),
            replaced: false,
            config,
        };
        daemon.write_tables()?;
        daemon.adopt_all()?;
        daemon.enforce();
        daemon.server.open()?;
        // From now on programs can come back.
        let ends = now() + REATTACH_TIME;
        let away = daemon
            .attachments
            .values_mut()
            .filter(|attachment| attachment.ends.is_some());
        away.for_each(|attachment| attachment.ends = Some(ends));
        Ok(daemon)
    }

    /// The interfaces that are served.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Who may do what, in words.
    pub fn rules(&self) -> impl Iterator<Item = String> {
        self.config.policy.rules.iter().map(ToString::to_string)
    }

    /// Takes everything down, with a word to everybody.
    pub fn stop(mut self) -> Result<()> {
        for id in self.server.ids() {
            let goodbye = Notice::Goodbye(Farewell::Stopping).encode();
            self.server.say(id, goodbye, Vec::new());
        }
        for slot in self.attachments.keys().copied().collect::<Vec<_>>() {
            self.remove_seat(slot);
        }
        let netlink = self.netlink;
        let closed = self.interfaces.into_iter().map(|i| i.close(&netlink));
        closed.collect()
    }

    /// Writes all of the tables that follows from the interfaces.
    fn write_tables(&mut self) -> Result<()> {
        let interfaces: Vec<_> = self.interfaces.iter().map(Interface::row).collect();
        let addresses = self.interfaces.iter().flat_map(Interface::address_rows);
        let addresses: Vec<_> = addresses.collect();
        let mut routes = Vec::new();
        for interface in &self.interfaces {
            routes.extend(interface.routes(&self.netlink)?);
        }
        self.tables.write(|w| {
            w.replace(&interfaces);
            w.replace(&addresses);
            w.replace(&routes);
        });
        self.routes = routes;
        Ok(())
    }

    fn interface(&self, index: u32) -> Option<&Interface> {
        self.interfaces.iter().find(|i| i.link.index == index)
    }
}

/// Time since the machine started, which is what the kernel's programs see too.
pub(crate) fn now() -> Now {
    let t = clock_gettime(ClockId::Monotonic);
    Duration::new(t.tv_sec.max(0) as u64, t.tv_nsec as u32)
}

/// Random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let got = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    // Short requests are answered whole once the machine is up.
    assert_eq!(got, Ok(N), "the kernel's random numbers");
    bytes
}
