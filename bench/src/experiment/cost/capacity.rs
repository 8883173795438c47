//! Memory and time of many connections, each measured in a process of its own.
//!
//! **Memory** is what the kernel has given the process for it (`Anonymous` in `/proc/self/smaps_rollup`), after
//! less before: index, timers, control blocks, heap, and what the allocator wastes. The clients' memory is there
//! before. It says nothing below some ten thousand connections, because the allocator takes memory in pieces.
//!
//! **Time** is that of the processor's clock around batches of segments from clients drawn at random, written
//! before the clock is read. With a million connections each touches memory that no cache holds.

use super::clients::{Crowd, Frame};
use super::role::MESSAGE_BYTES;
use crate::report::figures;
use crate::stage::cpu::unreadable;
use crate::stage::helper::Helper;
use exos_buf::Buffer;
use exos_host::{Error, Result};
use exos_inet::tcp::Wheel;
use exos_inet::{Duration, Instant};
use procfs::process::Process;
use serde::{Deserialize, Serialize};
use std::hint::black_box;

/// Segments in a batch: few enough for their frames to stay in the first cache.
const BATCH: usize = 64;

/// Segments that are timed.
const TIMED: usize = 400_000;

/// Connections that are asked for again and again where warm caches are measured.
const WARM: u32 = 256;

/// Time after which all that a connection keeps only while data is in flight is given back.
const REST: Duration = Duration::from_secs(10);

/// Time that the deadlines of the timers spread over: a minute, as those of connections do.
const TIMERS_SPREAD_MS: u64 = 60_000;

figures! {
    /// Idle connections.
    #[derive(Copy, Deserialize)]
    pub struct Idle {
        /// How many there are.
        connections: u32, "connections";
        /// Memory of one that has exchanged nothing but its handshake; of little meaning below some ten thousand.
        bytes_fresh: f64, "fresh B" 0;
        /// Memory of one that has answered a request and rested.
        bytes_used: f64, "used B" 0;
        /// Making one: SYN to accepted.
        open_ns: f64, "open ns" 0;
        /// The look-up alone: hash, index, the control block's first line, of a connection drawn at random, each
        /// waiting for the one before.
        lookup_ns: f64, "look-up" 0;
        /// The look-up of one of 256 connections: their memory is in a cache, whatever the others'.
        lookup_warm_ns: f64, "warm" 0;
        /// Taking in an acknowledgement that says nothing new, for a connection drawn at random.
        ack_ns: f64, "ack" 0;
        /// Taking in such an acknowledgement for one of 256 connections.
        ack_warm_ns: f64, "warm" 0;
        /// Taking in a request of 100 bytes, reading and answering it, for a connection drawn at random; the answer's frame is written.
        request_ns: f64, "request" 0;
        /// Bytes of the process in huge pages; not zero for the entry that `--huge-pages` adds, where the kernel has any.
        huge_bytes: u64, "huge MiB" |r| r.huge_bytes >> 20;
    }
}

figures! {
    /// Connections in TIME-WAIT.
    #[derive(Copy, Deserialize)]
    pub struct TimeWait {
        /// How many there are.
        connections: u32, "connections";
        /// Memory of one, its share of the index included.
        bytes: f64, "B" 0;
    }
}

figures! {
    /// The timer wheel.
    #[derive(Copy, Deserialize)]
    pub struct Timers {
        /// Timers armed at once.
        timers: u32, "timers";
        /// Arming one, its deadline drawn at random from a minute.
        arm_ns: f64, "arm ns" 0;
        /// One coming up, or being forgotten: which is the same work, done when its time has come.
        expire_ns: f64, "expire ns" 0;
        /// Arming one while another comes up, with this many armed all the time.
        turnover_ns: f64, "both ns" 0;
        /// Millions of operations a second: an arming or a coming up each.
        millions_per_sec: f64, "million/s" 1;
    }
}

/// Keeps this many idle connections.
#[derive(Copy, Clone, Debug, Serialize, Deserialize)]
pub(crate) struct IdleConnections(pub u32);

/// Keeps this many connections in TIME-WAIT.
#[derive(Copy, Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WaitingConnections(pub u32);

/// Arms and expires this many timers.
#[derive(Copy, Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ManyTimers(pub u32);

impl Helper for IdleConnections {
    const NAME: &'static str = "idle-connections";
    type Measured = Idle;

    fn run(self) -> Result<Idle> {
        idle(self.0)
    }
}

impl Helper for WaitingConnections {
    const NAME: &'static str = "time-wait";
    type Measured = TimeWait;

    fn run(self) -> Result<TimeWait> {
        time_wait(self.0)
    }
}

impl Helper for ManyTimers {
    const NAME: &'static str = "timers";
    type Measured = Timers;

    fn run(self) -> Result<Timers> {
        Ok(timers(self.0))
    }
}

pub(super) const IDLE_NOTE: &str = "Memory of each in bytes, after its handshake and after a request (goal 512), and time in \
    nanoseconds: to open one, to look one up, to take in an acknowledgement, and to take in and answer a request; warm: of 256 \
    that the caches hold.";

