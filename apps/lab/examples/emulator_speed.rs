//! How many frames the emulator carries on one core, and how exactly it keeps time.
//!
//! ```sh
//! cargo build --release -p exos-lab --example emulator_speed
//! target/release/examples/emulator_speed [SECONDS]        # as root
//! ```
//!
//! It makes a lab whose wire delays by 10 ms, with the emulator on one core. On the other core one thread sends
//! from side a, as fast as it can or at a steady rate, and receives at side b, both through AF_XDP. Each frame
//! carries the time at which it was sent. One line for each run: frames per second there; what was lost, and of
//! that in brackets before, in and behind the emulator and at the receiver; the emulator's share of its core; how
//! late it says that frames left; and by how much longer than the delay they took from program to program. It says
//! something only on a machine that is idle otherwise.

use exos_filter::{Action, Filter, Rule};
use exos_host::{Error, affinity};
use exos_lab::{Conditions, Emulated, Emulation, INTERFACE, Settings, Side, emulate};
use exos_link::{RX_BATCH, TxMeta, XdpConfig, XdpLink};
use std::time::{Duration, Instant};

const DELAY: Duration = Duration::from_millis(10);

/// One run.
struct Run {
    frame_len: usize,
    /// Frames per second; `None`: as fast as it goes.
    rate: Option<u64>,
    time: Duration,
}

/// What sender and receiver saw.
#[derive(Default)]
struct Seen {
    sent: u64,
    received: u64,
    /// Time on the way beyond the delay, in nanoseconds.
    errors_ns: Vec<i64>,
    /// Frames that came while the receiver's own ring was full.
    missed: u64,
    /// From the first to the last arrival.
    span: Duration,
}

fn main() -> Result<(), Error> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let time = Duration::from_secs_f64(seconds.unwrap_or(2.0));
    for (frame_len, rate) in [
        (60, Some(100)),
        (60, Some(10_000)),
        (1514, Some(100_000)),
        (60, Some(300_000)),
        (1514, Some(300_000)),
        (60, None),
        (1514, None),
    ] {
        measure(&Run {
            frame_len,
            rate,
            time,
        })?;
    }
    Ok(())
}

fn measure(run: &Run) -> Result<(), Error> {
    let allowed = affinity::allowed()?;
    let conditions = Conditions {
        delay: DELAY,
        ..Conditions::default()
    };
    let lab = emulate(&Settings {
        emulation: Some(Emulation {
            conditions,
            seed: 1,
            core: allowed.last().copied(),
        }),
        ..Settings::named(format!("speed{}", std::process::id()))
    })?;
    let seen = std::thread::scope(|scope| {
        let ends = scope.spawn(|| {
            affinity::pin(allowed[0])?;
            let links = [open(&lab, Side::A)?, open(&lab, Side::B)?];
            Ok::<_, Error>(exchange(links, run))
        });
        ends.join().expect("it does not panic")
    })?;
    print(run, seen, &lab)
}

fn open(lab: &Emulated, side: Side) -> Result<XdpLink, Error> {
    lab.netns(side).enter()?;
    let rules = vec![Rule {
        filter: Filter::everything(),
        action: Action::RedirectToSocket,
    }];
    XdpLink::open(&XdpConfig::new(INTERFACE, rules))
}

/// Sends for the time of the run, and receives until a while after.
fn exchange([mut from, mut to]: [XdpLink; 2], run: &Run) -> Seen {
    let mut seen = Seen::default();
    let mut frame = vec![0xff; run.frame_len];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]); // for local experiments, IEEE 802
    let begin = Instant::now();
    let (mut first, mut last) = (None, begin);
    while begin.elapsed() < run.time + 10 * DELAY {
        let elapsed = begin.elapsed();
        let due = match run.rate {
            _ if elapsed > run.time => 0,
            None => u64::from(RX_BATCH),
            Some(rate) => (elapsed.as_secs_f64() * rate as f64) as u64 - seen.sent,
        };
        for _ in 0..due.min(u64::from(RX_BATCH)).min(from.room() as u64) {
            frame[14..22].copy_from_slice(&(begin.elapsed().as_nanos() as u64).to_be_bytes());
            seen.sent += u64::from(from.transmit(&frame, &[], TxMeta::default()));
        }
        from.flush().expect("the interface is up");
        let got = to.receive(|frame, _| {
            let Some(stamp) = frame.get(14..22).filter(|_| frame[12..14] == [0x88, 0xb5]) else {
                return; // The kernel's own: neighbour discovery.
            };
            let sent = u64::from_be_bytes(stamp.try_into().expect("8 bytes"));
            seen.received += 1;
            let took = begin.elapsed().as_nanos() as i64 - sent as i64;
            seen.errors_ns.push(took - DELAY.as_nanos() as i64);
        });
        if got > 0 {
            last = Instant::now();
            first.get_or_insert(last);
        }
    }
    seen.span = last - first.unwrap_or(last);
    let counters = to.counters();
    let missed = counters
        .iter()
        .find(|(name, _)| *name == "kernel_rx_ring_full");
    seen.missed = missed.map_or(0, |(_, count)| *count);
    seen
}

fn print(run: &Run, mut seen: Seen, lab: &Emulated) -> Result<(), Error> {
    let statistics = lab.statistics()?;
    let there = &statistics.a_to_b;
    seen.errors_ns.sort_unstable();
    let percentile = |share: f64| {
        let last = seen.errors_ns.len().saturating_sub(1);
        let at = (last as f64 * share) as usize;
        seen.errors_ns
            .get(at)
            .map_or(f64::NAN, |ns| *ns as f64 / 1000.0)
    };
    println!(
        "{:>5} B, {:>8}/s: {:>7.1} k/s, lost {} of {} ({:?}); {:>5.1} % of a core; \
         late by {:.0}/{:.0}/{:.0} us (50/99/100 %); too long by {:.0}/{:.0}/{:.0}/{:.0} us (0/50/99/100 %)",
        run.frame_len,
        run.rate.map_or("flood".to_owned(), |rate| rate.to_string()),
        seen.received as f64 / seen.span.as_secs_f64() / 1000.0,
        seen.sent - seen.received,
        seen.sent,
        [
            there.own.own_arrival_dropped,
            there.own.own_rx_ring_full,
            there.own.own_departure_dropped,
            seen.missed,
        ],
        100.0 * statistics.cpu_share,
        there.late.p50_us,
        there.late.p99_us,
        there.late.max_us,
        percentile(0.0),
        percentile(0.5),
        percentile(0.99),
        percentile(1.0),
    );
    Ok(())
}
