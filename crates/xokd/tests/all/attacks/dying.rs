//! Ending in the middle: killing itself at every step of the protocol, and outliving what was granted.
//!
//! Whatever a dead program had is gone, and others can have it: its slot, its interface, its port.

use std::mem::ManuallyDrop;
use std::process::Command;

use exos_xok::Protocol;
use exos_xok::message::{Answer, PortWish, Request, VERSION};
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, kill_process};

use crate::attacks::attacker::Hostile;
use crate::attacks::program::{Program, attach_request, secret_from_hex, secret_to_hex};
use crate::attacks::world::{MARK, OURS, World, case, from_us, must_be_clean, to_us, within};
use crate::packets;

const PORT: u16 = 7000;
const LAST: &[u8] = b"this is honest";

/// The steps, each of them the last of somebody.
const STEPS: [&str; 12] = [
    "connected",
    "greeting",
    "greeted",
    "attaching",
    "attached",
    "mapped",
    "claiming",
    "claimed",
    "offered",
    "watching",
    "sending",
    "releasing",
];

/// Goes so far, without reading the answer to what it asked last where the step says "-ing".
fn go_up_to(hostile: &Hostile, step: &str) {
    let at = STEPS.iter().position(|s| *s == step).expect("a step");
    let reached = |step: &str| STEPS[..=at].contains(&step);
    // Closing is what the kernel does for the dead.
    let connection = ManuallyDrop::new(hostile.connect());
    let hello = Request::Hello { version: VERSION };
    let attach = attach_request();
    let claim = Request::Claim {
        protocol: Protocol::Udp,
        local: None,
        port: PortWish::Number(PORT),
        remote: None,
    };
    let send = |request: &Request| connection.send(&request.encode(1), &[]).expect("room");
    match step {
        "connected" => return,
        "greeting" => return send(&hello),
        _ => drop(connection.ask(&hello)),
    }
    match step {
        "greeted" => return,
        "attaching" => return send(&attach),
        "attached" => return std::mem::forget(connection.ask(&attach)),
        _ => {}
    }
    let mut program = ManuallyDrop::new(Program::attach(ManuallyDrop::into_inner(connection)));
    let connection = &program.connection;
    match step {
        "mapped" => {}
        "claiming" => connection.send(&claim.encode(1), &[]).expect("room"),
        _ => {
            let grant = connection.must_claim(PORT);
            if reached("offered") {
                let (answer, _) = connection.ask(&Request::Share { grant });
                assert!(matches!(answer, Answer::Ticket(_)), "{answer:?}");
            }
            if reached("watching") {
                let (interface, filter, snap, all) = (String::new(), String::new(), 100, false);
                let (answer, _) = connection.ask(&Request::Tap {
                    interface,
                    filter,
                    snap,
                    all,
                });
                assert!(matches!(answer, Answer::Tapped { .. }), "{answer:?}");
            }
            if reached("releasing") {
                let release = Request::Release { grant };
                connection.send(&release.encode(1), &[]).expect("room");
            }
            if reached("sending") {
                let frame = packets::udp(&from_us(OURS, PORT), LAST);
                (0..100).for_each(|_| program.send(&frame));
            }
        }
    }
}

#[test]
fn at_every_step_of_the_protocol() {
    case(
        |hostile| {
            go_up_to(hostile, &hostile.role);
            hostile.say("now");
            hostile.kill_itself();
        },
        |world| {
            for step in STEPS {
                let mut attacker = world.attacker_as(crate::attacks::attacker::NOBODY, step);
                attacker.must_say("now");
                attacker.has_killed_itself();
                nothing_is_left(world, step);
            }
        },
    );
}

