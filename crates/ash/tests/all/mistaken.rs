//! On ways that a processor takes by a wrong prediction nothing that a handler may not read becomes an address (Spectre, variant 1). The
//! generated code is run so by an interpreter, with each of its jumps wrong, up to three at once:
//! without the kernel, and without privilege.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use exos_ash::kernel::InKernel;
use exos_ash::{Checked, Layout, parse};
use exos_filter::handler::Handler as _;
use exos_filter::handler::forward::WayOut;
use exos_testing::Random;
use exos_testing::ebpf::{Jumps, Map, Program, disassemble};

use crate::packets::{BROADCAST, OURS, PORT, ends, frame};
use crate::{draw, words};

const PROGRAMS: i32 = 7;
const COUNTERS: i32 = 8;
const MEMORY: i32 = 9;

/// Each reads by a number that the message chooses, and makes an address of what it has read: at last a place, from which nothing follows.
const PLACE: &str = "handler place { words a[64]; words b[64]; need 8;
    p = &a[be64(0)]; q = &b[*p]; x = *q; done; }";
const ODD_PLACE: &str = "handler odd { words a[60]; words b[64]; need 8;
    p = &a[u8(0)]; q = &b[*p]; x = *q; done; }";
const NUMBER: &str = "handler number { words b[64]; need 8; q = &b[be64(0)]; x = *q; done; }";
const SOMEWHERE: &str =
    "handler somewhere { words b[64]; need 41; q = &b[u8(u8(40))]; x = *q; done; }";
const KEY: &str = "handler key { table t[64] of 16; words b[64]; need 41; x = find(t, u8(40), 4);
    q = &b[x]; y = *q; done; }";
const ROW: &str = "handler rows_of { rows r[1] of 8; words b[64]; need 42; p = &r[0];
    take(p, u8(40), u8(41)); q = &b[3]; s = &b[*q]; x = *s; done; }";
const SUM: &str = "handler sums { rows r[1] of 64; words b[64]; need 42; p = &r[0];
    s = take(p, u8(40), u8(41)) through checksum; q = &b[s & 63]; x = *q; done; }";
/// A loop that goes on behind its row, into the region behind.
const BEHIND: &str = "handler behind { rows r[1] of 64; words b[64]; need 72; p = &r[0];
    take(p, u8(0), u8(1)) through xor(1, u8(2)); q = &b[0]; s = &b[*q & 63]; x = *s; done; }";
const FEW: &str = "handler few { rows r[1] of 64; words b[64]; p = &r[0];
    s = take(p, 32, 8) through xor(1, 3), checksum; q = &b[s & 63]; x = *q; done; }";
/// A number that becomes an address by way of memory, and of variables.
const BY_MEMORY: &str =
    "handler by_memory { words a[1]; words b[64]; need 41; p = &a[0]; add(p, u8(40));
    q = &b[*p & 63]; x = *q; done; }";
const BY_VARIABLES: &str = "handler by_variables { words b[64]; need 41; x = u8(40); y = x + 1; q = &b[y & 63]; z = *q; done; }";
const REGISTERS: &str = "handler registers { rows r[1] of 64; words b[64]; p = &r[0];
    s, t = take(p, 32, 8) through sum(1), hash(8); q = &b[t & 63]; x = *q; done; }";
const HASH: &str = "handler hashes { rows r[1] of 64; words b[64]; need 42; p = &r[0];
    s, t = take(p, u8(40), u8(41)) through or(1, 2), sum(1), hash(1); q = &b[t & 63]; x = *q; done; }";

fn generate(handler: &Checked) -> Vec<u64> {
    let program = InKernel {
        handler,
        memory_fd: MEMORY,
        mac: OURS,
        addresses: vec![ends(false).0, ends(true).0],
        not_from: vec![BROADCAST],
        port: PORT,
        may_be_partial: false,
        way_out: WayOut::Transmit,
    };
    program.program(PROGRAMS, COUNTERS).words()
}

