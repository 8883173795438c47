//! The receive queue against an oracle that knows every byte.

use proptest::prelude::*;

use super::*;
use crate::limits::{OUT_OF_ORDER_BLOCK_BYTES, OUT_OF_ORDER_RANGES_MAX};

fn content(seq: u32) -> u8 {
    (seq.wrapping_mul(2_654_435_761) >> 24) as u8
}

fn bytes(from: u32, len: u32) -> Vec<u8> {
    (0..len).map(|n| content(from.wrapping_add(n))).collect()
}

const fn kept() -> Placed {
    Placed::OutOfOrder { repeated: None }
}

#[test]
fn a_gap_holds_back_what_follows_it() {
    let (mut q, mut memory) = (ReceiveQueue::default(), Memory::default());
    let s = SeqNumber(100);
    assert_eq!(q.place(s, s + 10, &bytes(10, 5), &mut memory), kept());
    let again = Placed::Duplicate {
        repeated: (s + 10, s + 15),
    };
    assert_eq!(q.place(s, s + 10, &bytes(10, 5), &mut memory), again);
    assert_eq!(
        q.place(s, s, &bytes(0, 12), &mut memory),
        Placed::InOrder {
            advanced: 15,
            filled_gap: true,
            repeated: Some((s + 10, s + 12)),
        }
    );
    assert_eq!(q.readable(), bytes(0, 15));
    assert!(!q.has_gap());
}

#[test]
fn the_first_content_of_repeated_bytes_stays() {
    let (mut q, mut memory) = (ReceiveQueue::default(), Memory::default());
    let s = SeqNumber(u32::MAX - 3);
    assert_eq!(q.place(s, s + 4, b"EFGH", &mut memory), kept());
    assert_eq!(
        q.place(s, s + 2, b"xxxxxxxx", &mut memory),
        Placed::OutOfOrder {
            repeated: Some((s + 4, s + 8))
        }
    );
    assert_eq!(
        q.place(s, s, b"AByyyy", &mut memory),
        Placed::InOrder {
            advanced: 10,
            filled_gap: true,
            repeated: Some((s + 2, s + 6)),
        }
    );
    assert_eq!(q.readable(), b"ABxxEFGHxx");
}

/// A quarter of a mebibyte, byte by byte from behind: copying what is there for each would be
/// 16 GiB of copies.
#[test]
fn bytes_in_reverse_order_give_the_stream() {
    let (mut q, mut memory) = (ReceiveQueue::default(), Memory::default());
    let (s, len) = (SeqNumber(u32::MAX - 1000), 1 << 18);
    for n in (1..len).rev() {
        // Every other one first, and then the gap that it left.
        let at = if n % 2 == 0 { n - 1 } else { n + 1 };
        if at < len {
            assert_eq!(q.place(s, s + at, &bytes(at, 1), &mut memory), kept());
        }
    }
    q.place(s, s + (len - 1), &bytes(len - 1, 1), &mut memory);
    q.place(s, s, &bytes(0, 1), &mut memory);
    assert!(q.readable() == bytes(0, len), "another content");
}

#[test]
fn ranges_are_bounded() {
    let (mut q, mut memory) = (ReceiveQueue::default(), Memory::default());
    let s = SeqNumber(0);
    for n in 0..OUT_OF_ORDER_RANGES_MAX as u32 {
        assert_eq!(q.place(s, s + (2 + 2 * n), b"x", &mut memory), kept());
    }
    let far = 2 + 2 * OUT_OF_ORDER_RANGES_MAX as u32;
    assert_eq!(q.place(s, s + far, b"x", &mut memory), Placed::Refused);
    // What touches a range still fits.
    assert_eq!(q.place(s, s + 3, b"x", &mut memory), kept());
}

/// Single bytes all over a window of 6 MiB cost the window, and its ranges: nothing grows with the
/// number of segments.
#[test]
fn small_segments_cost_no_more_than_the_window() {
    let (mut q, mut memory) = (ReceiveQueue::default(), Memory::new(1 << 30));
    let (s, window) = (SeqNumber(u32::MAX - 5_000_000), 6 << 20);
    for n in 0..100_000u32 {
        let at = 1 + (n.wrapping_mul(2_654_435_761) >> 8) % (window - 1);
        q.place(s, s + at, &bytes(at, 1), &mut memory);
    }
    assert_eq!(q.beyond_gaps().1, OUT_OF_ORDER_RANGES_MAX);
    let most = window as usize + 4 * OUT_OF_ORDER_BLOCK_BYTES + (128 << 10);
    assert!(q.held() <= most, "{} bytes for {most}", q.held());
    assert_eq!(memory.info().used, q.held());
    q.release(&mut memory);
    assert_eq!(memory.info().used, 0);
}

