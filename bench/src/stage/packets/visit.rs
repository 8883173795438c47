//! The loop: visitors that ask one request after the other, or at a given rate, and slow readers beside them.

use super::Visit;
use super::beside::Beside;
use super::frames::Wire;
use super::visitors::{Counts, Visitors};
use crate::stage::helper::{Helper, say_ready};
use crate::stage::now_ns;
use crate::stage::web::Errors;
use exos_host::Result;
use exos_wire::Mac;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What is not measured at the beginning: connections are made, the server's caches are warm by then.
const WARMUP_NS: u64 = 300_000_000;
/// The same with slow readers, who need longer until they have filled their windows.
const SLOW_WARMUP_NS: u64 = 2_000_000_000;
/// Frames of a burst that are sent without a rest, and the rest.
const PART: usize = 128;
const PART_REST: Duration = Duration::from_micros(50);
/// How long requests that were due may be answered after the end, at a given rate.
pub(super) const DRAIN_NS: u64 = 1_000_000_000;
/// Shares of requests for which the time is told, in percent.
const SHARES: [f64; 12] = [
    5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9, 99.99, 100.0,
];

/// What a visit saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Visited {
    /// How long it measured.
    pub seconds: f64,
    /// Whole and right answers in that time.
    pub requests: u64,
    /// Their bytes, heads included.
    pub bytes: u64,
    /// What went wrong.
    pub errors: Errors,
    /// Segments of ours that were sent again.
    pub resent: u64,
    /// Segments that came with a wrong checksum.
    pub checksum_faults: u64,
    /// Segments of ours that the link had no room for.
    pub no_room: u64,
    /// The part of the time in which there was something to do: near 1 this client limits.
    pub working: f64,
    /// `[percent, microseconds]`: this share of the requests took at most this time, from when they were meant to begin.
    pub latency_us: Vec<(f64, f64)>,
    /// Requests that were due and not answered in time; they are among the latencies with the time that had passed.
    pub unanswered: u64,
    /// Bytes of the request, and of the head of an answer.
    pub request_len: usize,
    /// The same of the answer's head.
    pub head_len: usize,
    /// Slow readers that were there at the end.
    pub readers: u32,
}

impl Visited {
    /// Answers a second.
    pub fn per_sec(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// The time that this many percent of the requests took at most, of the shares that are told.
    pub fn latency(&self, percent: f64) -> f64 {
        let found = self.latency_us.iter().find(|(share, _)| *share == percent);
        found.map_or(f64::NAN, |(_, us)| *us)
    }
}

impl Helper for Visit {
    const NAME: &'static str = "visit";
    type Measured = Visited;

    fn run(self) -> Result<Visited> {
        visit(&self)
    }
}

fn visit(args: &Visit) -> Result<Visited> {
    let mut beside = Beside::open(args)?;
    let mut wire = Wire::open(Mac(args.mac), args.to, args.queues)?;
    beside.as_mut().map_or(Ok(()), Beside::await_go)?;
    let pause = args.pause_ms.map(Duration::from_millis);
    let mut visitors = Visitors::new(args, now_ns());
    let times = Times::new(args, now_ns());
    let (mut last, mut worked, mut measuring) = (now_ns(), true, false);
    loop {
        let now = now_ns();
        if !worked {
            visitors.counts.idle_ns += now - last;
        }
        last = now;
        if !measuring && now >= times.begin {
            visitors.counts = Counts::new(now);
            say_ready()?;
            measuring = true;
        }
        if now >= times.end && visitors.is_over(now, times.end) {
            break;
        }
        let got = wire.receive(|tuple, segment| visitors.handle(tuple, segment, now));
        visitors.acknowledge(if got == 0 { 1 } else { 2 });
        visitors.pass(now, now < times.end);
        worked = got > 0 || !visitors.out.is_empty();
        if pause.is_some() && got > 0 {
            continue; // First all that has come.
        }
        if worked || pause.is_some() {
            send(&mut visitors, &mut wire, now, pause.is_some())?;
        }
        pause.into_iter().for_each(std::thread::sleep);
        if let Some(beside) = &mut beside {
            worked |= beside.turn()?;
        }
    }
    let visited = visitors.visited(times.end, &wire);
    visitors.abort();
    send(&mut visitors, &mut wire, now_ns(), false)?;
    Ok(visited)
}

/// Sends what is to be sent, and gives memory of what was received back. In bursts it rests between parts: a veth keeps 256
/// frames that nobody has taken in, and who takes them in, a soft interrupt, may wait for this core.
fn send(visitors: &mut Visitors, wire: &mut Wire, now: u64, is_burst: bool) -> Result<()> {
    for (sent, (group, reply)) in visitors.out.drain(..).enumerate() {
        if is_burst && sent > 0 && sent % PART == 0 {
            wire.flush()?;
            std::thread::sleep(PART_REST);
        }
        let request = &visitors.groups[group].request;
        wire.send(&reply, request, (now / 1_000_000) as u32);
    }
    wire.flush()
}

struct Times {
    begin: u64,
    end: u64,
}

impl Times {
    fn new(args: &Visit, now: u64) -> Self {
        let warmup = if args.slow > 0 {
            SLOW_WARMUP_NS
        } else {
            WARMUP_NS
        };
        let begin = now + warmup;
        let end = begin + (args.seconds * 1e9) as u64;
        Self { begin, end }
    }
}

/// The time that each share of these took at most.
pub(super) fn shares(sorted_ns: &[u32]) -> Vec<(f64, f64)> {
    let Some(last) = sorted_ns.len().checked_sub(1) else {
        return Vec::new();
    };
    let at = |share: f64| (sorted_ns.len() as f64 * share / 100.0).ceil() as usize;
    let of = |share: f64| f64::from(sorted_ns[at(share).saturating_sub(1).min(last)]) / 1000.0;
    SHARES.iter().map(|&share| (share, of(share))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_hundred_times() {
        let times: Vec<u32> = (1..=100).map(|n| n * 1000).collect();
        let shares = shares(&times);
        let of = |share: f64| shares.iter().find(|(s, _)| *s == share).expect("told").1;
        assert_eq!(
            (of(50.0), of(99.0), of(99.9), of(100.0)),
            (50.0, 99.0, 100.0, 100.0)
        );
        assert!(super::shares(&[]).is_empty());
    }
}
