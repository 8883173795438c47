//! Two hosts, a wire and a clock that jumps from event to event.
//!
//! ```
//! use exos_sim::prelude::*;
//!
//! let mut sim = Sim::new(Seed(7)).latency(ms(10));
//! sim.server.listen(80, Plan::serve(5000));
//! let conn = sim.client.connect_with(sim.server.addr(), Plan::fetch(), &Default::default());
//! sim.run_until(|s| s.client.endpoint(conn).peer_finished, at_most(secs(1)));
//! assert!(sim.client.endpoint(conn).received_pattern());
//! ```
//!
//! The hosts know each other's MAC address from the start unless [`Sim::cold`] says otherwise, so
//! that a trace begins with what the test is about. Whatever a test asserts, a panic prints the
//! seed and the last lines of the trace. Time does not pass while a test looks or gives commands,
//! only in `run_*`.

use crate::host::Host;
use crate::random::{Random, Seed};
use crate::trace::{Style, Trace};
use crate::wire::{Conditions, Wire};
use exos_inet::stack::{Config, Offload};
use exos_inet::{Duration, Instant};
use exos_wire::Mac;
use std::net::IpAddr;

/// The most virtual time that something may take.
#[derive(Clone, Copy, Debug)]
pub struct AtMost(Duration);

/// A bound of virtual time for `run_until`.
pub const fn at_most(time: Duration) -> AtMost {
    AtMost(time)
}

/// Milliseconds.
pub const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Seconds.
pub const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// The client's end of the wire.
pub const CLIENT: usize = 0;
/// The server's end of the wire.
pub const SERVER: usize = 1;

/// Lines of the trace that a failure prints.
const TAIL_LINES: usize = 60;

/// Turns without time passing before the simulation calls it a livelock: more than the largest
/// window has segments.
const TURNS_PER_INSTANT_MAX: u32 = 10_000;

/// What the hosts are made with.
#[derive(Clone, Copy)]
struct Setup {
    ipv6: bool,
    mtu: usize,
    cold: bool,
    offload: Option<Offload>,
}

/// A client and a server on one wire.
pub struct Sim {
    /// The host at end [`CLIENT`].
    pub client: Host,
    /// The host at end [`SERVER`].
    pub server: Host,
    wire: Wire,
    trace: Trace,
    seed: Seed,
    now: Instant,
    setup: Setup,
}

impl Sim {
    /// Both hosts on a perfect wire, IPv4, MTU 1500.
    pub fn new(seed: Seed) -> Sim {
        let setup = Setup {
            ipv6: false,
            mtu: 1500,
            cold: false,
            offload: None,
        };
        let [client, server] = hosts(seed, setup);
        let mut trace = Trace::new();
        for host in [&client, &server] {
            host.stack
                .addresses()
                .iter()
                .for_each(|prefix| trace.name(prefix.addr, host.name));
        }
        Sim {
            client,
            server,
            wire: Wire::new(seed, 2),
            trace,
            seed,
            now: Instant::START,
            setup,
        }
    }

    // The set-up, before anything happens.

    /// Frames take this long.
    pub fn latency(mut self, latency: Duration) -> Sim {
        self.wire.conditions_mut(CLIENT).latency = latency;
        self.wire.conditions_mut(SERVER).latency = latency;
        self
    }

    /// The wire in both directions.
    pub fn conditions(mut self, conditions: Conditions) -> Sim {
        self.wire.set_conditions(conditions);
        self
    }

    /// Speak IPv6.
    pub fn ipv6(self, ipv6: bool) -> Sim {
        self.rebuilt(|setup| setup.ipv6 = ipv6)
    }

    /// The link's largest IP packet.
    pub fn mtu(self, mtu: usize) -> Sim {
        self.rebuilt(|setup| setup.mtu = mtu)
    }

    /// The hosts do not know each other's MAC address.
    pub fn cold(self) -> Sim {
        self.rebuilt(|setup| setup.cold = true)
    }

    /// The stacks leave segmentation to their links, and with `checksum` the checksums of what is
    /// not cut up too.
    pub fn offload(self, checksum: bool) -> Sim {
        let offload = Offload {
            checksum,
            segmentation: Some(65_535),
            datagrams: false,
        };
        self.rebuilt(|setup| setup.offload = Some(offload))
    }

    /// Show more in the trace.
    pub fn style(mut self, style: Style) -> Sim {
        self.trace.set_style(style);
        self
    }

    fn rebuilt(mut self, change: impl FnOnce(&mut Setup)) -> Sim {
        change(&mut self.setup);
        [self.client, self.server] = hosts(self.seed, self.setup);
        self
    }

    // What a test looks at and meddles with.