/// Every second segment of 6 MiB is lost and comes later: each byte is copied twice, in and out.
#[test]
fn a_wide_window_full_of_holes_is_filled() {
    let (mut q, mut memory) = (ReceiveQueue::default(), Memory::default());
    let (s, segment, count) = (SeqNumber(u32::MAX - 1_000_000), 1448u32, 4344u32);
    for n in (1..count).step_by(2) {
        let at = n * segment;
        assert_eq!(q.place(s, s + at, &bytes(at, segment), &mut memory), kept());
    }
    let mut next = s;
    for n in (0..count).step_by(2) {
        let at = n * segment;
        let Placed::InOrder { advanced, .. } =
            q.place(next, s + at, &bytes(at, segment), &mut memory)
        else {
            panic!("it was expected next");
        };
        assert_eq!(advanced, 2 * segment);
        next += advanced;
    }
    assert!(q.readable() == bytes(0, count * segment));
    assert_eq!(q.held(), q.ready.capacity(), "nothing is left beyond");
}

/// A connection at rest holds no memory, and its next bytes find a buffer of the right size at once.
#[test]
fn a_queue_that_was_read_holds_nothing() {
    let (mut q, mut memory) = (ReceiveQueue::default(), Memory::default());
    let mut next = SeqNumber(7);
    for round in 0..3 {
        for _ in 0..40 {
            q.place(next, next, &[7; 1448], &mut memory);
            next += 1448;
        }
        assert_eq!(q.held(), 65_536, "in round {round}");
        q.consume(57_920, &mut memory);
        assert_eq!((q.held(), memory.info().used), (0, 0));
    }
    // Small ones again: the size follows.
    for _ in 0..20 {
        q.place(next, next, &[7; 100], &mut memory);
        next += 100;
        q.consume(100, &mut memory);
    }
    q.place(next, next, &[7; 100], &mut memory);
    assert_eq!(q.held(), 256);
}

/// A program that always leaves something unread: bytes are moved now and then, not with each read.
#[test]
fn a_buffer_that_is_never_empty_does_not_grow() {
    let (mut q, mut memory) = (ReceiveQueue::default(), Memory::default());
    let mut next = SeqNumber(0);
    let mut read = 0;
    for _ in 0..2000 {
        q.place(next, next, &bytes(next.0, 1000), &mut memory);
        next += 1000;
        if q.readable().len() > 60_000 {
            assert_eq!(q.readable()[..1000], bytes(read, 1000));
            q.consume(1000, &mut memory);
            read += 1000;
        }
    }
    assert_eq!(q.held(), 131_072);
}

/// With all memory used, only who waits for its data gets any.
#[test]
fn when_all_memory_is_used_only_waiting_programs_get_data() {
    let mut memory = Memory::new(1 << 20);
    memory.adjust(0, 1 << 20);
    let mut q = ReceiveQueue::default();
    let s = SeqNumber(0);
    assert_eq!(q.place(s, s + 10, b"x", &mut memory), Placed::NoMemory);
    let in_order = |advanced| Placed::InOrder {
        advanced,
        filled_gap: false,
        repeated: None,
    };
    assert_eq!(q.place(s, s, &[7; 1448], &mut memory), in_order(1448));
    let s = s + 1448;
    assert_eq!(q.place(s, s, &[7; 1448], &mut memory), in_order(1448));
    let s = s + 1448;
    assert_eq!(q.place(s, s, &[7; 1448], &mut memory), Placed::NoMemory);
    q.consume(2896, &mut memory);
    assert_eq!(q.place(s, s, &[7; 1448], &mut memory), in_order(1448));
}

/// What is skipped takes no memory but for the ranges, in order or beyond a gap, and what follows it is there.
#[test]
fn skipped_bytes_lie_nowhere() {
    let (mut q, mut memory) = (ReceiveQueue::default(), Memory::default());
    let s = SeqNumber(u32::MAX - 100_000);
    q.place(s, s, &bytes(0, 1000), &mut memory);
    q.consume(1000, &mut memory);
    q.skip(299_000);
    for at in (2000..300_000).step_by(2000) {
        let placed = q.place(s + 1000, s + at, &bytes(at, 1500), &mut memory);
        assert_eq!(placed, kept());
        assert!(q.held() < 8192, "{}", q.held());
    }
    let mut next = s + 1000;
    for at in (1000..300_000).step_by(500) {
        if let Placed::InOrder { advanced, .. } =
            q.place(next, s + at, &bytes(at, 500), &mut memory)
        {
            next += advanced;
        }
        let left = (300_000 - (next - s)).max(0) as u32;
        assert_eq!(q.skipping(), left);
    }
    q.place(next, next, &bytes((next - s) as u32, 1000), &mut memory);
    next += 1000;
    assert_eq!(q.readable(), bytes(300_000, (next - s) as u32 - 300_000));
    assert_eq!(q.skipping(), 0);
}

