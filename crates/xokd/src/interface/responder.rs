//! Slot 0: the daemon's own place on an interface, for what nobody claims.
//!
//! For addresses that are ours alone there is no host to answer ARP and neighbour discovery, echo, segments to ports
//! that nobody has (reset) and datagrams to such (port unreachable). A stack of `exos_inet` does, on a ring like any
//! program's. It also finds out who the neighbours are, for everybody: what it knows goes into the shared tables.
//!
//! Not fast, and does not have to be: packets of granted ports never come here. What strangers send to ports that nobody has
//! would be without bound, so the kernel gives the ring so much of it in a while and drops the rest ([`rationed`]), and
//! neither it nor ARP takes the other's part.

mod reported;

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use exos_filter::rationed::{self, Class, admitted, dropped};
use exos_host::Error;
use exos_host::bpf::MappedArray;
use exos_host::error::Result;
use exos_inet::neighbor::State;
use exos_inet::tcp::{Flow, TIME_WAIT_RECORD_LEN};
use exos_inet::{Config, Instant, Stack};
use exos_link::{Feed, Link, RX_BATCH, RxMeta, TxMeta, XdpLink};
use exos_xok::tables::{Neighbour, NeighbourState};
use exos_xok::{Claim, Endpoint, Protocol};

use crate::clock::{Now, now};
use crate::slot::{SlotPair, SlotPairConfig};

/// Frames of each class ([`Class`]) that it is given before the ration is renewed, with [`RATION_EVERY`] 7,700 in a second:
/// some hundredths of the daemon's time.
const RATION: u32 = 256;

/// How often the rations are renewed: about the time in which the daemon makes places for programs. All that it is given
/// meanwhile waits in its ring, so that what strangers send takes none of the room for ARP.
const RATION_EVERY: Duration = Duration::from_millis(33);

/// Chunks of its memory, half of which are for what arrives: the rations of both classes, and as much again for what comes
/// while they are renewed.
pub const CHUNKS: u32 = 8 * RATION;

/// What is rationed, and what its drops are counted as.
const CLASSES: [(Class, &str); 2] = [
    (Class::Neighbours, "drop_neighbors_over_ration"),
    (Class::Strays, "drop_strays_over_ration"),
];

/// The daemon's place on an interface.
pub struct Responder {
    stack: Stack,
    link: Link,
    /// Its place in the kernel.
    pub place: SlotPair,
    /// What it was given of each class, and what was dropped before ([`rationed`]).
    rations: MappedArray,
    /// When they were renewed.
    renewed: Now,
    interface: u32,
    /// The neighbours as the tables have them.
    reported: reported::Reported,
    /// Whether the stack may know them otherwise by now.
    stirred: bool,
}

