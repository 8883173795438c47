//! On ports that programs of one user share: who is none of them gets no packet of theirs and sends none, nor does who was one
//! of them, and none of them sends what is of another's flows.

use std::net::SocketAddr;

use exos_xok::Protocol;
use exos_xok::message::{Answer, GrantId, Refusal, Request, Secret};

use crate::attacks::asking::must_be_refused;
use crate::attacks::attacker::NOBODY;
use crate::attacks::program::{Connection, Program};
use crate::attacks::world::{
    MARK, OURS, OURS_V6, PEER, PEER_V6, World, case, from_us, is_marked, must_be_clean, to_us,
    within,
};
use crate::packets::{self, FrameEnds};

/// The port that is shared.
const SHARED: u16 = 8000;
const LAST: &[u8] = b"this is honest";
/// Ports of the far end, each a flow.
const FLOWS: std::ops::Range<u16> = 20_000..20_064;

fn divided(protocol: Protocol, local: &str, port: u16) -> Request {
    Request::ClaimDivided {
        protocol,
        local: Some(local.parse().expect("an address")),
        port,
    }
}

fn must_share(connection: &Connection, local: &str) -> GrantId {
    match connection.ask(&divided(Protocol::Udp, local, SHARED)).0 {
        Answer::Granted { grant, .. } => grant,
        other => panic!("not granted: {other:?}"),
    }
}

/// To the shared port from a port of the far end.
fn flow(local: &str, port: u16) -> FrameEnds {
    let peer = if local == OURS { PEER } else { PEER_V6 };
    let peer: std::net::IpAddr = peer.parse().expect("an address");
    FrameEnds {
        from: SocketAddr::new(peer, port),
        ..to_us(local, SHARED)
    }
}

fn back(local: &str, port: u16) -> FrameEnds {
    let to = flow(local, port).from;
    FrameEnds {
        to,
        ..from_us(local, SHARED)
    }
}

/// A datagram of each flow, and which of these programs gets it: each is one program's.
fn receivers(world: &World, local: &str, programs: &mut [&mut Program]) -> Vec<usize> {
    let data = |port: u16| format!("flow {port}").into_bytes();
    for port in FLOWS {
        world
            .far
            .send(&packets::udp(&flow(local, port), &data(port)));
    }
    let mut frames: Vec<Vec<Vec<u8>>> = vec![Vec::new(); programs.len()];
    let all_there = within(|| {
        for (program, frames) in programs.iter_mut().zip(&mut frames) {
            program.link.receive(|frame, _| {
                // Errors about what was sent come here, too.
                if frame.windows(5).any(|bytes| bytes == b"flow ") {
                    frames.push(frame.to_vec());
                }
            });
        }
        frames.iter().flatten().count() >= FLOWS.len()
    });
    assert!(all_there, "all arrive");
    let receiver = |port: u16| {
        let has = |frames: &Vec<Vec<u8>>| frames.iter().any(|f| f.ends_with(&data(port)));
        let who: Vec<usize> = (0..frames.len()).filter(|n| has(&frames[*n])).collect();
        assert_eq!(who.len(), 1, "flow {port} is one program's");
        who[0]
    };
    FLOWS.map(receiver).collect()
}

/// A program of another user has nothing of a port that others share, by no request.
fn gets_no_part(connection: &Connection, grant: GrantId) {
    let claim = |port| Request::Claim {
        protocol: Protocol::Udp,
        local: Some(OURS.parse().expect("an address")),
        port: exos_xok::message::PortWish::Number(port),
        remote: None,
    };
    let held = [
        divided(Protocol::Udp, OURS, SHARED),
        divided(Protocol::Udp, OURS_V6, SHARED),
        claim(SHARED),
    ];
    must_be_refused(connection, Refusal::Held, &held);
    let not_ours = [
        Request::Retire { grant },
        Request::Share { grant },
        Request::Release { grant },
        Request::Import {
            ticket: Secret([0; 16]),
        },
    ];
    must_be_refused(connection, Refusal::NotFound, &not_ours);
    let not_allowed = [
        divided(Protocol::Udp, OURS, 53),
        divided(Protocol::Udp, "10.79.0.8", SHARED),
    ];
    must_be_refused(connection, Refusal::NotAllowed, &not_allowed);
    let own = connection.must_claim(7000);
    let senseless = [
        Request::Retire { grant: own },
        divided(Protocol::Icmp, OURS, 7000),
    ];
    must_be_refused(connection, Refusal::BadRequest, &senseless);
}

/// Of two programs that share a port each receives a part of its flows, and answers that, and none the other's: `dropped` counts the
/// answers of both that have been dropped by then.
fn each_has_its_own(world: &World, programs: &mut [Program; 2], local: &str, dropped: u64) {
    let [one, other] = programs;
    let who = receivers(world, local, &mut [one, other]);
    let firsts = who.iter().filter(|who| **who == 0).count();
    assert!((8..56).contains(&firsts), "{firsts} of 64 are the first's");
    for (port, who) in FLOWS.zip(&who) {
        let sender = if *who == 0 { &mut *other } else { &mut *one };
        sender.send(&packets::udp(&back(local, port), MARK));
    }
    let wrong = |program: &Program| world.counted(program.slot, "tx_bad_source");
    assert!(within(|| wrong(one) + wrong(other) == dropped));
    let (port, who) = (FLOWS.start, who[0]);
    let sender = if who == 0 { &mut *one } else { &mut *other };
    sender.send(&packets::udp(&back(local, port), LAST));
    must_be_clean(&world.far.seen_up_to(LAST));
}