/// Pruning takes the furthest first, and leaves what remains whole.
#[test]
fn pruning_leaves_the_nearest() {
    let (mut q, mut memory) = (ReceiveQueue::default(), Memory::default());
    let s = SeqNumber(u32::MAX - 20_000);
    for n in 1..40 {
        let at = 2000 * n;
        assert_eq!(q.place(s, s + at, &bytes(at, 1500), &mut memory), kept());
    }
    let pruned = q.prune(20_000, &mut memory);
    let (left, ranges) = q.beyond_gaps();
    assert_eq!(left + pruned, 39 * 1500);
    assert!((8..=10).contains(&ranges), "{ranges} ranges");
    assert!(q.held() <= 20_000);
    assert_eq!(memory.info().used, q.held());
    // All comes once more, in order.
    let mut next = s;
    for n in 0..50 {
        let at = 1600 * n;
        if let Placed::InOrder { advanced, .. } =
            q.place(next, s + at, &bytes(at, 1600), &mut memory)
        {
            next += advanced;
        }
    }
    assert!(q.readable() == bytes(0, 80_000), "another content");
}

/// One step of the property below.
#[derive(Clone, Debug)]
enum Step {
    Segment(u32, u32),
    Read(usize),
    Skip(u32),
    Prune(usize),
    Acknowledge,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0u32..600, 1u32..200).prop_map(|(from, len)| Step::Segment(40 * from, len * 13)),
        4 => (0usize..5000).prop_map(Step::Read),
        2 => prop_oneof![0u32..3000, 0u32..30_000].prop_map(Step::Skip),
        1 => (600usize..9000).prop_map(Step::Prune),
        4 => Just(Step::Acknowledge),
    ]
}

/// What the queue must be: which bytes are there.
struct Oracle {
    have: Vec<bool>,
    next: u32,
    latest: Option<u32>,
    repeats: Vec<(u32, u32)>,
}

const SPAN: u32 = 30_000;

proptest! {
    /// Segments of one stream in any order, overlapping in any way, around the wrap: the program
    /// reads and skips through the stream, and the blocks say exactly what is held.
    #[test]
    fn any_order_gives_the_stream_and_true_blocks(
        start in prop_oneof![Just(0u32), Just(u32::MAX - 10_000), any::<u32>()],
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let (mut q, mut memory) = (ReceiveQueue::default(), Memory::default());
        let start = SeqNumber(start);
        let mut oracle = Oracle { have: vec![false; SPAN as usize], next: 0, latest: None, repeats: Vec::new() };
        // Where the program reads on; what lies before it and has not come is skipped.
        let mut cursor = 0;
        for step in steps {
            match step {
                Step::Segment(from, len) => {
                    let next = start + oracle.next;
                    let placed = q.place(next, start + from, &bytes(from, len), &mut memory);
                    oracle.segment(from, len, placed, start)?;
                    if let Placed::InOrder { repeated: Some(r), .. }
                        | Placed::OutOfOrder { repeated: Some(r) }
                        | Placed::Duplicate { repeated: r } = placed
                    {
                        q.report_repeated(r, &mut memory);
                        oracle.repeats.push(((r.0 - start) as u32, (r.1 - start) as u32));
                    }
                }
                Step::Read(count) => {
                    let count = count.min(q.readable().len());
                    cursor += count as u32;
                    if count % 2 == 0 {
                        q.consume(count, &mut memory);
                    } else {
                        q.consume_keeping(count, &mut memory);
                    }
                }
                Step::Skip(count) => {
                    let here = count.min(q.readable().len() as u32);
                    q.consume(here as usize, &mut memory);
                    if here < count {
                        q.skip(count - here);
                    }
                    cursor += count;
                }
                Step::Prune(to) => {
                    q.prune(to, &mut memory);
                    oracle.pruned(&q, start);
                }
                Step::Acknowledge => {
                    let next = start + oracle.next;
                    let blocks = q.take_blocks(next, 3);
                    let blocks: Vec<_> = blocks
                        .iter()
                        .map(|(l, r)| ((l - start) as u32, (r - start) as u32))
                        .collect();
                    oracle.check(&blocks, q.has_report())?;
                    q.tidy(&mut memory);
                }
            }
            prop_assert_eq!(memory.info().used, q.held());
            prop_assert_eq!(q.skipping(), cursor.saturating_sub(oracle.next));
            prop_assert_eq!(q.readable(), bytes(cursor, oracle.next.saturating_sub(cursor)));
            let held: Vec<_> = q.beyond().map_or(Vec::new(), |b| b.ranges().iter().copied().collect());
            for pair in held.windows(2) {
                prop_assert!(pair[0].1.lt(pair[1].0), "ranges touch or overlap");
            }
            prop_assert!(held.iter().all(|r| r.0.gt(start + oracle.next)));
        }
        q.release(&mut memory);
        prop_assert_eq!(memory.info().used, 0);
        prop_assert_eq!(memory.parked(), 0);
    }

    /// A buffer that is kept is neither used nor lost, and goes back when the connection rests.
    #[test]
    fn an_emptied_buffer_is_kept_until_it_cools(sizes in prop::collection::vec(1u32..3000, 1..20)) {
        let (mut q, mut memory) = (ReceiveQueue::default(), Memory::default());
        let mut next = SeqNumber(7);
        for len in sizes {
            q.place(next, next, &bytes(0, len), &mut memory);
            next += len;
            prop_assert_eq!(q.readable().len(), len as usize);
            q.consume_keeping(len as usize, &mut memory);
            prop_assert_eq!((q.held(), memory.info().used), (0, 0));
            prop_assert_eq!(memory.parked(), q.ready.capacity());
        }
        q.cool(&mut memory);
        prop_assert!(!q.is_warm() && memory.parked() == 0 && memory.info().pooled > 0);
    }
}

