//! The bytes of single fields.

use proptest::prelude::*;

use super::*;

/// One of each kind, as the table in `codec` has them.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    byte: u8,
    word: u64,
    seq: SeqNumber,
    flag: bool,
    maybe: Option<SeqNumber>,
    wait: Option<Duration>,
    past: Instant,
    deadline: Instant,
    never: Instant,
    clock: u32,
    text: Vec<u8>,
}

fn walk(sample: &mut Sample, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
    travel!(wire, sample => Sample {
        byte: u8,
        word: u64,
        seq: seq,
        flag: flag,
        maybe: seq_option,
        wait: duration_option,
        past: age,
        deadline: until,
        never: until,
        clock: clock,
    } by_hand { text, } stay {});
    let at = wire.block(text)?;
    if wire.reads() {
        *text = wire.read_at(at).to_vec();
    }
    wire.end()
}

const EMPTY: Sample = Sample {
    byte: 0,
    word: 0,
    seq: SeqNumber(0),
    flag: false,
    maybe: Some(SeqNumber(7)),
    wait: Some(Duration::ZERO),
    past: Instant::START,
    deadline: Instant::START,
    never: Instant::START,
    clock: 0,
    text: Vec::new(),
};

fn written(sample: &Sample, now: Instant) -> Vec<u8> {
    let mut wire = Wire::writer(now);
    walk(&mut sample.clone(), &mut wire).expect("writing does not fail");
    wire.into_bytes()
}

fn at(micros: u64) -> Instant {
    Instant::from_micros(micros)
}

/// Byte by byte: what the table says is what is written.
#[test]
fn numbers_are_little_endian() {
    let sample = Sample {
        byte: 1,
        word: 0x0203,
        seq: SeqNumber(0x0405_0607),
        flag: true,
        maybe: None,
        wait: Some(Duration::from_micros(8)),
        past: at(91),
        deadline: at(110),
        never: Instant::NEVER,
        clock: 11,
        text: b"ab".to_vec(),
    };
    let expected = [
        &[1][..],
        &[3, 2, 0, 0, 0, 0, 0, 0],
        &[7, 6, 5, 4],
        &[1],
        &[0],
        &[1, 8, 0, 0, 0, 0, 0, 0, 0],
        &[9, 0, 0, 0, 0, 0, 0, 0],
        &[10, 0, 0, 0, 0, 0, 0, 0],
        &[0xff; 8],
        &[11, 0, 0, 0],
        &[2, 0, 0, 0, b'a', b'b'],
    ];
    assert_eq!(written(&sample, at(100)), expected.concat());
}

proptest! {
    /// Whatever the two clocks show, moments are as far away on the other side, the clock of timestamps goes on,
    /// and all else is the same.
    #[test]
    fn what_was_written_is_read_under_another_clock(
        numbers in any::<(u8, u64, u32, bool)>(),
        options in any::<(Option<u32>, Option<u32>)>(),
        age in 0u64..1 << 40, left in 0u64..1 << 40, clock: u32,
        text in prop::collection::vec(any::<u8>(), 0..50),
        here in (1u64 << 40)..1 << 50, there in (1u64 << 40)..1 << 50,
    ) {
        let (byte, word, seq, flag) = numbers;
        let sample = Sample {
            byte, word, flag, clock, text,
            seq: SeqNumber(seq),
            maybe: options.0.map(SeqNumber),
            wait: options.1.map(|n| Duration::from_micros(n.into())),
            past: at(here - age),
            deadline: at(here + left),
            never: Instant::NEVER,
        };
        let bytes = written(&sample, at(here));
        let mut read = EMPTY;
        walk(&mut read, &mut Wire::reader(&bytes, at(there))).unwrap();
        let shown = |offset: u32, now| offset.wrapping_add(at(now).millis() as u32);
        prop_assert_eq!(shown(read.clock, there), shown(clock, here));
        let expected = Sample {
            past: at(there - age),
            deadline: at(there + left),
            clock: read.clock,
            ..sample
        };
        prop_assert_eq!(read, expected);
        for end in 0..bytes.len() {
            let cut = walk(&mut EMPTY.clone(), &mut Wire::reader(&bytes[..end], at(there)));
            prop_assert_eq!(cut, Err(HandoverError::Truncated));
        }
    }

    /// What is older than this side's clock counts as old as that; a moment beyond all time is never.
    #[test]
    fn any_bytes_give_moments(bytes in prop::collection::vec(any::<u8>(), 0..100), now: u64) {
        let mut read = EMPTY;
        let result = walk(&mut read, &mut Wire::reader(&bytes, at(now)));
        prop_assert!(read.past <= at(now).max(EMPTY.past));
        if result.is_ok() {
            prop_assert!(read.deadline >= at(now) && read.never >= at(now));
        }
    }
}