    /// The wire.
    pub fn link(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// What crossed the wire.
    pub fn trace(&mut self) -> &mut Trace {
        &mut self.trace
    }

    /// Virtual time since the start.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Let a frame of the test's making arrive at one end now.
    pub fn inject(&mut self, end: usize, frame: &[u8]) {
        self.host_mut(end).handle_frame(frame);
        self.settle();
    }

    /// Panics unless the trace since the start, or since it was cleared, is what the text says.
    #[track_caller]
    pub fn expect_trace(&self, expected: &str) {
        if let Err(difference) = self.trace.compare(expected) {
            panic!("{difference}");
        }
    }

    // Time.

    /// Go on until `done`; panics when that takes more than the given time, or never happens.
    #[track_caller]
    pub fn run_until(&mut self, done: impl FnMut(&Sim) -> bool, limit: AtMost) {
        assert!(
            self.run_until_or(done, limit),
            "not done after {:?} of virtual time",
            limit.0
        );
    }

    /// Go on until `done`, or until the given time has passed; false in the latter case.
    pub fn run_until_or(&mut self, mut done: impl FnMut(&Sim) -> bool, limit: AtMost) -> bool {
        let end = self.now + limit.0;
        self.settle();
        while !done(self) {
            match self.next_event() {
                Some(at) if at <= end => self.advance(at),
                _ => {
                    self.set_now(end);
                    return done(self);
                }
            }
        }
        true
    }

    /// Go on for so long.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until_or(|_| false, AtMost(time));
    }

    /// When something happens next; `None` when nothing ever will.
    pub fn next_event(&self) -> Option<Instant> {
        let hosts = [&self.client, &self.server];
        hosts
            .into_iter()
            .filter_map(Host::next_deadline)
            .chain(self.wire.next_arrival())
            .min()
    }

    fn advance(&mut self, at: Instant) {
        self.set_now(at.max(self.now));
        self.settle();
    }

    fn set_now(&mut self, now: Instant) {
        self.now = now;
        self.client.now = now;
        self.server.now = now;
    }

    /// Do everything that is to be done at this moment.
    fn settle(&mut self) {
        for turn in 0.. {
            assert!(
                turn < TURNS_PER_INSTANT_MAX,
                "livelock: the hosts never come to rest at {}",
                self.now
            );
            let mut busy = false;
            while let Some(arrival) = self.wire.poll_arrival(self.now) {
                busy = true;
                self.host_mut(1 - arrival.from).handle_frame(&arrival.frame);
            }
            for end in [CLIENT, SERVER] {
                busy |= self.host_mut(end).turn();
                busy |= self.transmit(end);
            }
            if !busy {
                break;
            }
        }
        for host in [&self.client, &self.server] {
            let next = host.next_deadline();
            assert!(
                next.is_none_or(|at| at > self.now),
                "{} wants {next:?} again at {}",
                host.name,
                self.now
            );
        }
    }

    fn transmit(&mut self, end: usize) -> bool {
        let mut busy = false;
        while let Some(frames) = self.host_mut(end).poll_frames() {
            busy = true;
            for frame in frames {
                let fate = self.wire.send(self.now, end, frame.clone());
                self.trace.record(self.now, &frame, fate);
            }
        }
        busy
    }

    fn host_mut(&mut self, end: usize) -> &mut Host {
        if end == CLIENT {
            &mut self.client
        } else {
            &mut self.server
        }
    }
}

/// A failing test says how to repeat it.
impl Drop for Sim {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "{:?} failed at {}; the end of its trace:\n{}",
                self.seed,
                self.now,
                self.trace.tail(TAIL_LINES)
            );
        }
    }
}

/// The MAC address of the host at an end.
pub fn mac(end: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, end as u8 + 1])
}

/// Both addresses of the host at an end.
fn addresses(end: usize) -> [(IpAddr, u8); 2] {
    let last = end as u8 + 1;
    let v6 = std::net::Ipv6Addr::new(0xfd10, 0, 0, 0, 0, 0, 0, last.into());
    [([10, 10, 0, last].into(), 24), (v6.into(), 64)]
}

fn hosts(seed: Seed, setup: Setup) -> [Host; 2] {
    let mut random = Random::new(seed, HOSTS_LANE);
    [("client", CLIENT), ("server", SERVER)].map(|(name, end)| {
        let mut config = Config::new(mac(end), setup.mtu);
        config.addresses = addresses(end).to_vec();
        config.offload = setup.offload.unwrap_or_default();
        let address = addresses(end)[usize::from(setup.ipv6)].0;
        let mut host = Host::new(name, config, address, random.next_u64(), Instant::START);
        if !setup.cold {
            // They have met: the announcements are over, the caches filled.
            while host.poll_frames().is_some() {}
            for (ip, _) in addresses(1 - end) {
                host.stack.set_neighbor(Instant::START, ip, mac(1 - end));
            }
        }
        host
    })
}

/// Lane of the hosts' seeds.
const HOSTS_LANE: u64 = 2;
