//! Those who visit: which connection does what next, and what is counted.

use super::connection::{Connection, News, Reply, State, closing_reply};
use super::frames::{Request, Wire};
use super::response::{Expected, Fault};
use super::schedule::Schedule;
use super::segment::Segment;
use super::settings::Visit;
use super::tuples::{TUPLES, Tuple};
use super::visited::{Visited, shares};
use crate::stage::calls::Calls;
use crate::stage::request::{self, Errors, Size, body};
use crate::stage::session::now_ns;
use std::collections::VecDeque;

/// How often it is looked for what must be sent again.
const TIMEOUTS_EVERY_NS: u64 = 10_000_000;

/// Full segments that may be under way to all of us together: what the ring for receiving holds.
const SEGMENTS: u32 = 1800;
const SEGMENT_LEN: u32 = 1448;
/// What a slow reader takes at once, and what it reads in a second.
const SLOW_WINDOW: u16 = 8 * SEGMENT_LEN as u16;
const SLOW_READ: u16 = SEGMENT_LEN as u16;
/// Slow readers that connect in a millisecond.
const SLOW_OPENED_PER_MS: u64 = 20;

/// How long requests that were due may be answered after the end, at a given rate.
const DRAIN_NS: u64 = 1_000_000_000;

/// Times that are kept; more are only counted.
const LATENCIES_MAX: usize = 1 << 21;

/// What those who ask for the same document share.
pub(super) struct Group {
    pub request: Request,
    expected: Expected,
}

impl Group {
    fn new(args: &Visit, size: Size, once: bool) -> Self {
        let host = args.to.ip();
        let close = if once { "Connection: close\r\n" } else { "" };
        let document = size.document();
        Self {
            request: Request::new(format!(
                "GET /{document} HTTP/1.1\r\nHost: {host}\r\n{close}\r\n"
            )),
            expected: Expected::new(body(size)),
        }
    }
}

/// The groups' places.
const FAST: usize = 0;
const SLOW: usize = 1;

/// No connection has the tuple.
const NOBODY: u32 = u32::MAX;

/// What is counted.
pub(super) struct Counts {
    since_ns: u64,
    requests: u64,
    bytes: u64,
    errors: Errors,
    resent: u64,
    pub idle_ns: u64,
    latencies_ns: Vec<u32>,
}

impl Counts {
    pub fn new(since_ns: u64) -> Self {
        Self {
            since_ns,
            requests: 0,
            bytes: 0,
            errors: Errors::default(),
            resent: 0,
            idle_ns: 0,
            latencies_ns: Vec::with_capacity(LATENCIES_MAX),
        }
    }

    fn latency(&mut self, ns: u64) {
        if self.latencies_ns.len() < LATENCIES_MAX {
            self.latencies_ns
                .push(u32::try_from(ns).unwrap_or(u32::MAX));
        }
    }
}

/// All of them.
pub(super) struct Visitors {
    pub groups: [Group; 2],
    connections: Vec<Connection>,
    /// How many of them are not slow readers.
    fast: usize,
    /// The connection that has a tuple.
    by_tuple: Vec<u32>,
    next_tuple: u32,
    schedule: Option<Schedule>,
    /// At a given rate: connections with nothing to ask.
    free: VecDeque<u32>,
    /// Connections that owe an acknowledgement.
    owing: Vec<u32>,
    /// To be sent, each with its group.
    pub out: Vec<(usize, Reply)>,
    began_ns: u64,
    timeouts_ns: u64,
    /// Slow readers that were opened, and that have read.
    opened: u64,
    reads: u64,
    pub counts: Counts,
}

impl Visitors {
    pub fn new(args: &Visit, now: u64) -> Self {
        let once = args.kind == request::Connection::New;
        let fast = args.connections.max(1);
        let window = (SEGMENTS / fast * SEGMENT_LEN).clamp(4 * SEGMENT_LEN, u16::MAX.into()) as u16;
        let mut connections = vec![Connection::new(window, false, once); fast as usize];
        let slow = Connection::new(SLOW_WINDOW, true, false);
        connections.extend(vec![slow; args.slow as usize]);
        let mut all = Self {
            groups: [
                Group::new(args, args.size, once),
                Group::new(args, Size::of_bytes(args.slow_size), false),
            ],
            connections,
            fast: fast as usize,
            by_tuple: vec![NOBODY; TUPLES as usize],
            next_tuple: (now / 1000) as u32 % TUPLES,
            schedule: args.rate.map(|rate| Schedule::new(rate, now)),
            free: VecDeque::new(),
            owing: Vec::new(),
            out: Vec::new(),
            began_ns: now,
            timeouts_ns: now,
            opened: 0,
            reads: 0,
            counts: Counts::new(now),
        };
        for at in 0..fast {
            all.rest(at, now);
        }
        all
    }

