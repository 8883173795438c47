//! What a frame costs its sender by each way that an AF_XDP link has on this machine: its transmit ring, and live frame mode.
//!
//! Frames go in batches from one end of a veth to the other, in a network namespace that is made for it and goes with it. The
//! time is that of the sender's core, from writing the first frame of a batch until the kernel has delivered the last:
//! the median of the batches, so that what other programs take from some does not count. A link finds out the same of its
//! own batches while it sends.

use crate::check::{AFTER_THE_OTHERS, About, Check, remedy};
use crate::{modes, trial};
use exos_host::caps;
use exos_host::netns::NetNs;
use exos_host::{Error, Result};
use exos_link::{TransmitChoice, TxMeta, XdpLink};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::{Duration, Instant};

/// How many frames leave at a time. A veth takes 256 and drops what is beyond.
const BATCHES: [usize; 4] = [1, 16, 64, 256];

/// How long each batch is measured by each way: some hundred of the largest.
const MEASURE_TIME: Duration = Duration::from_millis(50);

/// Bytes of the frames.
const FRAME_LEN: usize = 64;

/// What a frame costs its sender in a batch of a given number.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct SendMeasure {
    /// Frames of 64 bytes that are handed to the kernel at a time.
    pub batch: usize,
    /// Time of the sender's core for each by AF_XDP's transmit ring.
    pub ring_ns: u64,
    /// And in live frame mode; `null` where that is not to be had.
    pub live_ns: Option<u64>,
}

/// Measures both ways, and says what came of it.
pub(crate) fn examine() -> (Vec<Check>, Vec<SendMeasure>) {
    let about = About(
        "live-frames",
        "a link sends many frames at once in one system call that batches, where that costs less",
    );
    if !caps::has(modes::NEEDED) {
        let check = about.warn("live frame mode not tried", "run as root");
        return (vec![check], Vec::new());
    }
    let measured = NetNs::anonymous().and_then(|netns| netns.run(|| measure_all(&netns))?);
    let (refusal, measures) = match measured {
        Ok((refusal, measures)) => (refusal, measures),
        Err(error) => (Some(error), Vec::new()),
    };
    let check = match refusal {
        None => about.ok("frames leave in live frame mode"),
        Some(error) => Check::warn(
            about.0,
            format!("no live frame mode: {}", error.sentence()),
            "all frames leave one by one, by AF_XDP's ring",
            remedy(&error, AFTER_THE_OTHERS),
        ),
    };
    let lines = measures.iter().map(describe);
    (std::iter::once(check).chain(lines).collect(), measures)
}

fn describe(measure: &SendMeasure) -> Check {
    let us = |ns: u64| ns as f64 / 1e3;
    let ring = us(measure.ring_ns);
    let (live, meaning) = match measure.live_ns {
        None => (String::new(), "what a frame costs its sender"),
        Some(live) if live < measure.ring_ns => (
            format!(", live frames {:.2} us", us(live)),
            "live frames cost their sender less",
        ),
        Some(live) => (
            format!(", live frames {:.2} us", us(live)),
            "the ring costs the sender less",
        ),
    };
    let what = format!(
        "{:>3} at once  ring {ring:.2} us{live} a frame",
        measure.batch
    );
    Check::ok("sending", what, meaning)
}

/// What each batch costs, and why no frames leave in live frame mode where none do.
fn measure_all(netns: &NetNs) -> Result<(Option<Error>, Vec<SendMeasure>)> {
    modes::wire(netns)?;
    // The receiver first: a veth takes live frames only where its other end has an XDP program.
    let mut far = trial::open("far")?;
    let ring = measure(&mut trial::open_by("near", TransmitChoice::Ring)?, &mut far)?;
    let mut near = trial::open_by("near", TransmitChoice::Batches)?;
    let refusal = near.live_refusal().map(|error| Error {
        mend: error.mend.clone(),
        ..Error::new(error.sentence())
    });
    let (refusal, live) = match refusal {
        Some(error) => (Some(error), [None; BATCHES.len()]),
        None => {
            let live = measure(&mut near, &mut far)?;
            match left_live(&near) {
                true => (None, live.map(Some)),
                false => (Some(not_taken()), [None; BATCHES.len()]),
            }
        }
    };
    let measures = BATCHES.into_iter().zip(ring).zip(live);
    let measures = measures.map(|((batch, ring_ns), live_ns)| SendMeasure {
        batch,
        ring_ns,
        live_ns,
    });
    Ok((refusal, measures.collect()))
}

