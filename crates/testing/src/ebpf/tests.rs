//! What is refused, and what can happen between two steps. That numbers come out as in the kernel is tested against it,
//! where there is a generator (`exos-filter`, `exos-forward`).

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

fn word(code: u8, registers: (u8, u8), offset: i16, imm: i32) -> u64 {
    let (dst, src) = registers;
    let registers = match cfg!(target_endian = "little") {
        true => dst | src << 4,
        false => dst << 4 | src,
    };
    let ([o0, o1], [i0, i1, i2, i3]) = (offset.to_ne_bytes(), imm.to_ne_bytes());
    u64::from_ne_bytes([code, registers, o0, o1, i0, i1, i2, i3])
}

fn set(register: u8, value: i32) -> u64 {
    word(0xb7, (register, 0), 0, value)
}

const EXIT: u64 = if cfg!(target_endian = "little") {
    0x95
} else {
    0x95 << 56
};

/// A map's values in r1, those of the array with descriptor 7; place 1.
fn values() -> Vec<u64> {
    vec![
        word(0x62, (10, 0), -4, 1),
        word(0xbf, (2, 10), 0, 0),
        word(0x07, (2, 0), 0, -4),
        word(0x18, (1, 1), 0, 7),
        0,
        word(0x85, (0, 0), 0, 1),
        word(0xbf, (1, 0), 0, 0),
    ]
}

fn memory() -> Vec<AtomicU64> {
    (0..4).map(AtomicU64::new).collect()
}

fn program<'a>(words: &'a [u64], memory: &'a [AtomicU64]) -> Program<'a> {
    let array = Map::Array {
        words: memory,
        value_len: 16,
    };
    Program::new(words, vec![(7, array)])
}

/// What is not known, and what the verifier would not let pass, is refused, where it is.
#[test]
fn what_is_not_known_is_refused() {
    let after_values = |insn: u64| {
        values()
            .into_iter()
            .chain([insn, set(0, 1), EXIT])
            .collect()
    };
    let cases: [(Vec<u64>, &str); 20] = [
        (vec![set(0, 1)], "there is no instruction 1"),
        (vec![word(0x05, (0, 0), -2, 0)], "before the beginning"),
        // Negation; a move and a division with signs; half of a byte swap.
        (
            vec![set(0, 1), word(0x87, (0, 0), 0, 0)],
            "instruction 1: unknown arithmetic",
        ),
        (vec![set(0, 1), word(0xbf, (0, 0), 8, 0)], "with an offset"),
        (vec![set(0, 1), word(0x37, (0, 0), 1, 2)], "with an offset"),
        (
            vec![set(0, 1), word(0xdc, (0, 0), 0, 24)],
            "unknown arithmetic",
        ),
        (
            vec![set(0, 1), word(0x75, (0, 0), 0, 1), EXIT],
            "unknown condition",
        ),
        (vec![EXIT], "r0 holds nothing"),
        (vec![set(10, 1)], "r10 cannot be written"),
        (vec![word(0x79, (0, 10), 0, 0)], "instruction 0: no 8 bytes"),
        (vec![word(0x61, (0, 1), 8, 0)], "no 4 bytes"),
        (vec![word(0x63, (1, 10), 0, 0)], "no 4 bytes"),
        (
            vec![word(0x61, (2, 1), 0, 0), word(0x69, (0, 2), 19, 0)],
            "no 2 bytes",
        ),
        (
            vec![word(0x20, (0, 0), 0, 0), 0],
            "an unknown load of 64 bits",
        ),
        (
            vec![word(0x18, (0, 1), 0, 8), 0],
            "an unknown load of 64 bits, or of no map",
        ),
        (vec![word(0x85, (0, 0), 0, 6)], "unknown helper 6"),
        (vec![word(0x85, (0, 2), 0, 1)], "a call of no helper"),
        (after_values(word(0x79, (0, 1), 12, 0)), "no 8 bytes"),
        (
            after_values(word(0x79, (0, 1), 16, 0)),
            "beyond a map's values",
        ),
        // An exchange without a condition.
        (
            after_values(word(0xdb, (1, 0), 0, 0xe1)),
            "an unknown store",
        ),
    ];
    let memory = memory();
    for (words, why) in cases {
        let program = program(&words, &memory);
        let mut run = Run::new(&[0; 20], 0);
        let refused = catch_unwind(AssertUnwindSafe(|| program.finish(&mut run)));
        let said = refused.expect_err(why);
        let said = said.downcast_ref::<String>().expect("a text");
        assert!(said.contains(why), "{said}, not {why}");
    }
}

/// A call leaves nothing in the registers of its arguments.
#[test]
fn arguments_are_lost() {
    let words: Vec<u64> = [set(3, 1), word(0x85, (0, 0), 0, 5), EXIT].into();
    let program = program(&words, &[]);
    let mut run = Run::new(&[0; 20], 77);
    assert_eq!(program.finish(&mut run), 77);
    assert_eq!(run.registers[..6], [Some(77), None, None, None, None, None]);
}

/// Two runs count at the same place. By a load and a store one count is lost, if the other comes between; by an addition
/// that is one step none is; and an exchange that expects what was there before finds that it has changed.
#[test]
fn anything_can_come_between_two_steps() {
    let add = [set(2, 1), word(0xdb, (1, 2), 8, 0), set(0, 0), EXIT];
    let fetch_add = [set(0, 1), word(0xdb, (1, 0), 8, 1), EXIT];
    let load_and_store = [
        word(0x79, (2, 1), 8, 0),
        word(0x07, (2, 0), 0, 1),
        word(0x7b, (1, 2), 8, 0),
        set(0, 0),
        EXIT,
    ];
    let exchange = [
        word(0x79, (0, 1), 8, 0),
        word(0xbf, (2, 0), 0, 0),
        word(0x07, (2, 0), 0, 1),
        word(0xdb, (1, 2), 8, 0xf1),
        EXIT,
    ];
    // What the two return, and what is there afterwards: without and with the second one in the middle of the first.
    for (code, apart, between) in [
        (&add[..], (0, 0, 5), (0, 0, 5)),
        (&fetch_add, (3, 4, 5), (4, 3, 5)),
        (&load_and_store, (0, 0, 5), (0, 0, 4)),
        (&exchange, (3, 4, 5), (4, 3, 4)),
    ] {
        let words: Vec<u64> = values().into_iter().chain(code.iter().copied()).collect();
        for (is_between, wanted) in [(false, apart), (true, between)] {
            let memory = memory();
            let program = program(&words, &memory);
            let mut runs = [(); 2].map(|()| Run::new(&[0; 20], 0));
            let [first, second] = &mut runs;
            // As far as its last access to what is shared.
            let mut accesses = 0;
            let last = code
                .iter()
                .filter(|word| matches!(word.to_ne_bytes()[0], 0x79 | 0x7b | 0xdb));
            let last = last.count();
            loop {
                accesses += usize::from(program.is_shared(first));
                if accesses == last {
                    break;
                }
                assert_eq!(program.step(first), None);
            }
            let (a, b) = if is_between {
                let b = program.finish(second);
                (program.finish(first), b)
            } else {
                (program.finish(first), program.finish(second))
            };
            let there = memory.iter().map(|word| word.load(Ordering::Relaxed));
            assert_eq!((a, b, there.collect::<Vec<_>>()[3]), wanted);
            assert_eq!(memory[2].load(Ordering::Relaxed), 2, "its neighbour");
        }
    }
}