impl Oracle {
    fn segment(
        &mut self,
        from: u32,
        len: u32,
        placed: Placed,
        start: SeqNumber,
    ) -> Result<(), TestCaseError> {
        let covered = (from..from + len)
            .filter(|&n| n < self.next || self.have[n as usize])
            .count();
        let (new, some_old) = (covered < len as usize, covered > 0);
        let repeated = match placed {
            Placed::InOrder { repeated, .. } | Placed::OutOfOrder { repeated } => {
                prop_assert!(new);
                repeated
            }
            Placed::Duplicate { repeated } => {
                prop_assert!(!new);
                Some(repeated)
            }
            other => panic!("{other:?} where there is room"),
        };
        prop_assert_eq!(repeated.is_some(), some_old);
        if let Some((left, right)) = repeated {
            let (left, right) = ((left - start) as u32, (right - start) as u32);
            prop_assert!(from <= left && left < right && right <= from + len);
            prop_assert!((left..right).all(|n| n < self.next || self.have[n as usize]));
        }
        (from..from + len).for_each(|n| self.have[n as usize] = true);
        while self.have.get(self.next as usize) == Some(&true) {
            self.next += 1;
        }
        if let Placed::InOrder { .. } = placed {
            prop_assert!(from <= self.next);
        }
        if new {
            self.latest = Some(from);
        }
        Ok(())
    }

    /// What the queue has given up is not there any more; only from some point on.
    fn pruned(&mut self, q: &ReceiveQueue, start: SeqNumber) {
        let end = q
            .beyond()
            .and_then(|b| b.ranges().back().copied())
            .map_or(self.next, |r| (r.1 - start) as u32);
        self.have[end.max(self.next) as usize..].fill(false);
        self.latest = self.latest.filter(|&n| self.have[n as usize]);
    }

    /// All that RFC 2018 §4 and RFC 2883 §4 ask of the blocks.
    fn check(&mut self, blocks: &[(u32, u32)], more: bool) -> Result<(), TestCaseError> {
        let held = |&(left, right): &(u32, u32)| {
            left > self.next
                && !self.have[left as usize - 1]
                && !self.have.get(right as usize).copied().unwrap_or(false)
                && (left..right).all(|n| self.have[n as usize])
        };
        let mut rest = blocks;
        let inside = |a: &(u32, u32), b: &(u32, u32)| a.0 >= b.0 && a.1 <= b.1;
        if let Some(first) = blocks.first() {
            let before = first.1 <= self.next;
            let within = blocks.get(1).is_some_and(|second| inside(first, second));
            if before || within {
                let reported = self.repeats.iter().any(|r| inside(r, first));
                prop_assert!(reported, "D-SACK of {first:?}, which did not come again");
                rest = &blocks[1..];
            }
        }
        for block in rest {
            prop_assert!(held(block), "{block:?} is not what is held");
        }
        for (n, block) in rest.iter().enumerate() {
            prop_assert!(!rest[..n].contains(block), "{block:?} is said twice");
        }
        let latest = self.latest.filter(|&n| n >= self.next);
        if let Some(latest) = latest.filter(|_| !more && rest.len() == blocks.len()) {
            let (left, right) = rest.first().copied().unwrap_or_default();
            prop_assert!(left <= latest && latest < right, "the latest is not first");
        }
        Ok(())
    }
}
