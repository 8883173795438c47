//! The daemon: everything it knows, and its one loop.
//!
//! One thread, and another for filters ([`work`]). A turn: wait until something is to be done, hear what programs ask and do
//! it ([`requests`]), see to what is due, tell everybody when the tables have changed. What takes long in a turn is making
//! a place for a program (some 10 ms of the kernel's work); packets do not wait for the daemon, and neither do grants for
//! much longer than the system calls that enter them.

mod adoption;
mod answers;
mod attach;
mod attachment;
mod bounds;
mod direct;
mod grants;
mod host;
mod leftovers;
mod quotas;
mod report;
mod requests;
mod slots;
mod taps;
mod terms;
mod turn;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use exos_host::error::Result;
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;
use exos_host::random::random_number;
use exos_xok::message::{Farewell, Notice};

use attachment::Attachment;
use host::Host;
use leftovers::Leftovers;
use quotas::{Charge, Rates, Reports, Resolves, TimeWaits};
use slots::Removals;
use taps::Taps;

use crate::clock::{Now, now};
use crate::gate::LiveFrames;
use crate::interface::Interface;
use crate::interface::reservations::Reservations;
use crate::ledger::{Ledger, SlotId};
use crate::limits::REATTACH_TIME;
use crate::policy::Policy;
use crate::server::{Server, Turns, User};
use crate::tables::Tables;
use crate::worker::Worker;

/// What to serve, and where to listen.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where programs find us.
    pub socket: PathBuf,
    /// Who may do what.
    pub policy: Policy,
    /// Who sends live frames.
    pub live_frames: LiveFrames,
}

/// The daemon.
pub struct Daemon {
    /// Before the interfaces: what is dropped first is at work by the numbers of their slots.
    removals: Removals,
    config: Config,
    server: Server,
    ledger: Ledger,
    reservations: Reservations,
    taps: Taps,
    interfaces: Vec<Interface>,
    attachments: BTreeMap<SlotId, Attachment>,
    leftovers: Leftovers,
    /// Slots whose filters may be others by now, and from when on that is looked after.
    renewals: BTreeMap<SlotId, Now>,
    /// Interfaces on which something was passed on that is not written down yet.
    unsaved: BTreeSet<u32>,
    /// When it is written down at the earliest.
    save_after: Now,
    tables: Tables,
    netlink: Netlink,
    host: Host,
    refusals: BTreeMap<&'static str, u64>,
    reports: Reports,
    turns: Turns,
    time_waits: TimeWaits,
    resolves: Resolves,
    rates: Rates,
    /// What compiles and verifies programs for users, and reads their filters.
    worker: Worker<(User, Charge), End>,
    /// Numbers changes of filters.
    last_change: u64,
    /// When queues of interfaces were given back.
    given_back: BTreeMap<(u32, u32), Now>,
    started: Now,
    counted: Now,
    replaced: bool,
}

/// What the loop does when something that was done beside it is done: by then the one that it was for may have gone, and
/// policy may say something else.
type End = Box<dyn FnOnce(&mut Daemon) + Send>;

impl Daemon {
    /// Takes the interfaces and listens.
    pub fn start(config: Config) -> Result<Self> {
        let netlink = Netlink::new()?;
        let inode = NetNs::current()?.inode()?;
        let server = Server::prepare(&config.socket)?;
        let interfaces = config.policy.interfaces.iter().cloned();
        let opened = interfaces.map(|i| Interface::open(&netlink, inode, i, config.live_frames));
        let mut daemon = Self {
            interfaces: opened.collect::<Result<_>>()?,
            server,
            taps: Taps::default(),
            ledger: Ledger::new(random_number()),
            reservations: Reservations::default(),
            attachments: BTreeMap::new(),
            leftovers: Leftovers::default(),
            removals: Removals::new()?,
            renewals: BTreeMap::new(),
            unsaved: BTreeSet::new(),
            save_after: Now::ZERO,
            tables: Tables::new()?,
            host: Host::new()?,
            netlink,
            refusals: BTreeMap::new(),
            reports: Reports::default(),
            turns: Turns::default(),
            time_waits: TimeWaits::default(),
            resolves: Resolves::default(),
            rates: Rates::default(),
            worker: Worker::new()?,
            last_change: 0,
            given_back: BTreeMap::new(),
            started: now(),
            counted: now(),
            replaced: false,
            config,
        };
        daemon
            .host
            .write(&daemon.netlink, &daemon.interfaces, &mut daemon.tables)?;
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
            self.remove_slot(slot);
        }
        self.removals.finish();
        let netlink = self.netlink;
        let closed = self.interfaces.into_iter().map(|i| i.close(&netlink));
        // Each, also behind one that fails.
        let closed: Vec<_> = closed.collect();
        closed.into_iter().collect()
    }

    fn interface(&self, index: u32) -> Option<&Interface> {
        self.interfaces.iter().find(|i| i.link.index == index)
    }
}
