//! Keeping what is asked back: by cutting it up, and by handing it on.
//!
//! What is tried after the daemon has asked is refused because policy does not allow it, or, when that was two seconds
//! ago on a slow machine, because it has been taken. In the end nobody has any of it, and another program gets it.

use exos_xok::message::{Answer, FromDaemon, GrantId, Notice, PortWish, Refusal, Request, Secret};
use exos_xok::{Endpoint, Protocol};
use exos_xokd::limits::MESSAGES_PER_TURN;
use rustix::process::{Pid, Signal};

use crate::attacks::attacker::{Hostile, NOBODY, SOMEBODY};
use crate::attacks::program::{Connection, Program, refusal, secret_from_hex, secret_to_hex};
use crate::attacks::world::{OURS, ROOTS, World, case, to_us, within};
use crate::packets;

const PORTS: [u16; 4] = [7000, 7001, 7002, 7003];
const LAST: &[u8] = b"this is honest";

/// Waits until this many things are asked back.
fn hear_revoked(connection: &Connection, mut count: usize) {
    while count > 0 {
        let (said, _) = connection.receive().expect("the daemon goes on");
        count -= usize::from(matches!(said, FromDaemon::Notice(Notice::Revoke { .. })));
    }
}

fn must_be_refused(connection: &Connection, request: &Request) {
    let (answer, _) = connection.ask(request);
    let code = refusal(&answer);
    let expected = [Refusal::NotAllowed, Refusal::NotFound];
    assert!(expected.contains(&code), "{request:?}: {answer:?}");
}

/// `None` when the grant has been taken.
fn ticket(connection: &Connection, request: &Request) -> Option<Secret> {
    match connection.ask(request).0 {
        Answer::Ticket(secret) => Some(secret),
        other => {
            assert_eq!(refusal(&other), Refusal::NotFound);
            None
        }
    }
}

/// From now on neither of the two users may have these ports.
fn revoke(world: &World) {
    let all = "addresses = [\"10.79.0.7\", \"fd79::7\"]";
    let less = format!("{all}\nports = [\"9000\"]");
    world.set_policy(|policy| {
        assert_eq!(policy.matches(all).count(), 2);
        policy.replace(all, &less)
    });
}

/// Nobody has anything any more, and a program that may have it gets it, with its packets.
fn must_be_free(world: &World) {
    let none = |slot: &serde_json::Value| slot["grants"].as_array().is_some_and(Vec::is_empty);
    let slots = || world.report()["interfaces"][0]["slots"].clone();
    let free = || slots().as_array().expect("a list").iter().all(none);
    assert!(within(free), "something was kept: {}", slots());
    let mut program = world.program();
    for port in PORTS {
        program.connection.must_claim(port);
    }
    world.far.send(&packets::udp(&to_us(OURS, PORTS[0]), LAST));
    program.receive_up_to(LAST);
}