/// Whether frames have left a link in live frame mode, and none in vain.
fn left_live(link: &XdpLink) -> bool {
    let counters = link.counters();
    let of = |name| {
        let counter = counters.iter().find(|counter| counter.0 == name);
        counter.map_or(0, |counter| counter.1)
    };
    of("tx_live_frames") > 0 && of("tx_live_failed") == 0
}

fn not_taken() -> Error {
    Error::new("frames of a veth leave by the ring all the same")
        .mend("report this kernel to us, with the output of `exos doctor --json`")
}

/// Nanoseconds a frame of each batch.
fn measure(near: &mut XdpLink, far: &mut XdpLink) -> Result<[u64; BATCHES.len()]> {
    let mut frame = [0xe0; FRAME_LEN];
    frame[..6].copy_from_slice(&far.mac().0);
    frame[6..12].copy_from_slice(&near.mac().0);
    frame[12..14].copy_from_slice(&trial::EXPERIMENTAL);
    let mut all = [0; BATCHES.len()];
    for (cost, batch) in all.iter_mut().zip(BATCHES) {
        *cost = cost_of(near, far, &frame, batch)?;
    }
    Ok(all)
}

fn cost_of(near: &mut XdpLink, far: &mut XdpLink, frame: &[u8], batch: usize) -> Result<u64> {
    let mut times = Vec::new();
    let end = Instant::now() + MEASURE_TIME;
    let mut begin = Instant::now();
    while begin < end {
        for _ in 0..batch {
            near.transmit(frame, &[], TxMeta::default());
        }
        near.flush()
            .map_err(|e| Error::io("cannot send over AF_XDP", e))?;
        times.push(begin.elapsed());
        while far.receive(|_, _| {}) > 0 {}
        begin = Instant::now();
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    Ok(median.as_nanos() as u64 / batch as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mark;

    #[test]
    fn lines_say_what_a_frame_costs_and_which_way_costs_less() {
        let line = |ring_ns, live_ns| {
            let batch = 64;
            let check = describe(&SendMeasure {
                batch,
                ring_ns,
                live_ns,
            });
            format!("{}; {}", check.what, check.meaning)
        };
        assert_eq!(
            line(914, Some(402)),
            " 64 at once  ring 0.91 us, live frames 0.40 us a frame; live frames cost their sender less"
        );
        assert!(line(914, Some(2000)).ends_with("the ring costs the sender less"));
        assert_eq!(
            line(914, None),
            " 64 at once  ring 0.91 us a frame; what a frame costs its sender"
        );
    }

    /// Figures depend on the machine; that there are some does not.
    #[test]
    fn both_ways_are_measured_by_root() {
        let (checks, measures) = examine();
        assert_eq!(checks[0].id, "live-frames");
        if measures.is_empty() {
            assert!(checks[0].mend.is_some(), "{checks:?}");
            eprintln!("SKIPPED: measuring what sending costs needs root: {checks:?}");
            return;
        }
        assert_eq!(checks.len(), 1 + BATCHES.len());
        let batches: Vec<usize> = measures.iter().map(|m| m.batch).collect();
        assert_eq!(batches, BATCHES);
        let is_live = checks[0].mark == Mark::Ok;
        for measure in measures {
            assert!(measure.ring_ns > 0, "{measure:?}");
            assert_eq!(
                measure.live_ns.is_some_and(|ns| ns > 0),
                is_live,
                "{measure:?}"
            );
        }
    }
}
