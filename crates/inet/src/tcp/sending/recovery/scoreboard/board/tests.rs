//! The scoreboard against a plain model of what has arrived, and RACK's judgement against a look at all records.

use super::*;
use crate::time::{Duration, Instant};
use proptest::prelude::*;

fn departure(at: u64) -> Departure {
    Departure {
        at: Instant::from_micros(at),
        delivered: 0,
        since_delivery_us: 0,
        since_first_us: 0,
        app_limited: false,
    }
}

/// `count` records of 10 bytes from `una`, one each microsecond.
fn board(una: u32, count: u32) -> Scoreboard {
    let mut board = Scoreboard::new(SeqNumber(una));
    for n in 1..=count {
        board.sent(SeqNumber(una) + 10 * n, departure(u64::from(n)));
    }
    board
}

fn check(board: &Scoreboard) {
    let (mut start, mut sacked, mut lost) = (board.una, 0, 0);
    for r in &board.records {
        assert!(r.end.gt(start), "records are in order and not empty");
        let len = (r.end - start) as u32;
        assert!(!(r.is(SACKED) && r.is(LOST)));
        sacked += if r.is(SACKED) { len } else { 0 };
        if r.is(LOST) {
            lost += len;
            assert!(r.end.gt(board.lost_from), "the search begins before it");
        }
        let covered = board.sacked.iter().any(|s| s.0.le(start) && s.1.ge(r.end));
        assert_eq!(covered, r.is(SACKED));
        start = r.end;
    }
    assert_eq!(start, board.end, "the last record ends there");
    assert_eq!((sacked, lost), (board.sacked_bytes, board.lost_bytes));
    let apart = board.sacked.iter().zip(board.sacked.iter().skip(1));
    for (one, next) in apart {
        assert!(one.1.lt(next.0), "ranges lie apart");
    }
    check_order(board);
}

/// RACK's look finds whatever may still be lost.
fn check_order(board: &Scoreboard) {
    let mut start = board.una;
    assert!(board.once_from.ge(start));
    for r in &board.records {
        if !r.is(SACKED | LOST) {
            let queued = |a: &Again| a.at == r.at && a.start.le(start) && a.end.ge(r.end);
            match r.is(RETRANSMITTED) {
                true => assert!(board.again.iter().any(queued), "it is in the queue"),
                false => assert!(start.ge(board.once_from), "it is still to be judged"),
            }
        }
        start = r.end;
    }
    assert!(board.again.iter().is_sorted_by_key(|a| a.at));
}

/// What is lost by RFC 8985 §6.2, step 5, and when the next will be: by a look at all records.
fn lost_by_the_rule(
    board: &Scoreboard,
    newest: &Sent,
    allowed: Duration,
    now: Instant,
) -> (u32, Option<Instant>) {
    let (mut lost, mut next, mut start) = (0, None::<Instant>, board.una);
    for r in &board.records {
        let due = r.at + allowed;
        if !r.is(SACKED | LOST) && newest.left_after(r) {
            if due <= now {
                lost += (r.end - start) as u32;
            } else {
                next = Some(next.map_or(due, |n| n.min(due)));
            }
        }
        start = r.end;
    }
    (lost, next)
}

#[test]
fn cumulative_acknowledgement_delivers_what_was_not_delivered() {
    let mut b = board(u32::MAX - 25, 10);
    let mut d = b.delivery();
    b.sack(
        SeqNumber(u32::MAX - 25) + 20,
        SeqNumber(u32::MAX - 25) + 40,
        &mut d,
    );
    assert_eq!((d.bytes, d.reordered, b.in_flight()), (20, false, 80));
    let mut d = b.delivery();
    b.acknowledge(SeqNumber(u32::MAX - 25) + 55, &mut d);
    assert_eq!((d.bytes, d.reordered, b.in_flight()), (35, true, 45));
    assert_eq!(d.oldest_once_at, Some(Instant::from_micros(1)));
    assert_eq!(d.newest_once.unwrap().at, Instant::from_micros(6));
    check(&b);
}

/// RFC 8985 §6.2: what left before what arrived is lost once it has had its time.
#[test]
fn what_left_before_the_newest_delivered_is_lost_in_time() {
    let s = SeqNumber(0);
    let mut b = board(0, 6);
    let mut d = b.delivery();
    b.sack(s + 40, s + 50, &mut d);
    let newest = d.newest_once.unwrap();
    let allowed = Duration::from_micros(10);
    let found = b.detect_lost(&newest, allowed, Instant::from_micros(12));
    assert_eq!(
        (found.lost, found.next),
        (20, Some(Instant::from_micros(13)))
    );
    assert_eq!(b.next_lost(), Some((s, s + 10)));
    b.sent_again(s, s + 10, departure(12));
    assert_eq!(b.next_lost(), Some((s + 10, s + 20)));
    b.sent_again(s + 10, s + 20, departure(12));
    assert_eq!((b.next_lost(), b.in_flight()), (None, 50));
    let found = b.detect_lost(&newest, allowed, Instant::from_micros(100));
    assert_eq!(
        found.lost, 20,
        "not what was sent again, nor what left after it"
    );
    check(&b);
}

