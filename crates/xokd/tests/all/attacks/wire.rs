//! From the wire: floods to ports that nobody has and to one program, and packets that contradict themselves.
//!
//! Packets at the gate's programs alone, by the hundred thousand, are `crates/filter/tests/all/gate_agreement`
//! (`BPF_PROG_TEST_RUN`, with a model beside); here they come over an interface, and the daemon's own stack is behind.

use std::net::SocketAddr;

use exos_wire::{Mac, arp, protocol};
use exos_xok::Protocol;
use exos_xok::message::{Answer, PortWish};

use crate::attacks::program::Program;
use crate::attacks::world::{
    MARK, OUR_MAC, OURS, OURS_V6, World, case, from_us, must_be_clean, to_us,
};
use crate::packets::{self, FrameEnds};

const HELD: u16 = 8000;
const LAST: &[u8] = b"this is honest";

/// An honest program that gets what is sent to it last.
fn holder(world: &World) -> Program {
    let program = world.program();
    program.connection.must_claim(HELD);
    program
}

fn still_receives(world: &World, program: &mut Program) {
    world.far.send(&packets::udp(&to_us(OURS, HELD), LAST));
    must_be_clean(&program.receive_up_to(LAST));
    program.send(&packets::udp(&from_us(OURS, HELD), LAST));
    world.far.seen_up_to(LAST);
}

/// To every port but the one that is somebody's, UDP and TCP of both families.
#[test]
fn floods_to_ports_that_nobody_has() {
    case(
        |_| {},
        |world| {
            let mut program = holder(world);
            let (mut sent, step) = (0, 7);
            for ip in [OURS, OURS_V6] {
                for port in (1..=u16::MAX).step_by(step).filter(|port| *port != HELD) {
                    world.far.send(&packets::udp(&to_us(ip, port), MARK));
                    sent += 1;
                }
            }
            still_receives(world, &mut program);
            world.must_count(program.slot, "rx_packets", 1);
            let report = world.report();
            let stray = report["interfaces"][0]["host"]["stray_to_daemon"].as_u64();
            assert!(stray >= Some(sent), "{stray:?} of {sent} were counted");
        },
    );
}

/// More than a ration of it, all at once: ARP that comes behind it is answered, every request; and so is anyone who sends to a
/// port that nobody has, behind a flood of ARP.
#[test]
fn floods_that_come_before_what_must_be_answered() {
    case(
        |_| {},
        |world| {
            const FLOOD: usize = 4000;
            const ASKERS: u8 = 100;
            let asker = |last: u8| FrameEnds {
                from_mac: Mac([2, 0, 0, 0, 80, last]),
                from: SocketAddr::from(([10, 79, 0, 100 + last], 9)),
                ..to_us(OURS, 1)
            };
            let flood = packets::udp(&to_us(OURS, 1), MARK);
            world.while_the_daemon_stands(|| {
                (0..FLOOD).for_each(|_| world.far.send(&flood));
                for last in 0..ASKERS {
                    let ask = packets::arp(&asker(last), arp::REQUEST, &[]);
                    world.far.send(&ask);
                }
            });
            let answered = |last: u8| {
                let FrameEnds { from_mac, from, .. } = asker(last);
                let ends = FrameEnds {
                    from_mac: OUR_MAC,
                    to_mac: from_mac,
                    from: to_us(OURS, 0).to,
                    to: from,
                };
                packets::arp(&ends, arp::REPLY, &[])
            };
            for last in 0..ASKERS {
                world.far.seen_up_to(&answered(last));
            }
            let dropped = |class: &str| {
                let counters = world.report()["interfaces"][0]["daemon"].take();
                counters[format!("drop_{class}_over_ration")]
                    .as_u64()
                    .unwrap_or(0)
            };
            assert!(dropped("strays") > 0 && dropped("neighbors") == 0);
            let ask = packets::arp(&asker(0), arp::REQUEST, &[]);
            world.while_the_daemon_stands(|| {
                (0..FLOOD).for_each(|_| world.far.send(&ask));
                world.far.send(&packets::echo(&asker(1), LAST));
            });
            world.far.seen_up_to(LAST);
            assert!(dropped("neighbors") > 0);
        },
    );
}