/// Another user's program asks for it in every manner, and sends as if it had it.
#[test]
fn by_another_user() {
    case(
        |hostile| {
            let mut program = hostile.attach();
            let grant: GrantId = hostile.hear().parse().expect("a number");
            gets_no_part(&program.connection, grant);
            for port in FLOWS {
                for local in [OURS, OURS_V6] {
                    program.send(&packets::udp(&back(local, port), MARK));
                }
            }
            hostile.say(&program.slot.to_string());
            hostile.wait_for("go");
            let mut seen = false;
            program
                .link
                .receive(|frame, _| seen |= is_marked(frame) || frame.ends_with(LAST));
            assert!(!seen, "nothing of it is ours");
        },
        |world| {
            let mut programs = [world.program(), world.program()];
            let grants = programs
                .each_ref()
                .map(|program| [OURS, OURS_V6].map(|local| must_share(&program.connection, local)));
            assert_eq!(grants[0], grants[1], "they share");
            let mut attacker = world.attacker();
            attacker.tell(&grants[0][0].to_string());
            let slot = attacker.says().parse().expect("its slot");
            world.must_count(slot, "tx_bad_source", 2 * FLOWS.len() as u64);
            for (local, wrong) in [(OURS, 1), (OURS_V6, 2)] {
                each_has_its_own(world, &mut programs, local, wrong * FLOWS.len() as u64);
            }
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// One of them ends, and another user's program is given its slot's number: all flows are those of the one that is left.
#[test]
fn by_the_number_of_one_that_has_gone() {
    case(
        |hostile| {
            let mut program = hostile.attach();
            hostile.say(&program.slot.to_string());
            hostile.wait_for("go");
            for port in FLOWS {
                program.send(&packets::udp(&back(OURS, port), MARK));
            }
            hostile.say("sent");
            hostile.wait_for("end");
            let mut count = 0;
            program.link.receive(|_, _| count += 1);
            assert_eq!(count, 0, "nothing of it is ours");
        },
        |world| {
            let (mut left, mut gone) = (world.program(), world.program());
            must_share(&left.connection, OURS);
            must_share(&gone.connection, OURS);
            let before = receivers(world, OURS, &mut [&mut left, &mut gone]);
            assert!(before.contains(&1), "it had some");
            let number = gone.slot;
            drop(gone);
            assert!(within(|| !world.slots().contains(&number)));
            let mut attacker = world.attacker();
            assert_eq!(attacker.says(), number.to_string(), "it has the number");
            let after = receivers(world, OURS, &mut [&mut left]);
            assert!(after.iter().all(|who| *who == 0));
            attacker.tell("go");
            attacker.must_say("sent");
            world.must_count(number, "tx_bad_source", FLOWS.len() as u64);
            // A new one of the user's gets some, and none of the other program's.
            let mut next = world.program();
            must_share(&next.connection, OURS);
            assert!(receivers(world, OURS, &mut [&mut left, &mut next]).contains(&1));
            attacker.tell("end");
            attacker.finish();
        },
    );
}

/// The daemon is killed, and then one of those that share: the next daemon finds who is left in the kernel's tables, and
/// all flows are theirs.
#[test]
fn by_killing_the_daemon_and_one_of_them() {
    case(
        |hostile| {
            let mut program = hostile.attach();
            must_share(&program.connection, OURS);
            hostile.say("shared");
            hostile.wait_for("go");
            if hostile.role == "dies" {
                hostile.kill_itself();
            }
            let token = program.token;
            program.connection = hostile.connect();
            let (answer, _) = program.connection.ask(&Request::Reattach { token });
            let Answer::Attached { grants, .. } = answer else {
                panic!("not there again: {answer:?}")
            };
            assert_eq!(grants.len(), 1, "it has its port");
            hostile.say("again");
            program.receive_up_to(LAST);
            hostile.say("seen");
            hostile.wait_for("end");
        },
        |world| {
            let [mut dies, mut lives] =
                ["dies", "lives"].map(|role| world.attacker_as(NOBODY, role));
            dies.must_say("shared");
            lives.must_say("shared");
            world.kill();
            dies.tell("go");
            dies.has_killed_itself();
            world.start();
            lives.tell("go");
            lives.must_say("again");
            for port in FLOWS {
                world.far.send(&packets::udp(&flow(OURS, port), b"flow"));
            }
            world.far.send(&packets::udp(&flow(OURS, FLOWS.end), LAST));
            lives.must_say("seen");
            let slots = world.slots();
            assert_eq!(slots.len(), 1, "the other is gone");
            let all = FLOWS.len() as u64 + 1;
            world.must_count(slots[0], "rx_packets", all);
            lives.tell("end");
            lives.finish();
        },
    );
}
