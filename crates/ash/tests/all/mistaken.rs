//! On ways that a processor takes by a wrong prediction nothing that a handler may not read becomes an address, decides a jump or is divided
//! (Spectre, variant 1). The generated code is run so by an interpreter, with each of its jumps wrong, up to three at once: without the kernel,
//! and without privilege.
//!
//! Not covered: packets that end within their headers, and whether a datagram's checksum is right, whose bytes its length leads to.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use exos_ash::kernel::InKernel;
use exos_ash::{Checked, Layout, parse};
use exos_filter::handler::Handler as _;
use exos_filter::handler::forward::WayOut;
use exos_testing::Random;
use exos_testing::ebpf::{Ahead, Map, Program, disassemble};

use crate::packets::{BROADCAST, OURS, PORT, ends, frame};
use crate::{draw, words};

/// Bytes of a packet's headers, with IPv6's.
const HEADERS_MAX: usize = 62;
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

/// A number that decides, or is divided by.
const DECIDES: &str = "handler decides { words b[1]; need 41; p = &b[0]; x = u8(40); if x == 0 { add(p, 1); } done; }";
const DECIDES_WITH_ANOTHER: &str = "handler both { need 41; if length > 2 && (u8(40) < 1 || length < u8(40)) { reply length; } done; }";
const DECIDES_BY_MEMORY: &str = "handler by_memory { words w[1]; need 41; p = &w[0]; before = add(p, u8(40)); if *p == before { add(p, 1); } done; }";
const DIVIDES: &str =
    "handler divides { words w[1]; need 41; p = &w[0]; *p = 100 / (u8(40) + 1); done; }";
const REST: &str = "handler rest { words w[1]; need 41; p = &w[0]; *p = u8(40) % 3; done; }";
/// What is compared by a jump on some processors: what is expected, and what is there.
const EXPECTED: &str = "handler expected { words w[1]; need 41; p = &w[0]; x = u8(40);
    compare_swap(p, u8(38), u8(39)); compare_swap(p, x, 1); done; }";
/// A reply whose checksum follows what was read, where the packet is cut and where it is as long as its message.
const REPLY: &str = "handler leak { need 2; if u8(0) == 255 { need 41; reply length { be16(0) = u8(40) & 1; } } done; }";
const COUNTER: &str =
    "handler counter { words w[64]; need 41; p = &w[be32(0)]; before = add(p, be64(33));
    reply 41 { be64(33) = before; } }";
const COUNTER_AS_LONG: &str =
    "handler counter { words w[64]; need 41; p = &w[be32(0)]; before = add(p, be64(33));
    reply length { be64(33) = before; u8(3) = u8(40); } }";
const SHORTER: &str = "handler shorter { need 41; x = be16(39); reply u8(0) & 31 up to 31 { be16(0) = x; be32(1) = be32(37); } }";
const LONGER: &str = "handler longer { need 41; reply 64 { be16(0) = be16(39); } }";

/// How a handler's program is made: one of whose versions alone packets begin at a known byte.
#[derive(Clone, Copy, Debug)]
enum Made {
    ForBoth,
    ForIpv4,
}

const MADE: [Made; 2] = [Made::ForBoth, Made::ForIpv4];

fn generate(handler: &Checked, made: Made) -> Vec<u64> {
    let (versions, way_out) = match made {
        Made::ForBoth => (&[false, true][..], WayOut::Transmit),
        Made::ForIpv4 => (&[false][..], WayOut::Redirect(1)),
    };
    let program = InKernel {
        handler,
        memory_fd: MEMORY,
        mac: OURS,
        addresses: versions.iter().map(|v6| ends(*v6).0).collect(),
        not_from: vec![BROADCAST],
        port: PORT,
        may_be_partial: false,
        way_out,
    };
    program.program(PROGRAMS, COUNTERS).words()
}