#[test]
fn a_lost_super_packet_is_sent_again_in_parts() {
    let s = SeqNumber(7);
    let mut b = Scoreboard::new(s);
    b.sent(s + 100, departure(1));
    b.mark_all_lost();
    b.sent_again(s, s + 30, departure(2));
    assert_eq!(
        (b.next_lost(), b.in_flight()),
        (Some((s + 30, s + 100)), 30)
    );
    check(&b);
}

#[test]
fn nonsense_is_left_out() {
    let s = SeqNumber(1000);
    let mut b = board(1000, 3);
    let mut d = b.delivery();
    for (left, right) in [
        (s + 10, s + 10),
        (s + 20, s + 10),
        (s + 20, s + 31),
        (s - 20, s),
    ] {
        b.sack(left, right, &mut d);
    }
    assert_eq!((d.bytes, b.sacked_bytes()), (0, 0));
}

#[test]
fn a_peer_cannot_make_us_keep_more_ranges_than_the_limit() {
    let mut b = Scoreboard::new(SeqNumber(0));
    b.sent(SeqNumber(1 << 20), departure(1));
    for n in 0..3 * SACKED_RANGES_MAX as u32 {
        b.sack(
            SeqNumber(2 * n + 1),
            SeqNumber(2 * n + 2),
            &mut b.delivery(),
        );
    }
    assert!(b.sacked.len() <= SACKED_RANGES_MAX && b.records.len() <= 2 * SACKED_RANGES_MAX + 1);
    check(&b);
}

/// A block that grows by a byte each time would have us keep a record for each byte.
#[test]
fn a_peer_cannot_shatter_what_was_sent() {
    let (bytes, s) = (1 << 18, SeqNumber(u32::MAX - 1000));
    let mut b = Scoreboard::new(s);
    for n in 1..=4 {
        b.sent(s + bytes / 4 * n, departure(u64::from(n)));
    }
    let mut delivered = 0;
    for n in 2..=bytes {
        let mut d = b.delivery();
        b.sack(s + 1, s + n, &mut d);
        delivered += d.bytes;
    }
    let most = SACKED_RANGES_MAX + (bytes / SACKED_PIECE_BYTES) as usize;
    assert!(b.records.len() <= most + 2, "{}", b.records.len());
    assert_eq!((delivered, b.sacked_bytes()), (bytes - 1, bytes - 1));
    check(&b);
}

/// A window of `count` segments of which one in 32 is lost, acknowledged one by one and repaired as it
/// goes; the records looked at for each acknowledgement, on average and at most.
fn looked_at(count: u32) -> (f64, u32) {
    let mut b = board(0, count);
    let (mut all, mut most, mut newest) = (0, 0, None);
    for n in (0..count).filter(|n| n % 32 != 0) {
        let now = u64::from(count + n) + 2;
        let (mut d, left) = (b.delivery(), SeqNumber(10 * n));
        b.sack(left, left + 10, &mut d);
        newest = d.newest_once.or(newest);
        let allowed = Duration::from_micros(u64::from(count));
        let found = b.detect_lost(&newest.unwrap(), allowed, Instant::from_micros(now));
        while let Some((from, to)) = b.next_lost() {
            b.sent_again(from, to, departure(now));
        }
        (all, most) = (all + found.looked_at, most.max(found.looked_at));
    }
    check(&b);
    assert_eq!(b.sacked_bytes(), (count - count.div_ceil(32)) * 10);
    let again = b.records.iter().filter(|r| r.was_retransmitted()).count();
    assert!(again as u32 >= count / 32, "{again} holes were repaired");
    (f64::from(all) / f64::from(count), most)
}

/// However many records there are: what is judged is not looked at again.
#[test]
fn an_acknowledgement_looks_at_a_few_records_only() {
    for count in [100, 1_000, 10_000] {
        let (average, most) = looked_at(count);
        assert!(average < 4.0 && most <= 8, "{count}: {average}, {most}");
    }
}

/// What is sent again and again stays bounded, also where nobody looks for losses (a peer without SACK).
#[test]
fn the_queue_of_what_was_sent_again_is_bounded() {
    let mut b = board(0, 8);
    for now in 100..10_000 {
        let n = now as u32 % 8;
        b.sent_again(SeqNumber(10 * n), SeqNumber(10 * n + 10), departure(now));
        assert!(b.again.len() <= 2 * b.records.len() + crate::limits::SENT_AGAIN_SLACK);
    }
    check(&b);
}

/// Segments sent again leave the queue in the order in which they left, and can be lost again.
#[test]
fn what_was_sent_again_can_be_lost_again() {
    let s = SeqNumber(0);
    let mut b = board(0, 6);
    b.mark_all_lost();
    for (n, at) in [(0, 20), (1, 21), (2, 30)] {
        b.sent_again(s + 10 * n, s + 10 * n + 10, departure(at));
    }
    let mut d = b.delivery();
    b.sack(s + 20, s + 30, &mut d);
    let newest = d.newest_again.unwrap();
    let allowed = Duration::from_micros(10);
    let found = b.detect_lost(&newest, allowed, Instant::from_micros(30));
    assert_eq!(
        (found.lost, found.next),
        (10, Some(Instant::from_micros(31)))
    );
    let found = b.detect_lost(&newest, allowed, Instant::from_micros(31));
    assert_eq!((found.lost, found.next), (10, None));
    assert_eq!(b.next_lost(), Some((s, s + 10)));
    check(&b);
}

