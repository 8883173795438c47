//! A stack and the engine on it at one end of a wire, a peer at the other, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use exos_inet::counters::Counters;
use exos_inet::tcp::Options;
use exos_inet::{Config, Instant, Neighbors, RxChecksum, Stack};
use exos_webswamp::driver::One;
use exos_webswamp::engine::{Behaviour, Engine, Shape};
use exos_webswamp::limits::OPENING_MAX;
use exos_webswamp::packets::Packets;
use exos_webswamp::request::{Content, Request};
use exos_webswamp::schedule::{Arrivals, Phase, Schedule};
use exos_webswamp::statistics::Statistics;
use std::net::SocketAddr;

use crate::raw::frames::{OURS, THEIRS};
use crate::raw::peer::{CLIENT, Counts, Peer, SERVER, Script};

/// How long a frame takes from one end of the wire to the other.
pub const LATENCY: Duration = Duration::from_millis(1);

/// Turns of a load that are too many.
const TURNS_MAX: usize = 1_000_000;

/// When the load begins.
const START: Instant = Instant::from_millis(1000);

/// Who comes by which end.
enum Arrival {
    ToPeer(Vec<u8>),
    ToUs(Vec<u8>),
}

/// What a load is like.
#[derive(Clone, Debug)]
pub enum Load {
    /// This many clients, this many requests in all.
    Closed { clients: u32, requests: u64 },
    /// At a rate, for so long, on this many connections at most.
    Open {
        rate: f64,
        time: Duration,
        connections: u32,
        arrivals: Arrivals,
    },
}

/// How it is run.
#[derive(Clone, Debug)]
pub struct Setting {
    pub load: Load,
    pub requests_per_connection: u32,
    pub timeout: Duration,
    pub latency: Duration,
    /// How long clients of a closed loop think.
    pub think: Duration,
}

/// What became of it.
pub struct Seen {
    pub statistics: Statistics,
    pub counters: Counters,
    pub peer: Counts,
}

struct World {
    now: Instant,
    stack: Stack,
    engine: Engine,
    peer: Peer,
    wire: BTreeMap<(Instant, u64), Arrival>,
    frames: u64,
    options: Options,
    latency: Duration,
}

/// Runs a load against a peer, to its end.
pub fn run(setting: &Setting, script: Script) -> Seen {
    let mut world = World::new(setting, script);
    for _ in 0..TURNS_MAX {
        world.turn();
        if world.engine.is_over() {
            return world.end();
        }
        world.pass_to_next();
    }
    panic!("a load without end");
}

fn engine(setting: &Setting) -> Engine {
    let (shape, slots, requests) = match setting.load {
        Load::Closed { clients, requests } => (Shape::Closed, clients, requests),
        Load::Open {
            rate,
            time,
            connections,
            arrivals,
        } => {
            let phases = vec![Phase {
                time,
                from: rate,
                to: rate,
            }];
            let schedule = Schedule::new(phases, arrivals, 1, START);
            (Shape::Open(schedule), connections, u64::MAX)
        }
    };
    let behaviour = Behaviour {
        slots,
        opening: OPENING_MAX,
        requests_per_connection: setting.requests_per_connection,
        pipeline: 1,
        streams: None,
        is_http3: false,
        requests,
        timeout: setting.timeout,
        merging: true,
        early_finish: false,
        count_only: true,
        expect: exos_webswamp::expect::Expect::default(),
    };
    let request = Request::new(&Content::get(&"http://10.10.0.1/".parse().expect("a URL")));
    let driver = Box::new(One::new(request, setting.think));
    Engine::new(behaviour, shape, driver, START, START)
}

impl World {
    fn new(setting: &Setting, script: Script) -> Self {
        let mut config = Config::new(OURS, 1500);
        config.addresses = vec![(CLIENT, 24)];
        config.neighbors = Neighbors::External;
        let mut stack = Stack::new(config, 7, START).expect("sound addresses");
        stack.set_neighbor(START, SERVER.0, THEIRS);
        Self {
            now: START,
            stack,
            engine: engine(setting),
            peer: Peer::new(script),
            wire: BTreeMap::new(),
            frames: 0,
            options: Options::default(),
            latency: setting.latency,
        }
    }

    /// What has come, what is due, what leaves; until nothing more happens at this moment.
    fn turn(&mut self) {
        loop {
            self.arrive();
            self.stack.handle_timeout(self.now);
            let mut packets = Packets {
                now: self.now,
                stack: &mut self.stack,
                options: &self.options,
                to: SocketAddr::from(SERVER),
                lent: None,
            };
            while let Some(event) = packets.stack.poll_event() {
                let (token, set, reason) = (event.token, event.set, event.reason);
                let engine = &mut self.engine;
                engine.handle_event(self.now, token, set, reason, &mut packets);
            }
            self.engine.handle_due(self.now, &mut packets);
            while let Some(out) = self.stack.poll_transmit(self.now) {
                let frame = [&[out.head], out.body.parts()].concat().concat();
                self.frames += 1;
                let at = (self.now + self.latency, self.frames);
                self.wire.insert(at, Arrival::ToPeer(frame));
            }
            while let Some(ip) = self.stack.poll_unresolved() {
                self.stack.set_neighbor(self.now, ip, THEIRS);
            }
            let is_more = self
                .wire
                .first_key_value()
                .is_some_and(|((at, _), _)| *at <= self.now);
            if !is_more {
                return;
            }
        }
    }

    fn arrive(&mut self) {
        while let Some(entry) = self.wire.first_entry()
            && entry.key().0 <= self.now
        {
            match entry.remove() {
                Arrival::ToUs(frame) => {
                    self.stack
                        .handle_frame(self.now, &frame, RxChecksum::Unknown);
                }
                Arrival::ToPeer(frame) => {
                    for (after, answer) in self.peer.hear(self.now - START, &frame) {
                        self.frames += 1;
                        let at = (self.now + after + self.latency, self.frames);
                        self.wire.insert(at, Arrival::ToUs(answer));
                    }
                }
            }
        }
    }

    fn pass_to_next(&mut self) {
        let arrival = self.wire.first_key_value().map(|((at, _), _)| *at);
        let next = [
            arrival,
            self.engine.poll_timeout(),
            self.stack.poll_timeout(self.now),
        ];
        let next = next.into_iter().flatten().min();
        self.now = self
            .now
            .max(next.expect("what is not over waits for something"));
    }

    /// What is left open is reset, and what is under way arrives.
    fn end(mut self) -> Seen {
        let mut packets = Packets {
            now: self.now,
            stack: &mut self.stack,
            options: &self.options,
            to: SocketAddr::from(SERVER),
            lent: None,
        };
        self.engine.end(self.now);
        assert!(self.engine.abort(self.now, usize::MAX, &mut packets));
        self.turn();
        while let Some(((at, _), _)) = self.wire.first_key_value() {
            self.now = *at;
            self.turn();
        }
        self.engine
            .statistics
            .seconds
            .advance(self.now + Duration::from_secs(1));
        Seen {
            statistics: self.engine.statistics,
            counters: self.stack.counters(),
            peer: self.peer.counts,
        }
    }
}
