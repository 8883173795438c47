//! Several slots that answer from one memory, as a program on several cores has them: who may have it, and what becomes of it.

use std::time::Instant;

use exos_xok::message::Secret;
use exos_xokd::limits::FILTERS_AT_ONCE;

use super::*;
use crate::attacks::attacker::{NOBODY, SOMEBODY};
use crate::attacks::program::{Program, secret_from_hex, secret_to_hex};

/// A slot that has a port together with others of the user.
fn sharing(hostile: &Hostile, port: u16) -> Program {
    let program = hostile.attach();
    let request = Request::ClaimDivided {
        protocol: Protocol::Tcp,
        local: None,
        port,
    };
    let (answer, _) = program.connection.ask(&request);
    assert!(matches!(answer, Answer::Granted { .. }), "{answer:?}");
    program
}

/// A core of two, which are lent memory, or have it from the slot with the token.
fn of_two(port: u16, core: u16, memory_of: Option<Secret>) -> Answering {
    Answering {
        cores: 2,
        core,
        memory_of,
        ..answering(port)
    }
}

/// Two slots that answer for a port, and their memory.
fn two_cores(hostile: &Hostile, port: u16) -> ([Program; 2], MappedArray) {
    let both = [(); 2].map(|()| sharing(hostile, port));
    let memory = lent_memory(&both[0].connection, of_two(port, 0, None));
    let joins = of_two(port, 1, Some(both[0].token));
    assert_eq!(
        answer_requests(&both[1].connection, joins),
        Answer::Downloaded
    );
    (both, memory)
}

/// The memory is written over while segments come to both.
#[test]
fn that_two_slots_answer_from() {
    case(
        |hostile| {
            let (both, memory) = two_cores(hostile, PORT);
            let slots = both.each_ref().map(|program| program.slot);
            write_over(hostile, &slots, &memory, 2);
        },
        |world| must_send_no_more_than_answers(world, 2),
    );
}

/// Of another user's slot, of nobody's, of one that has none, or none of the length: there is no memory to be had.
#[test]
fn that_is_not_theirs() {
    case(
        |hostile| {
            if hostile.role == "lender" {
                let (both, _memory) = two_cores(hostile, BESIDE);
                hostile.say(&secret_to_hex(&both[0].token));
                return hostile.wait_for("go");
            }
            let theirs = secret_from_hex(&hostile.hear());
            let [lender, other] = [(); 2].map(|()| sharing(hostile, PORT));
            let must_be_refused = |answering: Answering| {
                let refused = answer_requests(&other.connection, answering);
                assert_eq!(refusal(&refused), Refusal::NotFound);
            };
            for token in [theirs, Secret([7; 16]), lender.token, other.token] {
                must_be_refused(of_two(PORT, 1, Some(token)));
            }
            let lent = answer_requests(&lender.connection, of_two(PORT, 0, None));
            assert_eq!(lent, Answer::Downloaded);
            let joins = of_two(PORT, 1, Some(lender.token));
            let changes: [fn(&mut Answering); 3] = [
                |it| it.cores = 3,
                |it| it.requests = 8,
                |it| it.reports = false,
            ];
            for change in changes {
                let mut it = joins.clone();
                change(&mut it);
                must_be_refused(it);
            }
            assert_eq!(
                answer_requests(&other.connection, joins),
                Answer::Downloaded
            );
            let again = of_two(PORT, 1, Some(lender.token));
            let own = answer_requests(&lender.connection, again);
            assert_eq!(refusal(&own), Refusal::BadRequest);
            // It has lent none itself.
            must_be_refused(of_two(PORT, 1, Some(other.token)));
            hostile.say("done");
            hostile.wait_for("go");
        },
        |world| {
            let _takes = world.take_redirected();
            let mut lender = world.attacker_as(SOMEBODY, "lender");
            let token = lender.says();
            let mut attacker = world.attacker();
            attacker.tell(&token);
            attacker.must_say("done");
            attacker.tell("go");
            attacker.finish();
            lender.tell("go");
            lender.finish();
        },
    );
}