    const fn group(&self, at: u32) -> usize {
        if (at as usize) < self.fast {
            FAST
        } else {
            SLOW
        }
    }

    /// Takes in a segment.
    pub fn handle(&mut self, tuple: Tuple, segment: Segment<'_>, now: u64) {
        let at = self.by_tuple[tuple.0 as usize];
        if at == NOBODY {
            self.out
                .extend(closing_reply(tuple, segment).map(|reply| (FAST, reply)));
            return;
        }
        let group = self.group(at);
        let connection = &mut self.connections[at as usize];
        let before = connection.state;
        let (news, reply) = connection.handle(segment, &mut self.groups[group].expected, now);
        self.out.extend(reply.map(|reply| (group, reply)));
        if connection.state == State::Asked && connection.owes() == 1 {
            self.owing.push(at);
        }
        self.hear(at, before, news, now);
    }

    fn hear(&mut self, at: u32, before: State, news: News, now: u64) {
        let connection = &self.connections[at as usize];
        if connection.state == State::Idle && before != State::Idle {
            self.by_tuple[connection.tuple.0 as usize] = NOBODY;
        }
        match news {
            News::None => return,
            News::Open => return self.ask(at, now),
            News::Answered => self.answered(at, now),
            News::Closed => {}
            News::Reset if before == State::Connecting => self.counts.errors.connect += 1,
            News::Reset | News::Wrong(Fault::Content) => self.counts.errors.read += 1,
            News::Wrong(Fault::Status) => self.counts.errors.status += 1,
            News::TimedOut => self.counts.errors.timeout += 1,
        }
        // At a given rate a connection that was closed while it had nothing to ask is among the free ones already.
        if before != State::Ready || self.schedule.is_none() {
            self.rest(at, now);
        }
    }

    fn answered(&mut self, at: u32, now: u64) {
        if self.group(at) == SLOW {
            return;
        }
        let begun = self.connections[at as usize].begun_ns;
        self.counts.requests += 1;
        self.counts.bytes += self.groups[FAST].expected.answer_len() as u64;
        if begun >= self.counts.since_ns || self.schedule.is_none() {
            self.counts.latency(now - begun);
        }
    }

    /// A connection has nothing to ask: the next request begins, where each waits for the one before.
    fn rest(&mut self, at: u32, now: u64) {
        if self.group(at) == SLOW {
            return;
        }
        if self.schedule.is_some() {
            self.free.push_back(at);
        } else {
            self.begin(at, now, now);
        }
    }

    /// A request begins that was meant to begin some time ago.
    fn begin(&mut self, at: u32, meant: u64, now: u64) {
        self.connections[at as usize].begun_ns = meant;
        match self.connections[at as usize].state {
            State::Ready => self.ask(at, now),
            _ => self.open(at, now),
        }
    }

    fn open(&mut self, at: u32, now: u64) {
        let tuple = loop {
            self.next_tuple = (self.next_tuple + 1) % TUPLES;
            if self.by_tuple[self.next_tuple as usize] == NOBODY {
                break Tuple(self.next_tuple);
            }
        };
        self.by_tuple[tuple.0 as usize] = at;
        // RFC 9293 §3.4.1: it grows by one every four microseconds, so that no older segment fits.
        let initial = (now / 4000) as u32;
        let reply = self.connections[at as usize].open(tuple, initial, now);
        self.out.push((self.group(at), reply));
    }

    fn ask(&mut self, at: u32, now: u64) {
        let group = self.group(at);
        let request_len = self.groups[group].request.len();
        let reply = self.connections[at as usize].ask(request_len, now);
        self.out.push((group, reply));
    }

    /// Acknowledges what came to those who owe it for this many segments.
    pub fn acknowledge(&mut self, least: u32) {
        let (connections, out, fast) = (&mut self.connections, &mut self.out, self.fast);
        self.owing.retain(|&at| {
            let connection = &mut connections[at as usize];
            if connection.state != State::Asked || connection.owes() == 0 {
                return false;
            }
            let reply = connection.acknowledge(least);
            let group = usize::from(at as usize >= fast);
            out.extend(reply.map(|reply| (group, reply)));
            reply.is_none()
        });
    }