/// What a message is, and one that says of itself that it is longer: as long as all headers, on a way of the other version, too.
fn packets(message: &[u8], made: Made) -> [Vec<u8>; 2] {
    let mut whole = frame(false, message);
    if let Made::ForBoth = made {
        whole.resize(whole.len().max(HEADERS_MAX), 0);
    }
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

/// The jump that asks whether a datagram's checksum is right: `r9 != 0xffff`.
fn is_of_checksum(jump: u64) -> bool {
    let [code, registers, ..] = jump.to_ne_bytes();
    (code, registers & 0xf, immediate(jump)) == (JUMP_UNLESS, 9, 0xffff)
}

/// The jumps that were wrong where what was done depends on what may not be read.
fn leak(program: &[u64], memory: &[AtomicU64], packet: &[u8]) -> Option<Vec<usize>> {
    let counters = [const { AtomicU64::new(0) }; 64];
    let array = |words, value_len| Map::Array { words, value_len };
    let maps = vec![
        (MEMORY, array(memory, memory.len() * 8)),
        (COUNTERS, array(&counters, 8)),
        (PROGRAMS, Map::Programs),
    ];
    let (code, program) = (program, Program::new(program, maps));
    let differs = |wrong: &[usize]| {
        let zeros = program.ahead(packet, 0, wrong);
        let mut wrong = wrong.to_vec();
        let others = loop {
            let others = program.ahead(packet, 0x15, &wrong);
            let mut jumps = zeros.jumps.iter().zip(&others.jumps);
            match jumps.position(|(zeros, others)| zeros != others) {
                Some(at) if is_of_checksum(code[zeros.jumps[at].0]) => {
                    // It goes as before.
                    match wrong.iter().position(|wrong| *wrong == at) {
                        Some(known) => drop(wrong.remove(known)),
                        None => wrong.push(at),
                    }
                }
                _ => break others,
            }
        };
        let done = |ahead: Ahead| (ahead.reached, ahead.jumps, ahead.timed);
        let count = zeros.jumps.len();
        (done(zeros) != done(others), count)
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

/// One whose checksum comes to zero, and is sent as all ones.
fn whose_checksum_is_all_ones() -> Vec<u8> {
    let sum = |message: &[u8]| [40, 41].map(|at| frame(false, message)[at]);
    let message = [[255; 2], sum(&[255, 255, 0, 0])].concat();
    assert_eq!(sum(&message), [0xff; 2]);
    message
}

fn messages() -> [Vec<u8>; 12] {
    let index = |number: u64| number.to_be_bytes().to_vec();
    [
        whose_checksum_is_all_ones(),
        Vec::new(),
        vec![1; 40],
        vec![8; 42],
        vec![100; 42],
        vec![38; 42],
        // Its last byte, and eight that are not there, as what is taken.
        [vec![0; 40], vec![41, 1]].concat(),
        [vec![0; 40], vec![100, 8]].concat(),
        [vec![8, 64], vec![0; 70]].concat(),
        index(100),
        index(1 << 40 | 3),
        index(u64::MAX - 5),
    ]
}

fn leaks(handler: &str, program: &[u64], made: Made) -> Option<(Vec<u8>, Vec<usize>)> {
    let handler = parse(handler).unwrap();
    let memory = words(&Layout::of(handler.handler()));
    let messages = messages().into_iter();
    let packets = messages.flat_map(|message| packets(&message, made));
    packets.into_iter().find_map(|packet| {
        let jumps = leak(program, &memory, &packet)?;
        Some((packet, jumps))
    })
}

/// How many clamps each has, the first of them the length's where it has one, and those that it does not show: that of a place from which nothing
/// follows, what is not used, and how a look-up compares a key, before which more jumps have to be wrong.
const ALL: [(&str, usize, &[usize]); 24] = [
    (PLACE, 4, &[3]),
    (ODD_PLACE, 4, &[3]),
    (NUMBER, 3, &[2]),
    (SOMEWHERE, 4, &[3]),
    (KEY, 6, &[4, 5]),
    (ROW, 5, &[4]),
    (SUM, 9, &[7, 8]),
    (BEHIND, 10, &[1, 4, 9]),
    (FEW, 3, &[2]),
    (BY_MEMORY, 3, &[2]),
    (BY_VARIABLES, 3, &[2]),
    (REGISTERS, 4, &[1, 3]),
    (HASH, 9, &[8]),
    (DECIDES, 2, &[]),
    (DECIDES_WITH_ANOTHER, 2, &[]),
    (DECIDES_BY_MEMORY, 2, &[]),
    (DIVIDES, 2, &[]),
    (REST, 2, &[]),
    (EXPECTED, 4, &[]),
    (REPLY, 1, &[0]),
    (COUNTER, 2, &[1]),
    (COUNTER_AS_LONG, 2, &[1]),
    (SHORTER, 1, &[]),
    (LONGER, 0, &[]),
];

#[test]
fn what_is_read_on_a_mistaken_way_becomes_no_address_and_decides_nothing() {
    for (text, ..) in ALL {
        for made in MADE {
            let program = generate(&parse(text).unwrap(), made);
            let leak = leaks(text, &program, made);
            assert!(
                leak.is_none(),
                "{text} {made:?}\n{leak:?}\n{}",
                disassemble(&program)
            );
        }
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
        let made = MADE[random.below(2)];
        let program = generate(&handler, made);
        let mut message = draw::message(&mut random);
        message.truncate(64);
        for packet in packets(&message, made) {
            let leak = leak(&program, &memory, &packet);
            assert!(leak.is_none(), "{}\n{leak:?}", handler.handler());
        }
    }
}

/// A jump if greater than an immediate, then an `and` with it; a shift by the sign; a wide move.
const JUMP_IF_GREATER: u8 = 0x25;
const JUMP_UNLESS: u8 = 0x55;
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
    for (text, count, not_shown) in ALL {
        let handler = parse(text).unwrap();
        let programs = MADE.map(|made| (made, generate(&handler, made)));
        let clamped = programs.map(|(made, program)| {
            let all = without_a_clamp(&program);
            assert_eq!(all.len(), count, "{text}\n{}", disassemble(&program));
            (made, all)
        });
        for number in (0..count).filter(|number| !not_shown.contains(number)) {
            let mut made = clamped.iter();
            let shown = made.any(|(made, all)| leaks(text, &all[number], *made).is_some());
            assert!(shown, "{text}: clamp {number}");
        }
    }
}