/// More cores than a user may ask for filters at once: what joins is a part of what was asked for, and does not wait.
#[test]
fn of_many_cores_none_waits_for_the_rate() {
    const CORES: u16 = 12;
    case(
        |hostile| {
            let all: Vec<_> = (0..CORES).map(|_| sharing(hostile, PORT)).collect();
            let token = all[0].token;
            for (core, program) in (0..CORES).zip(&all) {
                let request = Request::AnswerRequests(Answering {
                    cores: CORES,
                    reports: false,
                    ..of_two(PORT, core, (core > 0).then_some(token))
                });
                let (answer, _) = program.connection.ask(&request);
                assert_eq!(answer, Answer::Downloaded, "core {core}");
            }
            hostile.say("done");
            hostile.wait_for("go");
        },
        |world| {
            let _takes = world.take_redirected();
            let mut attacker = world.attacker();
            attacker.must_say("done");
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// That a core joins is a part of what was counted once: from then on each time counts, as a download does.
#[test]
fn that_one_core_joins_again_and_again() {
    const ASKED: usize = 32;
    case(
        |hostile| {
            let begun = Instant::now();
            let (both, _memory) = two_cores(hostile, PORT);
            let [first, second] = both.each_ref();
            let joins = Request::AnswerRequests(of_two(PORT, 1, Some(first.token)));
            // The first slot was lent the memory.
            let mut counted = 1;
            for _ in 0..ASKED {
                match second.connection.ask(&joins).0 {
                    Answer::Downloaded => counted += 1,
                    refused => assert_eq!(refusal(&refused), Refusal::Busy, "{refused:?}"),
                }
                let most = u64::from(FILTERS_AT_ONCE) + begun.elapsed().as_secs();
                assert!(counted <= most, "{counted}, and {most} are the most");
            }
            hostile.say("done");
            hostile.wait_for("go");
        },
        |world| {
            let _takes = world.take_redirected();
            let mut attacker = world.attacker();
            attacker.must_say("done");
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// Bytes that count as an attacker's: of slots, and of what is left of others.
fn memory_counted(world: &World) -> [u64; 2] {
    let report = world.report();
    ["slots", "leftovers"].map(|of| {
        let all = report["interfaces"][0][of].as_array().expect("a list");
        let theirs = all.iter().filter(|it| it["uid"] == NOBODY);
        theirs
            .filter_map(|it| it["memory_bytes"].as_u64())
            .sum::<u64>()
    })
}

/// Of a core that has joined what is its own counts, and no longer than it is there.
#[test]
fn a_core_that_ends_leaves_nothing_that_counts() {
    case(
        |hostile| {
            let (both, memory) = two_cores(hostile, PORT);
            let [first, second] = both;
            drop(second);
            hostile.say("the second has gone");
            hostile.wait_for("go");
            drop((first, memory));
        },
        |world| {
            let _takes = world.take_redirected();
            let mut attacker = world.attacker();
            attacker.must_say("the second has gone");
            assert!(within(|| world.slots().len() == 1));
            assert!(within(|| memory_counted(world)[1] == 0));
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// It counts once, as the first slot's, until nobody has it. A daemon that follows knows whose it is; a slot that is left answers from it.
#[test]
fn that_outlives_a_daemon_and_the_first_slot() {
    case(
        |hostile| {
            let (both, memory) = two_cores(hostile, PORT);
            hostile.say(&format!("{} {}", both[0].slot, both[1].slot));
            hostile.wait_for("another daemon");
            let [mut first, mut second] = both;
            for it in [&mut first, &mut second] {
                it.connection = hostile.connect();
                let token = it.token;
                let (back, _) = it.connection.ask(&Request::Reattach { token });
                assert!(matches!(back, Answer::Attached { .. }), "{back:?}");
            }
            let token = first.token;
            let joins = || of_two(PORT, 1, Some(token));
            let again = answer_requests(&second.connection, joins());
            assert_eq!(again, Answer::Downloaded);
            drop(first);
            hostile.say("the first has gone");
            hostile.wait_for("is it to be had?");
            let refused = answer_requests(&second.connection, joins());
            assert_eq!(refusal(&refused), Refusal::NotFound);
            drop(memory);
            drop(second);
            hostile.say("so has the second");
            hostile.wait_for("go");
        },
        |world| {
            let _takes = world.take_redirected();
            let len = WebHandler::rings(ENTRIES, true, 2).memory_len();
            let mut attacker = world.attacker();
            let said = attacker.says();
            let (first, second) = said.split_once(' ').expect("two slots");
            let [first, second] = [first, second].map(|slot| slot.parse().expect("a number"));
            let [both, left] = memory_counted(world);
            assert!((len..2 * len).contains(&both), "{both}, {len} of it once");
            assert_eq!(left, 0);
            world.kill();
            world.start();
            attacker.tell("another daemon");
            attacker.must_say("the first has gone");
            assert!(within(|| !world.slots().contains(&first)));
            let [_, left] = memory_counted(world);
            assert!(left > len, "{left}, {len} of it for what the second has");
            for number in 0..SENDERS {
                let syn = segment(&sender(number), (SEQ, 0), SYN, b"");
                world.far.send(&syn);
            }
            let answered = || world.counted(second, "handler_answered");
            assert!(within(|| answered() == SENDERS as u64), "{}", answered());
            attacker.tell("is it to be had?");
            attacker.must_say("so has the second");
            assert!(within(|| memory_counted(world) == [0, 0]));
            attacker.tell("go");
            attacker.finish();
        },
    );
}
