//! What an emulated wire does to real frames, held against its settings.
//!
//! Frames go from side a to side b through AF_XDP at both ends. Each carries its number and the time at which it
//! was sent; the time at which it came is the kernel's at side b, so what is measured is the wire and not when the
//! test looked. Random shares are held to five standard deviations. Without root the tests say SKIPPED and pass.

use exos_filter::{Action, Filter, Rule};
use exos_host::caps::{self, CapabilitySet};
use exos_host::priority;
use exos_lab::{Conditions, Emulated, Emulation, INTERFACE, Settings, Side, Statistics, emulate};
use exos_link::{TxMeta, XdpConfig, XdpLink};
use rustix::time::{ClockId, clock_gettime};
use std::io::Write as _;
use std::time::Duration;

/// How long to wait for what must happen, on a machine that may do other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// A length that no frame of the kernel's own has.
const FRAME_LEN: usize = 777;

/// False, and says so, when we may not make namespaces.
fn may(test: &str) -> bool {
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN;
    let may = caps::has(needed | CapabilitySet::NET_RAW | CapabilitySet::BPF);
    if !may {
        let _ = std::io::stderr().write_all(format!("SKIPPED: {test} needs root\n").as_bytes());
    }
    may
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn now_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// A frame that came.
#[derive(Debug)]
struct Arrival {
    number: u64,
    sent_ns: u64,
    arrived_ns: u64,
    /// Bits other than they were sent.
    wrong_bits: u32,
}

impl Arrival {
    fn took_ns(&self) -> u64 {
        self.arrived_ns.saturating_sub(self.sent_ns)
    }
}

/// An IPv4 frame, all known but the number and the time, which are at 50 and 58; at 66 is a check of both, so that
/// one wrong bit anywhere is one wrong bit of the whole.
fn frame(number: u64, sent_ns: u64) -> Vec<u8> {
    let mut frame = vec![0x5a; FRAME_LEN];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[50..58].copy_from_slice(&number.to_be_bytes());
    frame[58..66].copy_from_slice(&sent_ns.to_be_bytes());
    frame[66..74].copy_from_slice(&(number ^ sent_ns.rotate_left(32)).to_be_bytes());
    frame
}

fn arrival(bytes: &[u8], arrived_ns: u64) -> Arrival {
    let word = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let (number, sent_ns) = (word(50), word(58));
    let whole = frame(number, sent_ns);
    let wrong = bytes.iter().zip(&whole).map(|(a, b)| (a ^ b).count_ones());
    Arrival {
        number,
        sent_ns,
        arrived_ns,
        wrong_bits: wrong.sum(),
    }
}

/// A lab with the ends of its wire open.
struct Wire {
    lab: Emulated,
    from: XdpLink,
    to: XdpLink,
    sent: u64,
    arrivals: Vec<Arrival>,
}

impl Wire {
    fn new(test: &str, conditions: Conditions) -> Self {
        let lab = emulate(&Settings {
            emulation: Some(Emulation {
                conditions,
                seed: 42,
                core: None,
            }),
            ..Settings::named(format!("f{}-{test}", std::process::id()))
        })
        .expect("root may");
        let open = |side| {
            lab.netns(side).run(|| {
                let rules = vec![Rule {
                    filter: Filter::everything(),
                    action: Action::RedirectToSocket,
                }];
                XdpLink::open(&XdpConfig {
                    arrival_times: true,
                    ..XdpConfig::new(INTERFACE, rules)
                })
            })
        };
        // As the emulator does: a burst is to leave as one, also where others want the core.
        let _ = priority::real_time();
        let [from, to] = Side::BOTH.map(|side| open(side).expect("entered").expect("root may"));
        Self {
            lab,
            from,
            to,
            sent: 0,
            arrivals: Vec::new(),
        }
    }

    /// Sends this many frames, a burst in each millisecond.
    fn send(&mut self, count: u64, burst: u64) {
        let end = self.sent + count;
        loop {
            for _ in 0..burst.min(end - self.sent) {
                let frame = frame(self.sent, now_ns());
                assert!(self.from.transmit(&frame, &[], TxMeta::default()), "room");
                self.sent += 1;
            }
            self.from.flush().expect("the interface is up");
            self.receive();
            if self.sent == end {
                return;
            }
            // Not by the clock: to catch up after a pause would be a burst that overflows a veth.
            std::thread::sleep(ms(1));
        }
    }

    fn receive(&mut self) {
        let arrivals = &mut self.arrivals;
        while self.to.receive(|bytes, meta| {
            if bytes.len() == FRAME_LEN {
                let arrived_ns = meta.arrived_ns.expect("asked for");
                arrivals.push(arrival(bytes, arrived_ns));
            }
        }) > 0
        {}
    }

    /// Receives until nothing is under way any more; all that came, and the emulator's statistics. Each frame is
    /// accounted for: it came, or the emulator says what it did with it, or what it could not carry.
    fn finish(mut self) -> (Vec<Arrival>, Statistics) {
        let mut statistics = self.lab.statistics().expect("it runs");
        let end_ns = now_ns() + PATIENCE.as_nanos() as u64;
        while now_ns() < end_ns {
            self.receive();
            let there = &statistics.a_to_b;
            if there.frames.held_frames == 0
                && there.frames.received + there.own.total() >= self.sent
            {
                break;
            }
            std::thread::sleep(ms(5));
            statistics = self.lab.statistics().expect("it runs");
        }
        std::thread::sleep(ms(5));
        self.receive();
        let (frames, own) = (&statistics.a_to_b.frames, &statistics.a_to_b.own);
        // The kernel of side a has a few words of its own (neighbour discovery), some of which we lose too.
        let of_kernel = frames.received + own.total() - self.sent;
        assert!(of_kernel < 30, "{frames:?} {own:?}");
        let counters = self.to.counters();
        let missed = counters
            .iter()
            .filter(|(name, _)| ["kernel_rx_dropped", "kernel_rx_ring_full"].contains(name));
        let missed: u64 = missed.map(|(_, count)| count).sum();
        let known = self.arrivals.len() as u64 + frames.lost() + own.total() + missed;
        let all = self.sent + frames.duplicated;
        assert!(
            (all - of_kernel..=all + of_kernel).contains(&known),
            "{known}: {statistics:?}"
        );
        (self.arrivals, statistics)
    }
}

/// Five standard deviations of a count with this probability.
fn assert_share(count: usize, of: usize, share: f64) {
    let expected = of as f64 * share;
    let tolerance = 5.0 * (expected * (1.0 - share)).sqrt();
    assert!(
        (count as f64 - expected).abs() <= tolerance,
        "{count} of {of} is not {share}"
    );
}

#[test]
fn every_frame_takes_the_delay_and_hardly_more() {
    if !may("delay") {
        return;
    }
    let mut wire = Wire::new(
        "delay",
        Conditions {
            delay: ms(10),
            ..Conditions::default()
        },
    );
    wire.send(300, 1);
    let (arrivals, statistics) = wire.finish();
    assert_eq!(arrivals.len(), 300);
    assert!(arrivals.is_sorted_by_key(|a| a.number));
    let mut took: Vec<u64> = arrivals.iter().map(Arrival::took_ns).collect();
    took.sort_unstable();
    assert!(took[0] >= 10_000_000, "{} is too soon", took[0]);
    // On an idle machine some 30 us; tests run beside each other, on machines that do other things.
    assert!(took[150] < 11_000_000, "{} in the middle", took[150]);
    assert!(statistics.a_to_b.late.p50_us < 1000.0, "{statistics:?}");
}

#[test]
fn jitter_stays_within_its_bounds_and_keeps_the_order() {
    if !may("jitter") {
        return;
    }
    let mut wire = Wire::new(
        "jitter",
        Conditions {
            delay: ms(10),
            jitter: ms(5),
            ..Conditions::default()
        },
    );
    wire.send(300, 1);
    let (arrivals, _) = wire.finish();
    assert_eq!(arrivals.len(), 300);
    assert!(arrivals.is_sorted_by_key(|a| a.number));
    let mut took: Vec<u64> = arrivals.iter().map(Arrival::took_ns).collect();
    took.sort_unstable();
    assert!(took[0] >= 5_000_000, "{}", took[0]);
    assert!(took[150] < 16_000_000, "{}", took[150]);
    assert!(took[290] - took[10] > 1_000_000, "it varies");
}

#[test]
fn losses_have_their_share() {
    if !may("loss") {
        return;
    }
    let mut wire = Wire::new(
        "loss",
        Conditions {
            loss: 0.05,
            burst_loss: Some("3%:5".parse().expect("valid")),
            ..Conditions::default()
        },
    );
    wire.send(20_000, 100);
    let (arrivals, statistics) = wire.finish();
    let frames = &statistics.a_to_b.frames;
    let received = frames.received as usize;
    // Those lost in a burst are not counted as lost at random too.
    assert_share(frames.lost_random as usize, received, 0.05 * 0.97);
    // Bursts of mean length 5 vary by a factor of 2 * 5 - 1 more.
    let expected = frames.received as f64 * 0.03;
    let tolerance = 5.0 * (expected * 9.0).sqrt();
    assert!(
        (frames.lost_burst as f64 - expected).abs() < tolerance,
        "{frames:?}"
    );
    assert!(arrivals.is_sorted_by_key(|a| a.number));
}

#[test]
fn a_share_is_reordered_duplicated_corrupted() {
    if !may("reorder") {
        return;
    }
    let mut wire = Wire::new(
        "mixed",
        Conditions {
            delay: ms(2),
            reorder: 0.05,
            reorder_by: Some(ms(3)),
            duplicate: 0.04,
            corrupt: 0.03,
            ..Conditions::default()
        },
    );
    wire.send(10_000, 50);
    let (arrivals, statistics) = wire.finish();
    let frames = &statistics.a_to_b.frames;
    assert_share(frames.duplicated as usize, frames.received as usize, 0.04);
    let damaged: Vec<_> = arrivals.iter().filter(|a| a.wrong_bits > 0).collect();
    assert_share(damaged.len(), 10_000, 0.03);
    assert!(damaged.iter().all(|a| a.wrong_bits == 1), "{damaged:?}");
    let held = |a: &&Arrival| a.wrong_bits == 0 && a.took_ns() >= 5_000_000;
    let held = arrivals.iter().filter(held).count();
    assert!(held as u64 + frames.corrupted >= frames.reordered, "{held}");
    assert_share(frames.reordered as usize, arrivals.len(), 0.05);
    let mut seen = vec![0; 10_000];
    for arrival in arrivals.iter().filter(|a| a.wrong_bits == 0) {
        seen[arrival.number as usize] += 1;
    }
    assert!(seen.iter().all(|n| *n <= 2));
}

/// 777 bytes at 50 Mbit/s.
const FRAME_NS: f64 = 777.0 * 8.0 / 50e6 * 1e9;

/// Everything comes at once, so the link is never idle until the last has left.
#[test]
fn the_rate_is_kept() {
    if !may("rate") {
        return;
    }
    let mut wire = Wire::new(
        "rate",
        Conditions {
            rate_bits_per_sec: Some(50_000_000),
            queue_bytes: Some(10_000_000),
            ..Conditions::default()
        },
    );
    wire.send(1_500, 1_500);
    let (arrivals, statistics) = wire.finish();
    // On a choked machine some may have been lost on their way to the emulator.
    let passed = arrivals.len();
    assert!(passed > 1_000, "{statistics:?}");
    assert_eq!(statistics.a_to_b.frames.lost(), 0);
    for (n, arrival) in (1..).zip(&arrivals) {
        let soonest_ns = arrivals[0].sent_ns as f64 + f64::from(n) * FRAME_NS;
        assert!(
            arrival.arrived_ns as f64 >= soonest_ns - 1.0,
            "{n}: {arrival:?}"
        );
    }
    let span_ns = (arrivals[passed - 1].arrived_ns - arrivals[0].arrived_ns) as f64;
    // The emulator says itself by how much it was kept from its work at most.
    let late_ns = statistics.a_to_b.late.max_us * 1000.0 + 1e6;
    let error_ns = span_ns - (passed - 1) as f64 * FRAME_NS;
    assert!(error_ns.abs() < late_ns, "{error_ns} {late_ns}");
}

/// As much passes as the queue holds, and what the link sends meanwhile.
#[test]
fn a_full_queue_drops() {
    if !may("queue") {
        return;
    }
    let mut wire = Wire::new(
        "queue",
        Conditions {
            rate_bits_per_sec: Some(50_000_000),
            queue_bytes: Some(20 * FRAME_LEN as u64),
            ..Conditions::default()
        },
    );
    wire.send(500, 500);
    let end_ns = now_ns();
    let (arrivals, statistics) = wire.finish();
    let frames = &statistics.a_to_b.frames;
    assert_eq!(frames.lost(), frames.drop_queue_full);
    let span_ns = end_ns - arrivals[0].sent_ns;
    let sent_meanwhile = (span_ns as f64 / FRAME_NS) as usize;
    let passed = arrivals.len();
    assert!(
        (18..=22 + sent_meanwhile).contains(&passed),
        "{passed}, {sent_meanwhile}"
    );
    let longest = arrivals.iter().map(Arrival::took_ns).max().expect("some");
    assert!(longest as f64 >= 18.0 * FRAME_NS, "{longest}");
}

/// Each direction has its own random numbers and its own books.
#[test]
fn two_directions_do_not_disturb_each_other() {
    if !may("both") {
        return;
    }
    let conditions = Conditions {
        delay: ms(5),
        loss: 0.1,
        ..Conditions::default()
    };
    let mut wire = Wire::new("both", conditions);
    wire.send(2_000, 20);
    std::mem::swap(&mut wire.from, &mut wire.to);
    wire.send(2_000, 20);
    let all_received = |statistics: &Statistics| {
        let directions = [&statistics.a_to_b, &statistics.b_to_a];
        directions
            .iter()
            .all(|d| d.frames.received + d.own.total() >= 2_000)
    };
    let end_ns = now_ns() + PATIENCE.as_nanos() as u64;
    while !all_received(&wire.lab.statistics().expect("it runs")) && now_ns() < end_ns {
        std::thread::sleep(ms(5));
    }
    let statistics = wire.lab.finish().expect("it runs");
    let (a, b) = (&statistics.a_to_b.frames, &statistics.b_to_a.frames);
    for frames in [a, b] {
        assert!((2_000..2_030).contains(&frames.received), "{statistics:?}");
    }
    assert_share(a.lost_random as usize, a.received as usize, 0.1);
    assert_share(b.lost_random as usize, b.received as usize, 0.1);
    assert_ne!(a.lost_random, b.lost_random, "two streams, with this seed");
}
