//! A direction on a clock of the test's own: each setting alone is what it says, all together keep the books.

use super::*;
use proptest::prelude::*;
use std::time::Duration;

const FRAMES: u64 = 50_000;
const US: u64 = 1_000;
const MS: u64 = 1_000_000;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// An IPv4 frame with its number in it.
fn frame(number: u64, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    frame[12] = 0x08;
    frame[14] = 0x45;
    frame[34..42].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number(frame: &[u8]) -> u64 {
    u64::from_be_bytes(frame[34..42].try_into().expect("8 bytes"))
}

/// Sends frames of this length, one every `every_ns`, from time 0 on; what departs, in order.
fn run_frames(direction: &mut Direction, count: u64, len: usize, every_ns: u64) -> Vec<Departure> {
    let mut departures = Vec::new();
    for n in 0..count {
        let now_ns = n * every_ns;
        direction.handle_frame(now_ns, &frame(n, len));
        departures.extend(std::iter::from_fn(|| direction.poll_frame(now_ns)));
        assert!(direction.next_departure_ns().is_none_or(|due| due > now_ns));
    }
    departures.extend(std::iter::from_fn(|| direction.poll_frame(u64::MAX)));
    assert_eq!(direction.next_departure_ns(), None);
    departures
}

fn run(conditions: &Conditions, seed: u64) -> (Vec<Departure>, DirectionStatistics) {
    let mut direction = Direction::new(conditions, seed, 0);
    let departures = run_frames(&mut direction, FRAMES, 64, 10 * US);
    let statistics = direction.statistics();
    assert_books(&statistics);
    (departures, statistics)
}

/// received + duplicated = delivered + lost + dropped + held.
fn assert_books(s: &DirectionStatistics) {
    let came = s.received + s.duplicated;
    let went = s.delivered + s.lost() + s.drop_held_full + s.held_frames;
    assert_eq!(came, went, "{s:?}");
}

/// Five standard deviations of a count with this probability: a right generator fails once in two million.
fn assert_share(count: u64, of: u64, share: f64) {
    let expected = of as f64 * share;
    let tolerance = 5.0 * (expected * (1.0 - share)).sqrt();
    assert!(
        (count as f64 - expected).abs() <= tolerance,
        "{count} of {of} is not {share}"
    );
}

#[test]
fn without_conditions_frames_leave_at_once_and_whole() {
    let (departures, statistics) = run(&Conditions::default(), 1);
    assert_eq!(statistics.delivered, FRAMES);
    assert_eq!(statistics.delivered_bytes, statistics.received_bytes);
    for (n, departure) in (0..).zip(&departures) {
        assert_eq!(departure.due_ns, n * 10 * US);
        assert_eq!(*departure.frame, *frame(n, 64));
    }
}

#[test]
fn a_delay_is_exact() {
    let conditions = Conditions {
        delay: ms(20),
        ..Conditions::default()
    };
    let (departures, _) = run(&conditions, 1);
    for (n, departure) in (0..).zip(&departures) {
        assert_eq!(departure.due_ns, n * 10 * US + 20 * MS);
    }
}

#[test]
fn nothing_departs_before_it_is_due() {
    let conditions = Conditions {
        delay: ms(1),
        ..Conditions::default()
    };
    let mut direction = Direction::new(&conditions, 1, 0);
    direction.handle_frame(5, &frame(0, 64));
    assert_eq!(direction.next_departure_ns(), Some(MS + 5));
    assert_eq!(direction.poll_frame(MS + 4), None);
    assert_eq!(direction.statistics().held_frames, 1);
    assert!(direction.poll_frame(MS + 5).is_some());
    assert_eq!(direction.statistics().held_bytes, 0);
}

/// Frames further apart than the jitter can change: each delay is drawn by itself, uniformly.
#[test]
fn jitter_is_uniform_around_the_delay() {
    let conditions = Conditions {
        delay: ms(20),
        jitter: ms(2),
        ..Conditions::default()
    };
    let mut direction = Direction::new(&conditions, 3, 0);
    let departures = run_frames(&mut direction, FRAMES, 64, 4 * MS);
    let mut tenths = [0; 10];
    for (n, departure) in (0..).zip(&departures) {
        let took = departure.due_ns - n * 4 * MS;
        assert!((18 * MS..=22 * MS).contains(&took), "{took}");
        tenths[((took - 18 * MS) * 10 / (4 * MS + 1)) as usize] += 1;
    }
    for count in tenths {
        assert_share(count, FRAMES, 0.1);
    }
}

/// Frames closer together than the jitter: none passes another.
#[test]
fn jitter_keeps_the_order() {
    let conditions = Conditions {
        delay: ms(20),
        jitter: ms(20),
        ..Conditions::default()
    };
    let (departures, _) = run(&conditions, 4);
    assert!(departures.is_sorted_by_key(|d| number(&d.frame)));
    assert!(departures.is_sorted_by_key(|d| d.due_ns));
}

#[test]
fn loss_is_as_asked_alone_and_repeats_with_the_seed() {
    let conditions = Conditions {
        loss: 0.01,
        ..Conditions::default()
    };
    let (departures, statistics) = run(&conditions, 5);
    assert_share(statistics.lost_random, FRAMES, 0.01);
    assert_eq!(statistics.lost(), statistics.lost_random);
    assert_eq!(run(&conditions, 5).0, departures);
    assert_ne!(run(&conditions, 6).0, departures);
    let mut other = Direction::new(&conditions, 5, 1);
    let there = run_frames(&mut other, FRAMES, 64, 10 * US);
    assert_ne!(there, departures, "directions are independent");
    // Two losses in a row are as likely as chance has it.
    let lost: Vec<bool> = lost_of(&departures);
    let pairs = lost.windows(2).filter(|w| w[0] && w[1]).count();
    assert_share(pairs as u64, FRAMES, 0.0001);
}

fn lost_of(departures: &[Departure]) -> Vec<bool> {
    let mut lost = vec![true; FRAMES as usize];
    for departure in departures {
        lost[number(&departure.frame) as usize] = false;
    }
    lost
}

/// 2 % in bursts of 4: runs of losses have a geometric length of mean 4, and good times one of mean 196.
#[test]
fn bursts_have_their_share_and_their_length() {
    let conditions = Conditions {
        burst_loss: Some("2%:4".parse().expect("valid")),
        ..Conditions::default()
    };
    let mut direction = Direction::new(&conditions, 7, 0);
    let count = 10 * FRAMES;
    let mut lost = 0;
    let mut runs: Vec<u64> = Vec::new();
    let mut before = direction.statistics().lost_burst;
    let mut was_lost = false;
    for n in 0..count {
        direction.handle_frame(n, &frame(n, 64));
        let now = direction.statistics().lost_burst;
        let is_lost = now > before;
        if is_lost && was_lost {
            *runs.last_mut().expect("one is under way") += 1;
        } else if is_lost {
            runs.push(1);
        }
        lost += u64::from(is_lost);
        (before, was_lost) = (now, is_lost);
    }
    // Losses come in bursts, so their number varies more: by the variance of a sum of geometric runs.
    let bursts = runs.len() as f64;
    let mean = lost as f64 / bursts;
    let deviation = (12.0_f64 / bursts).sqrt(); // A geometric length of mean 4 has variance 12.
    assert!((mean - 4.0).abs() < 5.0 * deviation, "{mean}");
    let expected = count as f64 * 0.02;
    let tolerance = 5.0 * (expected * (2.0 * 4.0 - 1.0)).sqrt();
    assert!((lost as f64 - expected).abs() < tolerance, "{lost}");
    let longer = runs.iter().filter(|len| **len > 4).count() as u64;
    assert_share(longer, runs.len() as u64, 0.75_f64.powi(4));
}

#[test]
fn within_a_burst_a_share_may_pass() {
    let conditions = Conditions {
        burst_loss: Some("10%:100:50%".parse().expect("valid")),
        ..Conditions::default()
    };
    let (departures, _) = run(&conditions, 8);
    let lost = lost_of(&departures);
    let followed = lost.windows(2).filter(|w| w[0]);
    let (total, both) = followed.fold((0, 0), |(total, both), w| {
        (total + 1, both + u64::from(w[1]))
    });
    // After a loss the state stays bad with 99 %, and loses then with 50 %.
    assert_share(both, total, 0.99 * 0.5);
}

/// Frames held back are passed by those that came meanwhile, all others stay in order.
#[test]
fn reordered_frames_are_held_back_and_no_others() {
    let conditions = Conditions {
        delay: ms(20),
        reorder: 0.05,
        reorder_by: Some(Duration::from_micros(105)),
        ..Conditions::default()
    };
    let (departures, statistics) = run(&conditions, 9);
    assert_share(statistics.reordered, FRAMES, 0.05);
    assert_eq!(departures.len() as u64, FRAMES);
    let late = |d: &&Departure| d.due_ns - number(&d.frame) * 10 * US > 20 * MS;
    let (held, others): (Vec<_>, Vec<_>) = departures.iter().partition(late);
    assert_eq!(held.len() as u64, statistics.reordered);
    assert!(others.is_sorted_by_key(|d| number(&d.frame)));
    for (position, departure) in departures.iter().enumerate() {
        let n = number(&departure.frame);
        if departure.due_ns - n * 10 * US > 20 * MS {
            assert_eq!(departure.due_ns, n * 10 * US + 20 * MS + 105 * US);
            // Ten frames came meanwhile, those that were held back too not counted.
            assert!(position as u64 <= n + 10);
        }
    }
}

#[test]
fn copies_follow_their_originals() {
    let conditions = Conditions {
        delay: ms(1),
        duplicate: 0.02,
        ..Conditions::default()
    };
    let (departures, statistics) = run(&conditions, 10);
    assert_share(statistics.duplicated, FRAMES, 0.02);
    assert_eq!(statistics.delivered, FRAMES + statistics.duplicated);
    let twins = departures.windows(2).filter(|w| w[0] == w[1]).count();
    assert_eq!(twins as u64, statistics.duplicated);
}

#[test]
fn damage_is_one_bit_behind_the_ethernet_header_and_everywhere() {
    let conditions = Conditions {
        corrupt: 0.1,
        ..Conditions::default()
    };
    let mut direction = Direction::new(&conditions, 11, 0);
    let mut hits = [0_u64; 64];
    let whole = frame(1, 64);
    for n in 0..FRAMES {
        direction.handle_frame(n, &whole);
        let departure = direction.poll_frame(n).expect("at once");
        let wrong = whole.iter().zip(&departure.frame).map(|(a, b)| a ^ b);
        let wrong: Vec<(usize, u8)> = wrong.enumerate().filter(|(_, bits)| *bits != 0).collect();
        match wrong.as_slice() {
            [] => {}
            [(at, bits)] => {
                assert_eq!(bits.count_ones(), 1);
                hits[*at] += 1;
            }
            _ => panic!("{wrong:?}"),
        }
    }
    let total = hits.iter().sum::<u64>();
    assert_eq!(total, direction.statistics().corrupted);
    assert_share(total, FRAMES, 0.1);
    assert_eq!(hits[..14], [0; 14]);
    hits[14..]
        .iter()
        .for_each(|hit| assert_share(*hit, total, 0.02));
}

#[test]
fn frames_without_a_check_of_their_own_are_spared() {
    let conditions = Conditions {
        corrupt: 1.0,
        ..Conditions::default()
    };
    let mut direction = Direction::new(&conditions, 12, 0);
    let mut arp = frame(1, 64);
    arp[13] = 0x06;
    direction.handle_frame(0, &arp);
    direction.handle_frame(0, &arp[..14]);
    assert_eq!(*direction.poll_frame(0).expect("there").frame, *arp);
    assert_eq!(direction.statistics().corrupted, 0);
}

/// Twice the rate is offered: half passes, evenly spaced, after waiting for a full queue.
#[test]
fn the_rate_is_kept_and_the_queue_is_as_long_as_asked() {
    // 1000 bytes at 80 Mbit/s are 100 us; one comes every 50.
    let conditions = Conditions {
        rate_bits_per_sec: Some(80_000_000),
        queue_bytes: Some(10_000),
        ..Conditions::default()
    };
    let mut direction = Direction::new(&conditions, 13, 0);
    let departures = run_frames(&mut direction, FRAMES, 1000, 50 * US);
    let statistics = direction.statistics();
    assert_books(&statistics);
    let half = FRAMES / 2;
    assert!(
        (half..=half + 10).contains(&statistics.delivered),
        "{statistics:?}"
    );
    for pair in departures.windows(2) {
        assert_eq!(pair[1].due_ns - pair[0].due_ns, 100 * US);
    }
    // At the end each that passes has waited for ten frames, itself among them.
    let last = departures.last().expect("there are some");
    let waited = last.due_ns - number(&last.frame) * 50 * US;
    assert!((950 * US..=1000 * US).contains(&waited), "{waited}");
}

#[test]
fn below_the_rate_nothing_waits_or_is_dropped() {
    let conditions = Conditions {
        delay: ms(5),
        rate_bits_per_sec: Some(80_000_000),
        queue_bytes: Some(1000),
        ..Conditions::default()
    };
    let mut direction = Direction::new(&conditions, 14, 0);
    let departures = run_frames(&mut direction, 1000, 1000, 100 * US);
    for (n, departure) in (0..).zip(&departures) {
        assert_eq!(departure.due_ns, n * 100 * US + 100 * US + 5 * MS);
    }
    assert_eq!(direction.statistics().drop_queue_full, 0);
}

/// A lost frame takes no time of the link.
#[test]
fn loss_comes_before_the_rate() {
    let conditions = Conditions {
        loss: 1.0,
        rate_bits_per_sec: Some(1),
        ..Conditions::default()
    };
    let (_, statistics) = run(&conditions, 15);
    assert_eq!(statistics.lost_random, FRAMES);
    assert_eq!(statistics.drop_queue_full, 0);
}

#[test]
fn from_the_threshold_on_capable_packets_are_marked() {
    let conditions = Conditions {
        rate_bits_per_sec: Some(80_000_000),
        queue_bytes: Some(10_000),
        mark_bytes: Some(3_000),
        ..Conditions::default()
    };
    let mut direction = Direction::new(&conditions, 16, 0);
    for n in 0..8 {
        let mut capable = frame(n, 1000);
        capable[15] = if n == 6 { 0 } else { 2 };
        direction.handle_frame(0, &capable);
    }
    let departures = std::iter::from_fn(|| direction.poll_frame(u64::MAX));
    let fields: Vec<u8> = departures.map(|d| d.frame[15] & 3).collect();
    assert_eq!(fields, [2, 2, 2, 3, 3, 3, 0, 3]);
    assert_eq!(direction.statistics().marked, 4);
}

/// 64 MiB and no more, whatever comes; then it goes on.
#[test]
fn memory_is_bounded_and_what_finds_none_is_counted() {
    let conditions = Conditions {
        delay: ms(1000),
        duplicate: 0.5,
        ..Conditions::default()
    };
    let mut direction = Direction::new(&conditions, 17, 0);
    for n in 0..FRAMES {
        direction.handle_frame(0, &frame(n, 1514));
        assert!(direction.statistics().held_bytes <= HELD_BYTES_MAX as u64);
    }
    let statistics = direction.statistics();
    assert_books(&statistics);
    let room = HELD_BYTES_MAX / (1514 + HELD_FRAME_OVERHEAD);
    assert_eq!(statistics.held_frames, room as u64);
    assert!(statistics.drop_held_full > 0);
    assert_eq!(
        std::iter::from_fn(|| direction.poll_frame(1000 * MS)).count(),
        room
    );
    direction.handle_frame(1000 * MS, &frame(0, 1514));
    assert!(direction.poll_frame(2000 * MS).is_some());
}

/// Turning one setting on leaves what the others do to each frame as it was.
#[test]
fn settings_do_not_disturb_each_other() {
    let base = Conditions {
        delay: ms(5),
        loss: 0.02,
        ..Conditions::default()
    };
    let more = Conditions {
        jitter: ms(1),
        reorder: 0.1,
        duplicate: 0.1,
        corrupt: 0.1,
        ..base.clone()
    };
    let count = |conditions: &Conditions| {
        let mut direction = Direction::new(conditions, 18, 0);
        let mut fates = Vec::new();
        for n in 0..FRAMES {
            let before = direction.statistics().lost_random;
            direction.handle_frame(n * 10 * US, &frame(n, 64));
            fates.push(direction.statistics().lost_random > before);
        }
        fates
    };
    assert_eq!(count(&base), count(&more));
}

fn conditions() -> impl Strategy<Value = Conditions> {
    let share = || prop_oneof![Just(0.0), 0.0..0.3];
    let burst = prop::option::of((0.001..0.2, 1.5..10.0, 0.5..1.0).prop_map(
        |(loss, burst_frames, loss_in_burst)| BurstLoss {
            loss,
            burst_frames,
            loss_in_burst,
        },
    ));
    let rate = prop::option::of((
        1_000_000..1_000_000_000u64,
        2_000..100_000u64,
        0..100_000u64,
    ));
    let way = (0..50_000u64, 0..50_000u64, 0..20_000u64);
    let shares = (share(), share(), share(), share());
    (way, shares, burst, rate).prop_map(|((delay, jitter, by), shares, burst_loss, rate)| {
        let (loss, reorder, duplicate, corrupt) = shares;
        Conditions {
            delay: Duration::from_micros(delay),
            jitter: Duration::from_micros(jitter.min(delay)),
            loss,
            burst_loss,
            reorder,
            reorder_by: Some(Duration::from_micros(by)),
            duplicate,
            corrupt,
            rate_bits_per_sec: rate.map(|r| r.0),
            queue_bytes: rate.map(|r| r.1),
            mark_bytes: rate.map(|r| r.2),
        }
    })
}

proptest! {
    /// Whatever the conditions and the traffic: the books are kept at every moment, departures come in the order
    /// of time and never early, what is not held back comes in order, and nothing is invented.
    #[test]
    fn all_together_keep_the_rules(
        conditions in conditions(),
        seed: u64,
        steps in prop::collection::vec((0..200u64, 42..1515usize), 1..400),
    ) {
        conditions.check().expect("drawn from what is possible");
        let mut direction = Direction::new(&conditions, seed, 1);
        let (mut now_ns, mut last_due) = (0, 0);
        let mut sent = Vec::new();
        let mut poll = |direction: &mut Direction, now_ns: u64, sent: &[(u64, usize)]| {
            while let Some(departure) = direction.poll_frame(now_ns) {
                assert!(departure.due_ns <= now_ns && departure.due_ns >= last_due);
                last_due = departure.due_ns;
                let shortest = (conditions.delay - conditions.jitter).as_nanos() as u64;
                if conditions.corrupt == 0.0 {
                    let (at_ns, len) = sent[number(&departure.frame) as usize];
                    assert!(departure.due_ns >= at_ns + shortest);
                    assert_eq!(departure.frame.len(), len);
                }
            }
            assert_books(&direction.statistics());
        };
        for (n, (pause_us, len)) in (0..).zip(steps) {
            now_ns += pause_us * US;
            sent.push((now_ns, len));
            direction.handle_frame(now_ns, &frame(n, len));
            poll(&mut direction, now_ns, &sent);
        }
        poll(&mut direction, u64::MAX, &sent);
        let statistics = direction.statistics();
        prop_assert_eq!((statistics.held_frames, statistics.held_bytes), (0, 0));
    }
}