/// Connections out of a port that is asked back.
#[test]
fn what_is_asked_back_in_parts() {
    case(
        |hostile| {
            let program = hostile.attach();
            let connection = &program.connection;
            let grant = connection.must_claim(PORTS[0]);
            hostile.say("claimed");
            hear_revoked(connection, 1);
            for port in 1..=16 {
                let ip = "10.79.0.2".parse().expect("an address");
                let remote = Endpoint { ip, port };
                let port = 0;
                let narrow = Request::Narrow {
                    grant,
                    remote,
                    port,
                };
                must_be_refused(connection, &narrow);
            }
            hostile.say("refused");
            hostile.wait_for("go");
        },
        |world| {
            let mut attacker = world.attacker();
            attacker.must_say("claimed");
            revoke(world);
            attacker.must_say("refused");
            must_be_free(world);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// Tickets for it, written before and after it was asked back, for another slot of the same user and for another's.
#[test]
fn what_is_asked_back_by_another_hand() {
    case(
        |hostile| {
            let program = hostile.attach();
            if hostile.role == "taker" {
                hostile.say("attached");
                let ticket = secret_from_hex(&hostile.hear());
                must_be_refused(&program.connection, &Request::Import { ticket });
                hostile.say("refused");
                return hostile.wait_for("go");
            }
            let other = hostile.attach();
            let connection = &program.connection;
            let grants = PORTS.map(|port| connection.must_claim(port));
            let share = |grant: GrantId| Request::Share { grant };
            let before = [grants[0], grants[1]].map(share);
            let mut tickets = before.map(|r| ticket(connection, &r)).to_vec();
            assert!(tickets.iter().all(Option::is_some));
            hostile.say("claimed");
            hear_revoked(connection, PORTS.len());
            let after = [grants[2], grants[3]].map(share);
            tickets.extend(after.map(|r| ticket(connection, &r)));
            for ticket in tickets.into_iter().flatten() {
                must_be_refused(&other.connection, &Request::Import { ticket });
                hostile.say(&secret_to_hex(&ticket));
            }
            hostile.say("refused");
            hostile.wait_for("go");
        },
        |world| {
            let mut taker = world.attacker_as(SOMEBODY, "taker");
            taker.must_say("attached");
            let mut giver = world.attacker_as(NOBODY, "giver");
            giver.must_say("claimed");
            revoke(world);
            // One that was written before, so there is one.
            taker.tell(&giver.says());
            taker.must_say("refused");
            while giver.says() != "refused" {}
            must_be_free(world);
            for attacker in [giver, taker] {
                attacker.tell("go");
                attacker.finish();
            }
        },
    );
}

/// Parts of what root has handed on are held by root's right, also when the daemon is killed: none of it is asked back.
#[test]
fn what_is_handed_on_in_good_order_is_not() {
    case(
        |hostile| {
            let Program {
                connection,
                token,
                link: _link,
                ..
            } = hostile.attach();
            hostile.say("attached");
            let ticket = secret_from_hex(&hostile.hear());
            let (answer, _) = connection.ask(&Request::Import { ticket });
            let Answer::Granted { grant, .. } = answer else {
                panic!("not handed on: {answer:?}")
            };
            hostile.say("imported");
            hostile.wait_for("narrow");
            let ip = "10.79.0.2".parse().expect("an address");
            let remote = Endpoint { ip, port: 9 };
            let port = 0;
            let (part, _) = connection.ask(&Request::Narrow {
                grant,
                remote,
                port,
            });
            assert!(matches!(part, Answer::Granted { .. }), "{part:?}");
            hostile.say("narrowed");
            hostile.wait_for("again");
            let again = hostile.connect();
            again
                .send(&Request::Reattach { token }.encode(1), &[])
                .expect("room");
            // The answer to this comes behind what the daemon says on coming back.
            again.send(&Request::Status.encode(2), &[]).expect("room");
            let said = std::iter::from_fn(|| Some(again.receive()?.0));
            let is_last = |said: &FromDaemon| matches!(said, FromDaemon::Answer(2, _));
            for said in said.take_while(|said| !is_last(said)) {
                let FromDaemon::Answer(1, Answer::Attached { grants, .. }) = &said else {
                    panic!("{said:?}")
                };
                assert_eq!(grants.len(), 2, "{said:?}");
            }
            hostile.say("has both");
            hostile.wait_for("go");
        },
        |world| {
            let mut worker = world.attacker();
            worker.must_say("attached");
            let root = world.program();
            let (answer, _) = root.connection.ask(&Request::Claim {
                protocol: Protocol::Udp,
                local: Some(ROOTS.parse().expect("an address")),
                port: PortWish::Number(PORTS[0]),
                remote: None,
            });
            let Answer::Granted { grant, .. } = answer else {
                panic!("not granted: {answer:?}")
            };
            let share = ticket(&root.connection, &Request::Share { grant });
            worker.tell(&secret_to_hex(&share.expect("a ticket")));
            worker.must_say("imported");
            let (answer, _) = root.connection.ask(&Request::Release { grant });
            assert!(matches!(answer, Answer::Done), "{answer:?}");
            // What was done is written down when the turn is over.
            world.end_turn();
            worker.tell("narrow");
            worker.must_say("narrowed");
            world.end_turn();
            world.kill();
            world.start();
            worker.tell("again");
            worker.must_say("has both");
            worker.tell("go");
            worker.finish();
        },
    );
}

/// Asks for copies of its own packets.
fn copies(hostile: &Hostile) -> (Connection, Answer) {
    let connection = hostile.connect();
    let (answer, _) = connection.ask(&Request::Tap {
        interface: String::new(),
        filter: String::new(),
        snap: 64,
        all: false,
    });
    (connection, answer)
}

/// Who was named when they took something, and is not any more, has it among those who are not: the copies that there are
/// for them are theirs, and no more.
#[test]
fn what_was_taken_while_named() {
    case(
        |hostile| {
            if hostile.role.is_empty() {
                let has = [(); 2].map(|()| copies(hostile));
                let all = has.iter().all(|(_, a)| matches!(a, Answer::Tapped { .. }));
                hostile.say(&all.to_string());
                return hostile.wait_for("go");
            }
            // It is somebody when the policy is read.
            let mut last = None;
            let is_known = || {
                let (_, answer) = copies(hostile);
                let code = Refusal::NotAllowed;
                let known = !matches!(&answer, Answer::Refused { code: c, .. } if *c == code);
                last = Some(answer);
                known
            };
            assert!(within(is_known), "the policy was not read");
            let Some(Answer::Refused { code, text }) = last else {
                panic!("{last:?}")
            };
            assert_eq!(code, Refusal::Limit, "{text}");
            assert!(text.contains("no rule of the policy names"), "{text}");
            hostile.say("refused");
        },
        |world| {
            let mut named = world.attacker();
            named.must_say("true");
            world.set_policy(|policy| policy.replace("user = \"65534\"", "anyone = true"));
            let mut stranger = world.attacker_as(70_000, "stranger");
            stranger.must_say("refused");
            stranger.finish();
            named.tell("go");
            named.finish();
        },
    );
}

/// By standing still: stopped, a program hears nothing, gives nothing back and reads no answer. Its slot, and all that it
/// claimed, are taken all the same, and nobody waits for it.
#[test]
fn what_is_asked_back_of_who_stands_still() {
    case(
        |hostile| {
            let program = hostile.attach();
            for port in PORTS {
                program.connection.must_claim(port);
            }
            // Nor are the answers read that are on their way then.
            let status = Request::Status.encode(1);
            for _ in 0..MESSAGES_PER_TURN {
                program.connection.send(&status, &[]).expect("room");
            }
            hostile.say(&std::process::id().to_string());
            let itself = rustix::process::getpid();
            let _ = rustix::process::kill_process(itself, Signal::STOP);
            hostile.wait_for("go");
            // Whether it was cut off depends on how many answers its socket took; it has no port in any case.
            let claims = program.connection.try_ask(&Request::Share { grant: 1 });
            assert!(
                !matches!(claims, Some((Answer::Ticket(_), _))),
                "{claims:?}"
            );
        },
        |world| {
            let mut attacker = world.attacker();
            let pid = attacker.says().parse().expect("a number");
            let state = format!("/proc/{pid}/stat");
            let stands = || std::fs::read_to_string(&state).is_ok_and(|s| s.contains(") T "));
            assert!(within(stands), "it goes on");
            revoke(world);
            must_be_free(world);
            let pid = Pid::from_raw(pid).expect("a process");
            rustix::process::kill_process(pid, Signal::CONT).expect("it is ours");
            attacker.tell("go");
            attacker.finish();
        },
    );
}