impl std::fmt::Debug for Responder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Responder")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl Responder {
    /// Begins to answer for these addresses.
    pub fn start(
        mut place: SlotPair,
        config: &SlotPairConfig,
        addresses: &[(IpAddr, u8)],
        gateways: &[IpAddr],
        seed: u64,
    ) -> Result<Self> {
        let rations = MappedArray::new("exos_rations", 8 * rationed::WORDS, 1)?;
        let offer = place.offer(config, Feed::Rationed(&rations, RATION))?;
        place.held = offer.held;
        let fds = vec![offer.socket, offer.memory];
        let link = Link::from(XdpLink::adopt(crate::slot::INNER, &offer.facts, fds)?);
        let mut wanted = Config::new(config.mac, config.mtu as usize);
        wanted.addresses = addresses.to_vec();
        wanted.gateways = gateways.to_vec();
        // It opens none and accepts none; the table is not to take memory.
        wanted.connections_max = 1024;
        let stack = Stack::new(wanted, seed, instant(now())).map_err(|e| {
            Error::new(format!(
                "the addresses and gateways do not fit together: {e}"
            ))
        })?;
        Ok(Self {
            stack,
            link,
            place,
            rations,
            renewed: Now::ZERO,
            interface: config.ifindex,
            reported: reported::Reported::default(),
            stirred: true,
        })
    }

    /// Readable when packets are there.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.fd()
    }

    /// When to call [`Responder::serve`] at the latest.
    pub fn poll_timeout(&mut self, now: Now) -> Option<Now> {
        if !self.link.prepare_wait() {
            return Some(now);
        }
        let at = self.stack.poll_timeout(instant(now));
        let at = at.map(|at| now + (at - instant(now)));
        let renewal = self
            .has_used_rations()
            .then_some(self.renewed + RATION_EVERY);
        at.into_iter().chain(renewal).min()
    }

    fn has_used_rations(&self) -> bool {
        let mut classes = CLASSES.into_iter();
        classes.any(|(class, _)| self.rations.words()[admitted(class)].load(Relaxed) > 0)
    }

    /// All that was given has been read.
    fn renew_rations(&mut self, now: Now) {
        if now.saturating_sub(self.renewed) >= RATION_EVERY {
            self.renewed = now;
            for (class, _) in CLASSES {
                self.rations.words()[admitted(class)].store(0, Relaxed);
            }
        }
    }

    /// Finds out about a neighbour, or makes sure of it.
    pub fn resolve(&mut self, now: Now, ip: IpAddr) {
        self.stack.resolve(instant(now), ip);
        self.reported.tell_again(ip);
        self.stirred = true;
    }

    /// Answers what is there.
    pub fn serve(&mut self, now: Now) -> Result<()> {
        let at = instant(now);
        self.stirred |= self.stack.poll_timeout(at).is_some_and(|due| due <= at);
        self.stack.handle_timeout(at);
        self.transmit(at)?;
        // No more than there can be: what is given meanwhile is for the next turn.
        for _ in 0..CHUNKS / 2 / RX_BATCH {
            let stack = &mut self.stack;
            let take = |frame: &[u8], meta: RxMeta| stack.handle_frame(at, frame, meta.checksum);
            if self.link.receive(take) == 0 {
                self.renew_rations(now);
                break;
            }
            self.stirred = true;
            // Answers are sent before there are more of them than the stack keeps.
            self.transmit(at)?;
        }
        Ok(())
    }

    /// Sends what the stack has to say.
    fn transmit(&mut self, at: Instant) -> Result<()> {
        // It has no more when there is no room either.
        while let Some(out) = self.stack.poll_transmit_within(at, self.link.room()) {
            // No offload was asked for: everything is whole.
            self.link
                .transmit(out.head, out.body.parts(), TxMeta::default());
        }
        self.link
            .flush()
            .map_err(|e| Error::io("cannot send from slot 0", e))
    }

    /// Takes over connections in TIME-WAIT, as far as they are of this claim and no more than there is room for; returns
    /// how many.
    pub fn keep_time_wait(
        &mut self,
        now: Now,
        records: &[u8],
        claim: &Claim,
        room: usize,
    ) -> usize {
        let records = &records[..records.len().min(room * TIME_WAIT_RECORD_LEN)];
        let take = |flow: &Flow| {
            let far = Endpoint::from(flow.remote());
            let connection = Claim {
                interface: claim.interface,
                protocol: Protocol::Tcp,
                local: flow.local().ip(),
                port: flow.local().port(),
                remote: Some(far),
            };
            connection.is_subset_of(claim)
        };
        self.stack.tcp.put_time_wait(instant(now), records, take)
    }

    /// What is new about the neighbours: those that are known otherwise than before, and those forgotten. Looks only when
    /// the stack has heard, asked or waited for something.
    pub fn news(&mut self, now: Now) -> (Vec<Neighbour>, Vec<IpAddr>) {
        if !std::mem::take(&mut self.stirred) {
            return (Vec::new(), Vec::new());
        }
        let rows = self
            .stack
            .neighbors()
            .iter()
            .map(|(ip, state, mac)| Neighbour {
                interface: self.interface,
                ip,
                mac: mac.unwrap_or_default(),
                state: worth(state),
                confirmed_ns: now.as_nanos() as u64,
            });
        self.reported.news(&rows.collect::<Vec<_>>())
    }

    /// What the stack counted, by name, and what was dropped before it.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let rations = self.rations.words();
        let dropped = CLASSES.map(|(class, name)| (name, rations[dropped(class)].load(Relaxed)));
        let counted = self.stack.counters().list();
        counted.into_iter().chain(dropped).collect()
    }
}

fn worth(state: State) -> NeighbourState {
    match state {
        State::Incomplete => NeighbourState::Incomplete,
        State::Reachable => NeighbourState::Reachable,
        State::Stale | State::Delay | State::Probe => NeighbourState::Stale,
        State::Failed => NeighbourState::Failed,
    }
}

fn instant(now: Now) -> Instant {
    Instant::from_micros(now.as_micros() as u64)
}