    /// What is due with time; `more`: new requests begin.
    pub fn pass(&mut self, now: u64, more: bool) {
        if more && let Some(schedule) = &mut self.schedule {
            schedule.pass(now);
        }
        while let Some(schedule) = &mut self.schedule
            && !self.free.is_empty()
            && let Some(meant) = schedule.take()
        {
            let at = self.free.pop_front().expect("it is not empty");
            self.begin(at, meant, now);
        }
        self.pass_slow(now);
        if now >= self.timeouts_ns {
            self.timeouts_ns = now + TIMEOUTS_EVERY_NS;
            for at in 0..self.connections.len() as u32 {
                self.time_out(at, now);
            }
        }
    }

    fn pass_slow(&mut self, now: u64) {
        let slow = (self.connections.len() - self.fast) as u64;
        if slow == 0 {
            return;
        }
        let passed = now - self.began_ns;
        let due = (passed / 1_000_000 * SLOW_OPENED_PER_MS).min(slow);
        for n in self.opened..due {
            self.open(self.fast as u32 + n as u32, now);
        }
        self.opened = due;
        // One read of each in a second, one after the other.
        let due = passed * slow / 1_000_000_000;
        for n in self.reads..due {
            let reader = &mut self.connections[self.fast + (n % slow) as usize];
            if reader.state == State::Asked {
                self.out.push((SLOW, reader.read(SLOW_READ, SLOW_WINDOW)));
            }
        }
        self.reads = due;
    }

    fn time_out(&mut self, at: u32, now: u64) {
        let request_len = self.groups[self.group(at)].request.len();
        let connection = &mut self.connections[at as usize];
        let before = connection.state;
        if let Some((news, reply)) = connection.handle_timeout(request_len, now) {
            self.counts.resent += u64::from(reply.is_some());
            let group = self.group(at);
            self.out.extend(reply.map(|reply| (group, reply)));
            self.hear(at, before, news, now);
        }
    }

    /// Resets everything: a server that is asked to end would wait for answers under way.
    pub fn abort(&mut self) {
        for at in 0..self.connections.len() {
            let reply = self.connections[at].abort();
            let group = self.group(at as u32);
            self.out.extend(reply.map(|reply| (group, reply)));
        }
    }

    /// Nothing that was due is left, or it is too late.
    pub fn is_over(&self, now: u64, end: u64) -> bool {
        let waiting = self.schedule.as_ref().map(Schedule::waiting);
        waiting.is_none_or(|waiting| waiting == 0 && self.free.len() == self.fast)
            || now > end + DRAIN_NS
    }

    /// What it saw, at the end.
    pub fn visited(&mut self, end: u64, wire: &Wire, calls: Calls) -> Visited {
        let now = now_ns();
        let unanswered = self.count_unanswered(now);
        let counts = &mut self.counts;
        counts.latencies_ns.sort_unstable();
        let seconds =
            (if self.schedule.is_some() { end } else { now } - counts.since_ns) as f64 / 1e9;
        let readers = &self.connections[self.fast..];
        Visited {
            seconds,
            requests: counts.requests,
            bytes: counts.bytes,
            errors: counts.errors,
            resent: counts.resent,
            checksum_faults: wire.faults.checksum,
            no_room: wire.faults.no_room,
            working: 1.0 - counts.idle_ns as f64 / (now - counts.since_ns) as f64,
            calls,
            latency_us: shares(&counts.latencies_ns),
            unanswered,
            request_len: self.groups[FAST].request.len(),
            head_len: self.groups[FAST].expected.seen_head_len(),
            readers: readers.iter().filter(|c| c.state == State::Asked).count() as u32,
        }
    }

    /// At a given rate, what is under way or waits has taken at least until now.
    fn count_unanswered(&mut self, now: u64) -> u64 {
        let Some(schedule) = &mut self.schedule else {
            return 0;
        };
        let fast = &self.connections[..self.fast];
        let busy = |c: &&Connection| matches!(c.state, State::Asked | State::Connecting);
        let mut begun: Vec<u64> = fast.iter().filter(busy).map(|c| c.begun_ns).collect();
        begun.extend(std::iter::from_fn(|| schedule.take()));
        for meant in &begun {
            self.counts.latency(now - meant);
        }
        begun.len() as u64
    }
}