/// A program that is flooded and does not look loses packets; the one beside it none.
#[test]
fn floods_to_one_program() {
    case(
        |hostile| {
            let program = hostile.attach();
            program.connection.must_claim(7000);
            hostile.say("it looks away");
            hostile.wait_for("go");
        },
        |world| {
            let mut program = holder(world);
            let mut flooded = world.attacker();
            flooded.must_say("it looks away");
            let flood = packets::udp(&to_us(OURS, 7000), MARK);
            for _ in 0..20 {
                (0..1000).for_each(|_| world.far.send(&flood));
                still_receives(world, &mut program);
            }
            world.must_count(program.slot, "rx_packets", 20);
            flooded.tell("go");
            flooded.finish();
        },
    );
}

/// Of a program that does not look a flood fills a part of the ring only: there is room for a client's datagram behind it.
#[test]
fn floods_leave_room_in_the_ring() {
    case(
        |_| {},
        |world| {
            // What `CHUNKS` give.
            let places = 256;
            let mut program = holder(world);
            let tcp = program
                .connection
                .claim(Protocol::Tcp, PortWish::Number(HELD));
            assert!(matches!(tcp, Answer::Granted { .. }), "{tcp:?}");
            let ends = to_us(OURS, HELD);
            // RFC 9293 §3.1: flags at 13.
            let segment = |flags| {
                let mut header = [0; 20];
                header[..2].copy_from_slice(&ends.from.port().to_be_bytes());
                header[2..4].copy_from_slice(&ends.to.port().to_be_bytes());
                (header[12], header[13]) = (5 << 4, flags);
                packets::ip(&ends, protocol::TCP, &header)
            };
            let mut later = packets::ip(&ends, protocol::UDP, MARK);
            // RFC 791 §3.1: the offset.
            later[21] = 5;
            let kinds = [
                ("rx_early_drop_fragment", 1, later),
                ("rx_early_drop_ack", 2, segment(16)),
                ("rx_early_drop_syn", 3, segment(2)),
            ];
            for (counter, quarters, frame) in kinds {
                (0..10 * places).for_each(|_| world.far.send(&frame));
                world.far.send(&packets::udp(&ends, LAST));
                let got = program.receive_up_to(LAST);
                assert_eq!(got.len(), places / 4 * quarters + 1, "{counter}");
                assert!(world.counted(program.slot, counter) > 0, "{counter}");
            }
        },
    );
}

/// Frames with bytes changed, cut and of other kinds, which the gate, the daemon's stack and the program's host meet.
#[test]
fn malformed_packets() {
    case(
        |_| {},
        |world| {
            let mut program = holder(world);
            // A later fragment is the only program's with ports of an address: here there are two.
            let beside = world.program();
            beside.connection.must_claim(HELD + 1);
            let mut state = 79_u64;
            let mut next = |below: usize| {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                (state >> 33) as usize % below
            };
            let ends = [to_us(OURS, 1), to_us(OURS_V6, 1), to_us("10.79.0.1", 1)];
            for _ in 0..20_000 {
                let ends = &ends[next(ends.len())];
                let payload = &[MARK, &[next(256) as u8; 40]].concat()[..];
                let mut frame = match next(4) {
                    0 => packets::ip(ends, [1, 6, 17, 44, 58, 0, 60][next(7)], payload),
                    1 if ends.to.is_ipv4() => packets::arp(ends, next(3) as u16, payload),
                    _ => packets::udp(ends, payload),
                };
                for _ in 0..next(4) {
                    let at = 12 + next(frame.len().min(80) - 12);
                    frame[at] = next(256) as u8;
                }
                if next(3) == 0 {
                    frame.truncate(15 + next(frame.len() - 15));
                }
                world.far.send(&frame);
            }
            still_receives(world, &mut program);
            let report = world.report();
            let malformed = report["interfaces"][0]["host"]["malformed"].as_u64();
            assert!(malformed > Some(0), "{malformed:?}");
        },
    );
}