/// No slot, no interface, and the port is anybody's.
fn nothing_is_left(world: &World, step: &str) {
    assert!(within(|| world.slots().is_empty()), "{step}: a slot");
    let interfaces = || world.interfaces();
    // The daemon's own place is there as long as it is.
    let ours = |name: &String| name.starts_with("xok") && !name.ends_with("-0");
    assert!(
        within(|| !interfaces().iter().any(ours)),
        "{step}: {:?}",
        interfaces()
    );
    let mut next = world.program();
    next.connection.must_claim(PORT);
    world.far.send(&packets::udp(&to_us(OURS, PORT), LAST));
    next.receive_up_to(LAST);
}

/// What was given back cannot be sent from, whatever descriptors are left.
#[test]
fn after_giving_back() {
    case(
        |hostile| {
            let mut program = hostile.attach();
            let first = program.connection.must_claim(PORT);
            let second = program.connection.must_claim(7001);
            program.connection.ask(&Request::Release { grant: first });
            program.send(&packets::udp(&from_us(OURS, PORT), MARK));
            // Handed over to another program: no packets, no sending, no way to give it back again.
            let (answer, _) = program.connection.ask(&Request::Share { grant: second });
            let Answer::Ticket(ticket) = answer else {
                panic!("{answer:?}")
            };
            let heir = hostile.attach();
            heir.connection.ask(&Request::Import { ticket });
            program.connection.ask(&Request::Release { grant: second });
            program.send(&packets::udp(&from_us(OURS, 7001), MARK));
            let (answer, _) = program.connection.ask(&Request::Release { grant: second });
            assert!(matches!(answer, Answer::Refused { .. }), "{answer:?}");
            program.connection.must_claim(7002);
            program.send(&packets::udp(&from_us(OURS, 7002), LAST));
            hostile.say(&program.slot.to_string());
            hostile.wait_for("go");
        },
        |world| {
            let mut attacker = world.attacker();
            must_be_clean(&world.far.seen_up_to(LAST));
            let slot = attacker.says().parse().expect("a slot");
            world.must_count(slot, "tx_bad_source", 2);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// The slot is gone and its number another's: the old ring and the old packet socket lead nowhere.
#[test]
fn after_the_slot_is_anothers() {
    case(
        |hostile| {
            let program = hostile.attach();
            program.connection.must_claim(PORT);
            let Program {
                connection,
                mut link,
                descriptors,
                ..
            } = program;
            drop(connection);
            hostile.say("closed");
            hostile.wait_for("the slot is another's");
            let frame = packets::udp(&from_us(OURS, PORT), MARK);
            for _ in 0..100 {
                link.transmit(&frame, &[], exos_link::TxMeta::default());
                let _ = link.flush();
            }
            let beside = [&[0; 10], &frame[..]].concat();
            let sent = rustix::net::send(&descriptors[2], &beside, rustix::net::SendFlags::empty());
            assert!(sent.is_err(), "the interface is gone");
            hostile.say("sent");
            hostile.wait_for("go");
            let mut received = 0;
            link.receive(|_, _| received += 1);
            assert_eq!(received, 0);
        },
        |world| {
            let mut attacker = world.attacker();
            attacker.must_say("closed");
            assert!(within(|| world.slots().is_empty()));
            let mut heir = world.program();
            heir.connection.must_claim(PORT);
            attacker.tell("the slot is another's");
            attacker.must_say("sent");
            heir.send(&packets::udp(&from_us(OURS, PORT), LAST));
            must_be_clean(&world.far.seen_up_to(LAST));
            world.must_count(heir.slot, "tx_packets", 1);
            world.far.send(&packets::udp(&to_us(OURS, PORT), LAST));
            heir.receive_up_to(LAST);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// Policy takes it back: after the time that it was given nothing of it is left, whether it agreed or not.
#[test]
fn after_policy_took_it_back() {
    case(
        |hostile| {
            let mut program = hostile.attach();
            program.connection.must_claim(PORT);
            hostile.say("claimed");
            // It hears the request to give back, and claims it again, until the daemon has nothing to say to it any more.
            let again = Request::Claim {
                protocol: Protocol::Udp,
                local: None,
                port: PortWish::Number(PORT),
                remote: None,
            };
            assert!(within(|| program.connection.try_ask(&again).is_none()));
            let frame = packets::udp(&from_us(OURS, PORT), MARK);
            for _ in 0..100 {
                program
                    .link
                    .transmit(&frame, &[], exos_link::TxMeta::default());
                let _ = program.link.flush();
            }
            let again = hostile.connect();
            let token = program.token;
            for request in [Request::Reattach { token }, attach_request()] {
                let (answer, _) = again.ask(&request);
                assert!(matches!(answer, Answer::Refused { .. }), "{answer:?}");
            }
            hostile.say("refused");
        },
        |world| {
            let mut attacker = world.attacker();
            attacker.must_say("claimed");
            world.set_policy(|text| text.replace("65534", "65000"));
            attacker.must_say("refused");
            attacker.finish();
            let mut program = world.program();
            program.connection.must_claim(PORT);
            program.send(&packets::udp(&from_us(OURS, PORT), LAST));
            must_be_clean(&world.far.seen_up_to(LAST));
            world.daemon_must_count("refused_not_allowed", 1);
        },
    );
}

/// Killed while answers wait that it never read: its place goes like everybody's.
#[test]
fn with_answers_unread() {
    case(
        |hostile| {
            let request = Request::Release { grant: 0 };
            let first = hostile.attach();
            let cut_after = first.connection.send_until_cut(&request, 5000);
            drop(first);
            let second = hostile.attach();
            // So many that some wait in the daemon, and too few to be cut off for it.
            second.connection.send_until_cut(&request, cut_after - 30);
            hostile.say("asked");
            hostile.kill_itself();
        },
        |world| {
            let mut attacker = world.attacker();
            attacker.must_say("asked");
            attacker.has_killed_itself();
            let is_gone = within(|| world.slots().is_empty());
            assert!(is_gone, "it is dead and has {:?}", world.slots());
        },
    );
}

/// A slot that another process of the user's has taken up is that one's: it does not end with the first.
#[test]
fn after_another_has_taken_it_up() {
    case(
        |hostile| {
            if hostile.role == "first" {
                let program = hostile.attach();
                // The sockets stay open in a process that says nothing: without them there would be no slot.
                for descriptor in &program.descriptors {
                    rustix::io::fcntl_setfd(descriptor, FdFlags::empty()).expect("it is open");
                }
                let mut keeper = Command::new("sleep");
                let mut keeper = keeper.arg("600").spawn().expect("a child");
                assert!(keeper.try_wait().is_ok_and(|end| end.is_none()), "it lives");
                let token = secret_to_hex(&program.token);
                hostile.say(&format!("{} {token}", keeper.id()));
                return hostile.wait_for("end");
            }
            for _ in 0..2 {
                let token = secret_from_hex(&hostile.hear());
                let connection = hostile.connect();
                let (back, _) = connection.ask(&Request::Reattach { token });
                assert!(matches!(back, Answer::Attached { .. }), "{back:?}");
                hostile.say("has it");
                hostile.wait_for("go");
            }
        },
        |world| {
            let mut first = world.attacker_as(crate::attacks::attacker::NOBODY, "first");
            let mut heir = world.attacker_as(crate::attacks::attacker::NOBODY, "heir");
            let said = first.says();
            let (keeper, token) = said.split_once(' ').expect("a process and a token");
            world.kill();
            world.start();
            heir.tell(token);
            heir.must_say("has it");
            first.tell("end");
            first.finish();
            world.kill();
            world.start();
            heir.tell("go");
            heir.tell(token);
            heir.must_say("has it");
            heir.tell("go");
            heir.finish();
            let keeper = Pid::from_raw(keeper.parse().expect("a number")).expect("a process");
            kill_process(keeper, Signal::KILL).expect("it is there");
        },
    );
}