#[derive(Clone, Debug)]
enum Step {
    Send(u32),
    Ack(u32),
    Sack(u32, u32),
    Detect(u64),
    Timeout,
    Resend(u32),
    Undo,
    Renege,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u32..40).prop_map(Step::Send),
        2 => (0u32..60).prop_map(Step::Ack),
        4 => (0u32..200, 1u32..50).prop_map(|(a, b)| Step::Sack(a, b)),
        2 => (0u64..20).prop_map(Step::Detect),
        1 => Just(Step::Timeout),
        4 => (1u32..30).prop_map(Step::Resend),
        1 => Just(Step::Undo),
        1 => Just(Step::Renege),
    ]
}

proptest! {
    /// Any history keeps the invariants, and what is delivered is what a model of single bytes says.
    #[test]
    fn any_history(start in prop_oneof![Just(u32::MAX - 300), any::<u32>()], steps in prop::collection::vec(step(), 1..80)) {
        let first = SeqNumber(start);
        let mut b = Scoreboard::new(first);
        let (mut now, mut end) = (0, first);
        let mut have = vec![false; 8000];
        let mut newest: Option<Sent> = None;
        for step in steps {
            now += 1;
            let mut d = b.delivery();
            let mut model = 0;
            let mut arrive = |from: SeqNumber, to: SeqNumber| {
                for byte in &mut have[(from - first) as usize..(to - first) as usize] {
                    model += u32::from(!std::mem::replace(byte, true));
                }
            };
            match step {
                Step::Send(n) => {
                    end += n;
                    b.sent(end, departure(now));
                }
                Step::Ack(n) => {
                    let ack = (b.una + n).min(end);
                    arrive(b.una, ack);
                    b.acknowledge(ack, &mut d);
                }
                Step::Sack(from, len) => {
                    let (left, right) = (b.una + from, b.una + from + len);
                    if right.le(end) {
                        arrive(left, right);
                    }
                    b.sack(left, right, &mut d);
                }
                Step::Detect(allowed) => {
                    if let Some(newest) = newest {
                        let allowed = Duration::from_micros(allowed);
                        let at = Instant::from_micros(now);
                        let rule = lost_by_the_rule(&b, &newest, allowed, at);
                        let found = b.detect_lost(&newest, allowed, at);
                        prop_assert_eq!((found.lost, found.next), rule);
                    }
                }
                Step::Timeout => b.mark_all_lost(),
                Step::Resend(n) => {
                    if let Some((from, to)) = b.next_lost() {
                        b.sent_again(from, to.min(from + n), departure(now));
                    }
                }
                Step::Undo => b.forget_losses(),
                Step::Renege => {
                    b.forget_sacks();
                    let una = (b.una - first) as usize;
                    have[una..].fill(false);
                }
            }
            prop_assert_eq!(d.bytes, model);
            for sent in [d.newest_once, d.newest_again].into_iter().flatten() {
                if newest.is_none_or(|n| sent.left_after(&n)) {
                    newest = Some(sent);
                }
            }
            check(&b);
            let known = (b.una - first) as usize..(end - first) as usize;
            let held = have[known.clone()].iter().filter(|h| **h).count() as u32;
            prop_assert_eq!(held, b.sacked_bytes());
            prop_assert_eq!(b.outstanding() as usize, known.len());
        }
    }
}

/// A peer that acknowledges all at once each time, so that nobody looks for losses: what was sent again before
/// two gigabytes is no part of what is in flight now.
#[test]
fn what_was_sent_again_long_ago_is_forgotten() {
    let mut b = board(0, 2);
    b.mark_all_lost();
    b.sent_again(SeqNumber(0), SeqNumber(10), departure(5));
    let mut una = SeqNumber(20);
    b.acknowledge(una, &mut b.delivery());
    for _ in 0..5 {
        b.sent(una + (1 << 29), departure(6));
        una += 1 << 29;
        b.acknowledge(una, &mut b.delivery());
    }
    b.sent(una + 10, departure(7));
    b.sent(una + 20, departure(8));
    let mut d = b.delivery();
    b.acknowledge(una + 10, &mut d);
    let newest = d.newest_once.expect("it arrived");
    let found = b.detect_lost(&newest, Duration::ZERO, Instant::from_micros(9));
    assert_eq!(found.lost, 0);
    check(&b);
}

#[test]
fn a_slim_board_is_the_same() {
    let mut board = board(7, 100);
    let mut delivered = board.delivery();
    board.acknowledge(SeqNumber(7) + 950, &mut delivered);
    board.slim();
    check(&board);
    assert_eq!((board.outstanding(), board.records.len()), (50, 5));
    assert!(board.records.capacity() < 8);
}