pub(super) const TIMERS_NOTE: &str = "Nanoseconds to arm one, for one to come up or be forgotten, and for both at once; goal: 10 \
    million operations a second.";

/// Draws numbers: the same ones in every run.
struct Draw(u64);

impl Draw {
    /// Below `bound`. Marsaglia's xorshift64; the bias of the remainder does not matter here.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Memory that this process has written to and not given back, in bytes.
fn memory() -> Result<u64> {
    memory_in("Anonymous")
}

/// What one line of the kernel's account of this process says, in bytes.
fn memory_in(line: &str) -> Result<u64> {
    let rollup = Process::myself().and_then(|process| process.smaps_rollup());
    let rollup = rollup.map_err(unreadable("the memory of this process"))?;
    let mut maps = rollup.memory_map_rollup.0.iter();
    let found = maps.find_map(|map| map.extension.map.get(line).copied());
    found.ok_or_else(|| Error::new(format!("the kernel does not tell {line} of this process")))
}

fn growth(before: u64, connections: u32) -> Result<f64> {
    Ok(memory()?.saturating_sub(before) as f64 / f64::from(connections))
}

fn ns_each(since: std::time::Instant, count: usize) -> f64 {
    since.elapsed().as_nanos() as f64 / count as f64
}

/// Keep idle connections, and see what they cost.
fn idle(connections: u32) -> Result<Idle> {
    let mut crowd = Crowd::new(connections);
    let before = memory()?;
    let start = std::time::Instant::now();
    open_all(&mut crowd);
    let open_ns = ns_each(start, connections as usize);
    crowd.pass(REST);
    let bytes_fresh = growth(before, connections)?;
    let answer = answer();
    for client in 0..connections {
        let mut frame = Frame::EMPTY;
        crowd.request(client, &mut frame);
        // A hundred thousand a second: what a connection at work holds is given back within a few round trips, and
        // serves the next.
        crowd.now += Duration::from_micros(10);
        serve(&mut crowd, &frame, &answer);
        crowd.hear(client);
        crowd.bare(client, &mut frame);
        crowd.deliver(&frame);
        while crowd.stack.poll_event().is_some() {}
    }
    crowd.pass(REST);
    let bytes_used = growth(before, connections)?;
    assert_eq!(crowd.stack.tcp.connections(), connections as usize);
    let lookup_ns = time_lookups(&crowd, connections);
    let lookup_warm_ns = time_lookups(&crowd, connections.min(WARM));
    let ack_ns = time_acks(&mut crowd, connections);
    let ack_warm_ns = time_acks(&mut crowd, connections.min(WARM));
    let request_ns = time_requests(&mut crowd, &answer);
    Ok(Idle {
        connections,
        bytes_fresh,
        bytes_used,
        open_ns,
        lookup_ns,
        lookup_warm_ns,
        ack_ns,
        ack_warm_ns,
        request_ns,
        huge_bytes: memory_in("AnonHugePages")?,
    })
}

/// What every request is answered with.
fn answer() -> Buffer {
    let answer = Buffer::from(vec![b'a'; MESSAGE_BYTES]);
    answer.prepare_sums();
    answer
}

/// Open all connections, a microsecond apart.
fn open_all(crowd: &mut Crowd) {
    for client in 0..crowd.len() {
        crowd.now += Duration::from_micros(1);
        crowd.open(client);
        crowd.stack.handle_timeout(crowd.now);
        while crowd.stack.poll_event().is_some() {}
    }
}

/// A request comes in and is answered; the answer's frame is left to be asked for.
#[inline]
fn serve(crowd: &mut Crowd, frame: &Frame, answer: &Buffer) {
    crowd.deliver(frame);
    crowd.stack.handle_timeout(crowd.now);
    while let Some(event) = crowd.stack.poll_event() {
        let tcp = &mut crowd.stack.tcp;
        let count = tcp.readable(event.connection).len();
        if count > 0 {
            tcp.consume(event.connection, count);
            tcp.send(event.connection, answer.whole());
        }
    }
}

/// Look up connections among the first `among`.
fn time_lookups(crowd: &Crowd, among: u32) -> f64 {
    let (mut draw, mut last) = (Draw(5), 0);
    let start = std::time::Instant::now();
    for _ in 0..TIMED {
        // The next one is known when the last was found: what is measured is the time, not the rate.
        let client = (draw.below(u64::from(among)) as u32 + u32::from(last == u32::MAX)) % among;
        let id = crowd.look_up(client).expect("every client is connected");
        last = black_box(id.slot());
    }
    ns_each(start, TIMED)
}

fn time_acks(crowd: &mut Crowd, among: u32) -> f64 {
    let mut draw = Draw(7);
    let mut frames = vec![Frame::EMPTY; BATCH];
    let mut spent = std::time::Duration::ZERO;
    for _ in 0..TIMED / BATCH {
        for frame in &mut frames {
            let client = draw.below(u64::from(among)) as u32;
            crowd.bare(client, frame);
        }
        let start = std::time::Instant::now();
        measured_turns_of_acks(crowd, &frames);
        spent += start.elapsed();
    }
    spent.as_nanos() as f64 / (TIMED / BATCH * BATCH) as f64
}

/// By this name callgrind finds it.
#[inline(never)]
fn measured_turns_of_acks(crowd: &mut Crowd, frames: &[Frame]) {
    for frame in frames {
        crowd.deliver(frame);
    }
}

fn time_requests(crowd: &mut Crowd, answer: &Buffer) -> f64 {
    let mut draw = Draw(11);
    let mut frame = Frame::EMPTY;
    let mut spent = std::time::Duration::ZERO;
    let count = TIMED / 4;
    for _ in 0..count {
        let client = draw.below(u64::from(crowd.len())) as u32;
        crowd.now += Duration::from_micros(3);
        crowd.request(client, &mut frame);
        let start = std::time::Instant::now();
        serve(crowd, &frame, answer);
        spent += start.elapsed();
        // Reading the clock twice costs some 50 ns, which are counted; hearing is the client's own time.
        crowd.hear(client);
    }
    spent.as_nanos() as f64 / count as f64
}

/// Keep connections in TIME-WAIT.
fn time_wait(connections: u32) -> Result<TimeWait> {
    let mut crowd = Crowd::new(connections);
    let before = memory()?;
    for client in 0..connections {
        crowd.now += Duration::from_micros(1);
        crowd.open(client);
        while let Some(event) = crowd.stack.poll_event() {
            crowd.stack.tcp.finish(event.connection);
        }
        crowd.hear(client);
        crowd.finish(client);
        crowd.hear(client);
        while crowd.stack.poll_event().is_some() {}
        crowd.stack.handle_timeout(crowd.now);
    }
    // What the wheel still holds of connections that are gone comes up within the longest deadline.
    crowd.pass(REST);
    assert_eq!(
        crowd.stack.tcp.time_wait_connections(),
        connections as usize
    );
    Ok(TimeWait {
        connections,
        bytes: growth(before, connections)?,
    })
}

/// Arm and expire timers.
fn timers(timers: u32) -> Timers {
    let mut draw = Draw(13);
    let mut now_ms = 1000;
    let mut wheel = Wheel::new(Instant::from_millis(now_ms));
    let mut at = |now: u64| Instant::from_millis(now + 1 + draw.below(TIMERS_SPREAD_MS));
    // Once to make the wheel's memory, once measured.
    let mut due = Vec::new();
    (0..timers).for_each(|n| wheel.arm(at(now_ms), n));
    now_ms += TIMERS_SPREAD_MS + 1;
    wheel.expire(Instant::from_millis(now_ms), &mut due);
    due.clear();
    let start = std::time::Instant::now();
    (0..timers).for_each(|n| wheel.arm(at(now_ms), n));
    let arm_ns = ns_each(start, timers as usize);
    let start = std::time::Instant::now();
    let mut turned = 0;
    for _ in 0..TIMERS_SPREAD_MS / 2 {
        now_ms += 1;
        wheel.expire(Instant::from_millis(now_ms), &mut due);
        turned += due.len();
        due.drain(..).for_each(|n| wheel.arm(at(now_ms), n));
    }
    let turnover_ns = ns_each(start, turned.max(1));
    let start = std::time::Instant::now();
    let mut expired = 0;
    for _ in 0..=TIMERS_SPREAD_MS {
        now_ms += 1;
        wheel.expire(Instant::from_millis(now_ms), &mut due);
        expired += due.len();
        due.clear();
    }
    let expire_ns = ns_each(start, timers as usize);
    assert!(
        expired == timers as usize && wheel.is_empty(),
        "a timer was lost"
    );
    Timers {
        timers,
        arm_ns,
        expire_ns,
        turnover_ns,
        millions_per_sec: 2000.0 / (arm_ns + expire_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_rollup() {
        assert!(memory().unwrap() > 4096);
        assert!(memory_in("AnonHugePages").is_ok() && memory_in("no such line").is_err());
    }

    /// Enough connections for the clients' second address, and for the memory to be more than noise.
    #[test]
    fn idle_connections_cost_something_but_not_much() {
        let idle = idle(60_000).unwrap();
        assert!((64.0..4096.0).contains(&idle.bytes_used), "{idle:?}");
        // Which of them takes longer is not looked at: other programs have the processor at times.
        assert!(idle.ack_ns > 0.0 && idle.request_ns > 0.0, "{idle:?}");
    }

    /// `time_wait` asserts that all of them are there. What they take is not looked at: other tests of this process
    /// take memory at the same time.
    #[test]
    fn all_connections_reach_time_wait() {
        assert_eq!(time_wait(20_000).unwrap().connections, 20_000);
    }

    #[test]
    fn no_timer_is_lost() {
        let timers = timers(10_000);
        assert!(timers.millions_per_sec > 0.0);
    }
}
