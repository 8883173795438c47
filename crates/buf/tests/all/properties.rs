//! Buffers and aggregates against the flat bytes that they stand for.

use std::ops::Range;

use exos_buf::limits::BLOCK_LEN;
use exos_buf::{Aggregate, Buffer, Foreign, SharedBytes, Slice};
use exos_wire::checksum::Sum;
use proptest::prelude::*;

/// Sums agree when they differ by at most the two zeros of ones' complement.
fn assert_same_sum(got: Sum, bytes: &[u8]) {
    let want = Sum::of(bytes);
    assert_eq!(
        got.value() % 0xffff,
        want.value() % 0xffff,
        "{} bytes",
        bytes.len()
    );
}

struct Theirs(Vec<u8>);

impl Foreign for Theirs {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn copy_to(&self, start: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.0[start..start + out.len()]);
    }

    fn taken(&self) -> u64 {
        self.0.len() as u64
    }
}

/// A buffer over these bytes as if they were in another process's memory.
fn foreign(bytes: Vec<u8>) -> Buffer {
    SharedBytes::foreign(Box::new(Theirs(bytes))).buffer()
}

/// Lengths around the block size, where the table's arithmetic has its edges.
fn contents() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![bytes(0..3 * BLOCK_LEN + 3), bytes(4000..4200)]
}

/// Two of three bytes are the ends of their range. Four are made of one number, for each number that is drawn takes its time.
fn bytes(len: Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    let numbers = prop::collection::vec(any::<u64>(), len.end.div_ceil(4));
    (len, numbers).prop_map(|(len, numbers)| {
        let pairs = numbers.iter().flat_map(|number| number.to_le_bytes());
        let pairs: Vec<u8> = pairs.collect();
        let byte = |pair: &[u8]| match pair[0] % 3 {
            0 => 0,
            1 => 0xff,
            _ => pair[1],
        };
        pairs.chunks_exact(2).map(byte).take(len).collect()
    })
}

fn part(len: usize) -> impl Strategy<Value = Range<usize>> {
    (0..=len, 0..=len).prop_map(|(a, b)| a.min(b)..a.max(b))
}

fn contents_and_part() -> impl Strategy<Value = (Vec<u8>, Range<usize>)> {
    contents().prop_flat_map(|bytes| {
        let len = bytes.len();
        (Just(bytes), part(len))
    })
}

/// Up to a dozen slices, each a part of a buffer of its own, and the bytes they spell.
fn slices() -> impl Strategy<Value = (Vec<Slice>, Vec<u8>)> {
    prop::collection::vec(contents_and_part(), 0..12).prop_map(|parts| {
        let mut flat = Vec::new();
        let slices = parts.into_iter().map(|(bytes, range)| {
            flat.extend_from_slice(&bytes[range.clone()]);
            // Some are in another process's memory.
            match bytes.len() % 3 {
                0 => foreign(bytes).slice(range),
                _ => Buffer::from(bytes).slice(range),
            }
        });
        (slices.collect(), flat)
    })
}

proptest! {
    /// What is sent once has no table, and the sums that it would have.
    #[test]
    fn sums_without_a_table((bytes, range) in contents_and_part()) {
        let buffer = Buffer::sent_once(bytes.clone());
        buffer.prepare_sums();
        assert_same_sum(buffer.sum(range.clone()), &bytes[range]);
        prop_assert!(!buffer.has_sums());
        prop_assert_eq!(&*buffer.into_bytes().unwrap(), &bytes[..]);
    }

    /// A run of segments, each beginning where the last ended or, one in four, elsewhere: what is remembered of
    /// one sum must not be taken for another.
    #[test]
    fn sums_of_segments_in_a_row(
        bytes in contents(),
        steps in prop::collection::vec((0usize..4, 1usize..400), 1..30),
    ) {
        let buffer = Buffer::from(bytes.clone());
        let mut at = 0;
        for (jump, len) in steps {
            let start = if jump == 0 { len * 7 % (bytes.len() + 1) } else { at };
            let end = bytes.len().min(start + len);
            assert_same_sum(buffer.sum(start..end), &bytes[start..end]);
            at = end;
        }
    }
}