/// What a message is, and one that says of itself that it is longer.
fn packets(message: &[u8]) -> [Vec<u8>; 2] {
    let whole = frame(false, message);
    let mut longer = whole.clone();
    longer[16..18].copy_from_slice(&(28u16 + 200).to_be_bytes());
    longer[38..40].copy_from_slice(&(8u16 + 200).to_be_bytes());
    // IPv4's sum is right again; there is none of UDP.
    longer[40..42].fill(0);
    longer[24..26].fill(0);
    let half = |sum: u32, half: &[u8]| sum + u32::from(u16::from_be_bytes([half[0], half[1]]));
    let sum = longer[14..34].chunks(2).fold(0, half);
    let sum = (sum & 0xffff) + (sum >> 16);
    longer[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    [whole, longer]
}

/// The jumps that were wrong where what was reached depends on what may not be read.
fn leak(program: &[u64], memory: &[AtomicU64], packet: &[u8]) -> Option<Vec<usize>> {
    let counters = [const { AtomicU64::new(0) }; 64];
    let array = |words, value_len| Map::Array { words, value_len };
    let maps = vec![
        (MEMORY, array(memory, memory.len() * 8)),
        (COUNTERS, array(&counters, 8)),
        (PROGRAMS, Map::Programs),
    ];
    let program = Program::new(program, maps);
    let differs = |wrong: &[usize]| {
        let zeros = program.ahead(packet, 0, Jumps::WrongAt(wrong));
        let others = program.ahead(packet, 0x15, Jumps::As(&zeros.jumps));
        (zeros.reached != others.reached, zeros.jumps.len())
    };
    let (_, count) = differs(&[]);
    for first in 0..count {
        let (leaks, count) = differs(&[first]);
        if leaks {
            return Some(vec![first]);
        }
        // Of long ways, what is near; the third may be the second.
        for second in first + 1..count.min(first + 40) {
            for third in second..second + 3 {
                if differs(&[first, second, third]).0 {
                    return Some(vec![first, second, third]);
                }
            }
        }
    }
    None
}

fn messages() -> [Vec<u8>; 9] {
    let index = |number: u64| number.to_be_bytes().to_vec();
    [
        Vec::new(),
        vec![1; 40],
        vec![8; 42],
        vec![100; 42],
        vec![38; 42],
        [vec![8, 64], vec![0; 70]].concat(),
        index(100),
        index(1 << 40 | 3),
        index(u64::MAX - 5),
    ]
}

fn leaks(handler: &str, program: &[u64]) -> Option<(Vec<u8>, Vec<usize>)> {
    let handler = parse(handler).unwrap();
    let memory = words(&Layout::of(handler.handler()));
    let packets = messages().into_iter().flat_map(|message| packets(&message));
    packets.into_iter().find_map(|packet| {
        let jumps = leak(program, &memory, &packet)?;
        Some((packet, jumps))
    })
}

/// How many clamps each has, and which of them it is to show: the first is the length's, the last the last place's. Not how a look-up
/// compares a key: what that leads to is a jump, and which way it goes is told to both runs.
const ALL: [(&str, usize, Range<usize>); 13] = [
    (PLACE, 4, 1..3),
    (ODD_PLACE, 4, 1..3),
    (NUMBER, 3, 0..2),
    (SOMEWHERE, 4, 1..3),
    (KEY, 6, 1..4),
    (ROW, 5, 3..4),
    (SUM, 9, 4..5),
    (BEHIND, 10, 5..6),
    (FEW, 3, 1..2),
    // That its number is masked is counted, not shown: nothing is changed ahead.
    (BY_MEMORY, 3, 0..0),
    (BY_VARIABLES, 3, 1..2),
    (REGISTERS, 4, 2..3),
    (HASH, 9, 4..5),
];

#[test]
fn what_is_read_on_a_mistaken_way_becomes_no_address() {
    for (text, ..) in ALL {
        let program = generate(&parse(text).unwrap());
        let leak = leaks(text, &program);
        assert!(
            leak.is_none(),
            "{text}\n{leak:?}\n{}",
            disassemble(&program)
        );
    }
}

#[test]
fn nor_is_it_of_drawn_handlers() {
    let mut random = Random(4715);
    for _ in 0..12 {
        let handler = draw::handler(&mut random);
        let memory = words(&Layout::of(handler.handler()));
        for word in &memory {
            word.store(random.next() >> random.below(64), Relaxed);
        }
        let program = generate(&handler);
        let mut message = draw::message(&mut random);
        message.truncate(64);
        for packet in packets(&message) {
            let leak = leak(&program, &memory, &packet);
            assert!(leak.is_none(), "{}\n{leak:?}", handler.handler());
        }
    }
}

/// A jump if greater than an immediate, then an `and` with it; a shift by the sign; a wide move.
const JUMP_IF_GREATER: u8 = 0x25;
const AND: u8 = 0x57;
const SIGN: u8 = 0xc7;
const XOR: u8 = 0xa7;
const SET: u8 = 0xb7;

fn code(word: u64) -> u8 {
    word.to_ne_bytes()[0]
}

fn immediate(word: u64) -> i32 {
    (word >> 32) as i32
}

/// The program without one of its clamps, each once.
fn without_a_clamp(program: &[u64]) -> Vec<Vec<u64>> {
    let mut all = Vec::new();
    for at in 1..program.len() - 1 {
        let [before, this, next] = [at - 1, at, at + 1].map(|at| program[at]);
        let set = |value: i32| {
            let mut without = program.to_vec();
            without[at] = u64::from(value as u32) << 32 | this & 0xff00 | u64::from(SET);
            without
        };
        let is_bound = code(before) == JUMP_IF_GREATER && immediate(before) == immediate(this);
        match code(this) {
            SIGN => all.push(set(if code(next) == XOR { 0 } else { -1 })),
            AND if is_bound => {
                let mut without = program.to_vec();
                without[at] = this & 0xff00 | u64::from(AND) | u64::from(u32::MAX) << 32;
                all.push(without);
            }
            _ => {}
        }
    }
    all
}

#[test]
fn without_any_of_its_clamps_a_handler_is_a_gadget() {
    for (text, count, shown) in ALL {
        let program = generate(&parse(text).unwrap());
        let all = without_a_clamp(&program);
        assert_eq!(all.len(), count, "{text}\n{}", disassemble(&program));
        for number in shown {
            let leak = leaks(text, &all[number]);
            assert!(
                leak.is_some(),
                "{text}: clamp {number}\n{}",
                disassemble(&program)
            );
        }
    }
}
