//! The kernel itself, by what a program writes to the memory that they share: indices, descriptors, packets.
//!
//! The kernel takes indices and descriptors for input; what is wrong with them is counted by it (`XDP_STATISTICS`),
//! and what leaves is checked in a copy. A slot whose rings are out of order harms nobody but its owner.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::attacks::raw_rings::{RawRings, descriptor};
use crate::attacks::world::{MARK, OURS, ROOTS, World, case, from_us, must_be_clean, to_us};
use crate::packets;

const PORT: u16 = 7000;
const HELD: u16 = 8000;
const LAST: &[u8] = b"this is honest";

/// The program beside it goes on sending and receiving, and nothing marked has left until then.
fn others_go_on(world: &World) {
    let mut beside = world.program();
    beside.connection.must_claim(HELD);
    world.far.send(&packets::udp(&to_us(OURS, HELD), LAST));
    beside.receive_up_to(LAST);
    beside.send(&packets::udp(
        &from_us(OURS, HELD),
        b"and behind it the end",
    ));
    must_be_clean(&world.far.seen_up_to(b"and behind it the end"));
}

/// Addresses outside of the memory, lengths beyond the chunk, options that there are not, chains without end.
#[test]
fn with_descriptors_of_what_is_not_there() {
    const BAD: u64 = 11;
    case(
        |hostile| {
            let program = hostile.attach();
            program.connection.must_claim(PORT);
            let rings = RawRings::of(&program);
            let (end, chunk) = (rings.memory_len, u64::from(program.facts.chunk_size));
            let honest = packets::udp(&from_us(OURS, PORT), LAST);
            let len = honest.len() as u32;
            rings.write(0, &honest);
            let bad = [
                descriptor(end, 60, 0),
                descriptor(end - 1, 60, 0),
                descriptor(u64::MAX, 60, 0),
                descriptor(1 << 63, 60, 0),
                descriptor(u64::MAX - 59, 60, 0),
                descriptor(0, u32::MAX, 0),
                descriptor(0, chunk as u32 + 1, 0),
                descriptor(chunk - 1, 60, 0),
                descriptor(0, len, 0xffff_fffe),
                descriptor(0, len, 1 << 31),
                descriptor(0, 0, 0),
            ];
            assert_eq!(bad.len() as u64, BAD);
            for (index, words) in bad.iter().enumerate() {
                rings.tx.put(index as u32, words);
            }
            rings.submit(bad.len() as u32);
            // The kernel stops at each of them.
            (0..BAD).for_each(|_| rings.kick());
            let [_, _, invalid, ..] = rings.statistics();
            assert_eq!(invalid, BAD, "the kernel takes none of them");
            rings.tx.put(BAD as u32, &descriptor(0, len, 0));
            rings.submit(1);
            hostile.say(&program.slot.to_string());
            hostile.wait_for("go");
        },
        |world| {
            let mut attacker = world.attacker();
            let slot = attacker.says().parse().expect("a slot");
            world.far.seen_up_to(LAST);
            world.must_count(slot, "tx_packets", 1);
            others_go_on(world);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// A packet in more pieces than a packet can have, and one whose last piece never comes.
#[test]
fn with_chains_of_descriptors() {
    case(
        |hostile| {
            let program = hostile.attach();
            program.connection.must_claim(PORT);
            let rings = RawRings::of(&program);
            let forged = packets::udp(&from_us(ROOTS, PORT), MARK);
            rings.write(0, &forged);
            let len = forged.len() as u32;
            for index in 0..200 {
                rings
                    .tx
                    .put(index, &descriptor(0, len, libc::XDP_PKT_CONTD));
            }
            rings.tx.put(200, &descriptor(0, len, 0));
            rings.submit(201);
            // Never ended: the next is taken for a part of it, or for a packet of its own.
            rings.tx.put(201, &descriptor(0, len, libc::XDP_PKT_CONTD));
            rings.submit(1);
            rings.tx.put(202, &descriptor(0, len, 0));
            rings.submit(1);
            hostile.say("sent");
            hostile.wait_for("go");
        },
        |world| {
            let mut attacker = world.attacker();
            attacker.must_say("sent");
            others_go_on(world);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// Indices that jump: forward, back, past the other side's, in all four rings, while packets come and go.
#[test]
fn with_indices_that_jump() {
    case(
        |hostile| {
            let program = hostile.attach();
            program.connection.must_claim(PORT);
            let rings = RawRings::of(&program);
            let forged = packets::udp(&from_us(ROOTS, PORT), MARK);
            for ring in [rings.rx, rings.tx, rings.fill, rings.completion] {
                for index in 0..ring.entries() {
                    ring.put(
                        index,
                        &descriptor(u64::from(index) * 8, forged.len() as u32, 0),
                    );
                }
            }
            hostile.say("ready");
            hostile.wait_for("packets come");
            // Not by millions: see docs/internals/xokd.md, what the kernel does with an index far ahead.
            let jumps = [
                1,
                rings.tx.entries(),
                rings.tx.entries() + 1,
                100_000,
                u32::MAX,
            ];
            for jump in jumps {
                for ring in [rings.rx, rings.fill, rings.completion] {
                    ring.consumer().fetch_add(jump, Ordering::Release);
                    rings.kick();
                    ring.producer().fetch_add(jump, Ordering::Release);
                    rings.kick();
                }
                let ahead = jump.min(100_000);
                rings.tx.producer().fetch_add(ahead, Ordering::Release);
                rings.kick();
                rings.tx.consumer().fetch_add(ahead, Ordering::Release);
                rings.kick();
            }
            hostile.say("jumped");
            hostile.wait_for("go");
        },
        |world| {
            let mut attacker = world.attacker();
            attacker.must_say("ready");
            let to_it = packets::udp(&to_us(OURS, PORT), MARK);
            (0..100).for_each(|_| world.far.send(&to_it));
            attacker.tell("packets come");
            (0..1000).for_each(|_| world.far.send(&to_it));
            attacker.must_say("jumped");
            (0..100).for_each(|_| world.far.send(&to_it));
            others_go_on(world);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// Chunks to receive into that lie elsewhere: nothing is written there, and the packets are lost to this slot alone.
#[test]
fn with_places_to_receive_that_are_not_its_own() {
    case(
        |hostile| {
            let mut program = hostile.attach();
            program.connection.must_claim(PORT);
            let rings = RawRings::of(&program);
            let end = rings.memory_len;
            let bad = [end, end + 4096, u64::MAX, 1 << 63, !0 << 12];
            for index in 0..rings.fill.entries() {
                rings.fill.put(index, &[bad[index as usize % bad.len()]]);
            }
            hostile.say("ready");
            hostile.wait_for("sent");
            let mut received = 0;
            program.link.receive(|_, _| received += 1);
            let [dropped, invalid, ..] = rings.statistics();
            assert_eq!(received, 0);
            assert!(
                dropped + invalid > 0,
                "{dropped} dropped, {invalid} invalid"
            );
            hostile.say("nothing came");
        },
        |world| {
            let mut attacker = world.attacker();
            attacker.must_say("ready");
            let to_it = packets::udp(&to_us(OURS, PORT), MARK);
            (0..100).for_each(|_| world.far.send(&to_it));
            others_go_on(world);
            attacker.tell("sent");
            attacker.must_say("nothing came");
            attacker.finish();
        },
    );
}

/// Sends the packet at 2 of the memory many times, while its descriptors change under the kernel's eyes.
fn send_with_changing_lengths(rings: &RawRings, len: u32) {
    const ROUNDS: u32 = 20_000;
    let batch = rings.tx.entries() / 4;
    let mut index = 0;
    while index < ROUNDS {
        for at in index..index + batch {
            let (len, options) = match at % 7 {
                0 => (20, libc::XDP_PKT_CONTD),
                _ => (len, 0),
            };
            rings.tx.put(at, &descriptor(2, len, options));
        }
        rings.submit(batch);
        while rings.tx.consumer().load(Ordering::Acquire) != index + batch {
            rings.tx.put(index + 3, &descriptor(2, u32::MAX, 0));
            rings.tx.put(index + 3, &descriptor(2, len, 0));
            // What was sent has to be taken back for more to be sent.
            let done = rings.completion.producer().load(Ordering::Acquire);
            rings.completion.consumer().store(done, Ordering::Release);
            rings.kick();
        }
        index += batch;
    }
}

/// The packet changes between its submission and its check, and between its check and its leaving: what is checked
/// is a copy, and the copy is what leaves.
#[test]
fn with_packets_that_change_after_submission() {
    case(
        |hostile| {
            let program = hostile.attach();
            program.connection.must_claim(PORT);
            let rings = RawRings::of(&program);
            let honest = packets::udp(&from_us(OURS, PORT), MARK);
            rings.write(2, &honest);
            // The source address is at 2 + 14 + 12 = 28 of the memory; its last byte is what changes.
            let source = rings.word(28);
            let ours = source.load(Ordering::Relaxed);
            let other = u32::from_ne_bytes([10, 79, 0, 8]);
            assert_eq!(ours, u32::from_ne_bytes([10, 79, 0, 7]));
            let ends = Arc::new(AtomicBool::new(false));
            let flipper = std::thread::spawn({
                let ends = Arc::clone(&ends);
                move || {
                    while !ends.load(Ordering::Relaxed) {
                        source.store(other, Ordering::Relaxed);
                        source.store(ours, Ordering::Relaxed);
                    }
                }
            });
            send_with_changing_lengths(&rings, honest.len() as u32);
            ends.store(true, Ordering::Relaxed);
            flipper.join().expect("it does not panic");
            hostile.say(&program.slot.to_string());
            hostile.wait_for("go");
        },
        |world| {
            let mut attacker = world.attacker();
            let slot = attacker.says().parse().expect("a slot");
            let mut beside = world.program();
            beside.connection.must_claim(HELD);
            beside.send(&packets::udp(&from_us(OURS, HELD), LAST));
            let seen = world.far.seen_up_to(LAST);
            let source = |frame: &Vec<u8>| frame.get(26..30).map(<[u8]>::to_vec);
            let foreign = seen
                .iter()
                .filter(|f| source(f) == Some(vec![10, 79, 0, 8]));
            assert_eq!(foreign.count(), 0, "a packet changed behind its check");
            // Both kinds were there to be told apart.
            assert!(world.counted(slot, "tx_packets") > 0);
            assert!(world.counted(slot, "tx_bad_source") > 0);
            attacker.tell("go");
            attacker.finish();
        },
    );
}