proptest! {
    #[test]
    fn the_sum_of_any_part_is_the_sum_of_its_bytes((bytes, range) in contents_and_part()) {
        let buffer = Buffer::from(bytes.as_slice());
        assert_same_sum(buffer.sum(range.clone()), &bytes[range]);
    }

    #[test]
    fn a_part_of_a_part_is_that_part((bytes, outer) in contents_and_part(), a: prop::sample::Index, b: prop::sample::Index) {
        let slice = Buffer::from(bytes.as_slice()).slice(outer.clone());
        let (a, b) = (a.index(slice.len() + 1), b.index(slice.len() + 1));
        let inner = a.min(b)..a.max(b);
        let want = &bytes[outer][inner.clone()];
        let part = slice.sub(inner.clone());
        prop_assert_eq!(part.as_bytes(), want);
        assert_same_sum(slice.sum(inner), want);
    }

    #[test]
    fn an_aggregate_reads_like_its_bytes(
        (slices, flat) in slices(), a: prop::sample::Index, b: prop::sample::Index, near in 0..9usize,
    ) {
        let aggregate: Aggregate = slices.into_iter().collect();
        prop_assert_eq!(aggregate.len(), flat.len());
        let (a, b) = (a.index(flat.len() + 1), b.index(flat.len() + 1));
        let range = a.min(b)..a.max(b);
        let want = &flat[range.clone()];
        prop_assert_eq!(aggregate.to_vec(range.clone()), want);
        assert_same_sum(aggregate.sum(range.clone()), want);
        if !range.is_empty() {
            let first = aggregate.pieces(range.clone()).next().filter(|p| p.len() == want.len());
            // Wherever the search begins, and once more from where it ended.
            let mut near = near;
            let piece = aggregate.piece(range.clone(), &mut near);
            let again = aggregate.piece(range.clone(), &mut near);
            prop_assert_eq!(piece.as_ref().map(|p| p.as_bytes()), again.as_ref().map(|p| p.as_bytes()));
            prop_assert_eq!(piece.as_ref().map(|p| p.as_bytes()), first.as_ref().map(|p| p.as_bytes()));
        }
        let part = aggregate.range(range);
        prop_assert_eq!(part.to_vec(0..part.len()), want);
    }

    #[test]
    fn advancing_drops_bytes_from_the_front((slices, flat) in slices(), steps in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let mut aggregate = Aggregate::new();
        let mut left = flat.as_slice();
        let mut pending = slices.into_iter();
        aggregate.extend(pending.by_ref().take(4));
        for step in steps {
            let count = step.index(aggregate.len() + 1);
            aggregate.advance(count);
            left = &left[count..];
            aggregate.extend(pending.next());
            prop_assert_eq!(aggregate.to_vec(0..aggregate.len()), &left[..aggregate.len()]);
        }
        aggregate.extend(pending);
        prop_assert_eq!(aggregate.to_vec(0..aggregate.len()), left);
        assert_same_sum(aggregate.sum(0..aggregate.len()), left);
        aggregate.clear();
        prop_assert!(aggregate.is_empty());
        prop_assert_eq!(aggregate.slice_count(), 0);
    }
}

/// What has been acknowledged is let go at once: a buffer is freed with its last reference.
#[test]
fn advancing_past_a_slice_releases_its_buffer() {
    let document = Buffer::from(vec![7; 1000]);
    let mut aggregate = Aggregate::new();
    aggregate.push(document.whole());
    aggregate.push(document.slice(10..20));
    aggregate.push(document.slice(5..5)); // Nothing, so nothing is held.
    assert_eq!(
        (aggregate.slice_count(), document.reference_count()),
        (2, 3)
    );
    aggregate.advance(999);
    assert_eq!(document.reference_count(), 3);
    aggregate.advance(1);
    assert_eq!(document.reference_count(), 2);
    aggregate.advance(10);
    assert_eq!(document.reference_count(), 1);
}

/// Slices of embedded bytes refer to them where they are.
#[test]
fn static_bytes_are_not_copied() {
    static TEXT: &[u8] = b"embedded in the program";
    let slice = Buffer::from_static(TEXT).slice(9..11);
    assert_eq!(slice.as_bytes(), b"in");
    assert_eq!(slice.as_bytes().as_ptr(), TEXT[9..].as_ptr());
}

#[test]
#[should_panic(expected = "advance 6 of 5 bytes")]
fn advancing_past_the_end_is_a_bug() {
    let mut aggregate = Aggregate::new();
    aggregate.push(Buffer::from(vec![1; 5]).whole());
    aggregate.advance(6);
}

#[test]
#[should_panic(expected = "part 0..6 of 5 bytes")]
fn a_part_beyond_its_slice_is_a_bug() {
    Buffer::from(vec![1; 50]).slice(10..15).sub(0..6);
}

/// The sizes that the per-connection memory is reckoned from.
#[test]
fn slices_are_small() {
    assert_eq!(size_of::<Buffer>(), 8);
    assert_eq!(size_of::<Slice>(), 16);
    assert!(size_of::<Aggregate>() <= 48);
}

#[test]
fn memory_comes_back_from_its_last_owner_alone() {
    let buffer = Buffer::from(vec![1; 300].into_boxed_slice());
    let (start, slice) = (buffer.as_slice().as_ptr(), buffer.slice(1..2));
    let buffer = buffer.into_bytes().expect_err("a slice refers to it");
    assert_eq!(slice.as_bytes(), [1]);
    assert_eq!(buffer.sum(0..300), Sum::of(&[1; 300]));
    drop(slice);
    let mut bytes = buffer.into_bytes().expect("nobody else has it");
    assert_eq!(bytes.as_ptr(), start);
    bytes.fill(2);
    let again = Buffer::from(bytes);
    assert_eq!(
        again.sum(0..300),
        Sum::of(&[2; 300]),
        "the sums are those of the new bytes"
    );
    let shared = SharedBytes::from(vec![3]).buffer();
    assert!(shared.into_bytes().is_err(), "other threads may have it");
    assert!(Buffer::from_static(b"x").into_bytes().is_err());
}
