//! Its memory is the program's, too, and is written over while the handler looks there: words, rows, and what tables are made of.
//!
//! Whatever a handler reads twice may have changed between. What leaves is an answer all the same: to who asked, of a length that the handler may
//! give it, with right sums; others' packets go as ever.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use exos_ash::{Checked, Layout, Memory, parse};
use exos_testing::Random;
use exos_wire::checksum::Sum;
use exos_wire::{ethernet, ipv4, protocol, udp};

use super::*;
use crate::attacks::attacker::Hostile;
use crate::attacks::program::Program;
use crate::attacks::world::{OUR_MAC, PEER_MAC, World};

/// Numbers of memory are lengths, places and rows.
const RACES: &str = "
    handler races {
        words state[8];
        rows lines[8] of 64;
        table names[16] of 16;

        need 16;
        word = find(names, 0, 8);
        line = &lines[word];
        count = &state[u8(9) & 7];
        if u8(8) < 128 {
            reply *count up to 100 { row(0, line, *count); be64(4) = word; }
        }
        take(line, 0, length);
        add(count, word);
        reply length { be64(8) = *count; }
    }";
const NAME: &[u8] = b"the name";
/// Of a reply whose length is computed. Others are as long as their message, which has to fit a row.
const LONGEST: usize = 100;
const SENT: u64 = 6000;

/// Memory is anything, or what it should be: a name, and words that are lengths.
fn write_anything(handler: &Checked, words: &[AtomicU64], random: &mut Random) {
    let layout = Layout::of(handler.handler());
    let any = |random: &mut Random| match random.below(4) {
        0 => random.next(),
        1 => u64::MAX >> random.below(64),
        _ => random.below(80) as u64,
    };
    if random.one_in(8) {
        let memory = Memory::new(words, &layout, handler.handler());
        words
            .iter()
            .for_each(|word| word.store(0, Ordering::Relaxed));
        let names = memory.table("names").expect("it has one");
        names.insert(NAME, random.below(9) as u64).expect("empty");
        for word in memory.words("state").expect("it has some") {
            word.store(random.below(80) as u64, Ordering::Relaxed);
        }
        return;
    }
    let place = random.below(words.len());
    words[place].store(any(random), Ordering::Relaxed);
}

/// Has the handler, and writes over its memory until told to end.
fn race(hostile: &Hostile, program: &Program) {
    program.connection.must_claim(PORT);
    let handler = parse(RACES).expect("it is sound");
    let (answer, mut fds) = program
        .connection
        .ask_until_heard(&download_of(PORT, RACES));
    assert_eq!(answer, Answer::Downloaded);
    let len = Layout::of(handler.handler()).bytes() as usize;
    let memory = MappedArray::adopt(fds.pop().expect("memory"), len);
    let memory = memory.expect("without privilege, too");
    hostile.say(&program.slot.to_string());
    let (mut random, is_over) = (Random(25), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                write_anything(&handler, memory.words(), &mut random);
            }
        });
        hostile.wait_for("go");
        is_over.store(true, Ordering::Relaxed);
    });
}

/// A message to the handler from one of the far end's ports.
fn message(random: &mut Random) -> Vec<u8> {
    let mut said = match random.one_in(8) {
        true => random.bytes(8),
        false => NAME.to_vec(),
    };
    let len = random.pick(&[4, 8, 8, 40, 56, 57, 1000]);
    said.extend(random.bytes(len));
    let mut ends = to_us(OURS, PORT);
    ends.from.set_port(9000 + random.below(8) as u16);
    packets::udp(&ends, &said)
}

/// From the port to who asked, no longer than it says, with right sums.
fn must_be_an_answer(frame: &[u8]) {
    let say = || format!("{frame:02x?}");
    assert_eq!(frame[..12], [PEER_MAC.0, OUR_MAC.0].concat(), "{}", say());
    let packet = &frame[ethernet::LEN..];
    assert_eq!(packet[0], 0x45, "{}", say());
    assert_eq!(Sum::of(&packet[..ipv4::LEN]).finish(), 0, "{}", say());
    let len = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    assert_eq!(packet.len(), len, "{}", say());
    let said = len - ipv4::LEN - udp::LEN;
    assert!(said <= LONGEST, "{said}: {}", say());
    let ends = to_us(OURS, PORT);
    let (IpAddr::V4(to), IpAddr::V4(from)) = (ends.from.ip(), ends.to.ip()) else {
        panic!("IPv4");
    };
    assert_eq!(
        packet[12..20],
        [from.octets(), to.octets()].concat(),
        "{}",
        say()
    );
    let datagram = &packet[ipv4::LEN..];
    let ports = [0, 2].map(|at| u16::from_be_bytes([datagram[at], datagram[at + 1]]));
    assert!(
        ports[0] == PORT && (9000..9008).contains(&ports[1]),
        "{}",
        say()
    );
    let pseudo = Sum::pseudo(from.into(), to.into(), protocol::UDP, datagram.len() as u32);
    let sum = pseudo.plus(Sum::of(datagram)).finish();
    assert_eq!(sum, 0, "{}", say());
}

fn judge(world: &World) {
    let _takes = world.take_redirected();
    let mut beside = world.program();
    beside.connection.must_claim(BESIDE);
    let mut attacker = world.attacker();
    let slot: u32 = attacker.says().parse().expect("a slot");
    let mut random = Random(26);
    for _ in 0..SENT {
        world.far.send(&message(&mut random));
        std::thread::sleep(Duration::from_micros(50));
    }
    let counted = |how: &str| world.counted(slot, &format!("handler_{how}"));
    let dealt_with = || counted("answered") + counted("gave_up") + counted("skipped");
    assert!(within(|| dealt_with() == SENT), "{}", dealt_with());
    assert!(
        counted("answered") > SENT / 100 && counted("gave_up") > SENT / 100,
        "one side alone"
    );
    world.far.send(&packets::udp(&to_us(OURS, BESIDE), LAST));
    assert_eq!(beside.receive_up_to(LAST).len(), 1, "others' alone");
    beside.send(&packets::udp(&from_us(OURS, BESIDE), LAST));
    let mut seen = world.far.seen_up_to(LAST);
    seen.pop();
    let is_udp = |frame: &Vec<u8>| frame[12..14] == [8, 0] && frame[23] == protocol::UDP;
    seen.retain(is_udp);
    seen.iter().for_each(|frame| must_be_an_answer(frame));
    let sent = world.counted(slot, "tx_packets");
    assert_eq!((seen.len() as u64, sent), (sent, counted("answered")));
    attacker.tell("go");
    attacker.finish();
}

/// Its words, rows and table are written over while messages come.
#[test]
fn whose_memory_is_anything() {
    case(
        |hostile| {
            let program = hostile.attach();
            race(hostile, &program);
        },
        judge,
    );
}
