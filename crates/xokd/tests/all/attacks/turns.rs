//! Keeping the daemon for oneself: much of what takes it long, said all at once.
//!
//! What is shown is an order. The attacker is the second of three users, and all three have said what they want before
//! the daemon hears any of it. In whatever order it takes the users, one of the other two is heard after the attacker
//! for the first time: they get what they ask for only if the attacker's last request is not done yet.
//!
//! And the others' network: neighbours that nobody has, each of which may cost a broadcast.

use std::time::Instant;

use exos_xok::Protocol;
use exos_xok::message::{Answer, FromDaemon, PortWish, Refusal, Request};
use exos_xokd::limits::{FILTER_EVERY, FILTERS_AT_ONCE, REPORTS_MAX, RESOLVES_PER_SECOND};

use crate::attacks::attacker::{ANYBODY, Hostile, NOBODY, SOMEBODY};
use crate::attacks::program::{Connection, Program, refusal};
use crate::attacks::world::{World, case, within};

/// What the attacker asks for at last, and the others exactly.
const LAST: std::ops::RangeInclusive<u16> = 5010..=5011;

/// Says all of it without waiting for an answer.
fn say(connection: &Connection, requests: &[Request]) {
    for (tag, request) in (1..).zip(requests) {
        connection.send(&request.encode(tag), &[]).expect("room");
    }
}

/// The answers to what was said.
fn answers(connection: &Connection, count: usize) -> Vec<Answer> {
    let answer = |message| match message {
        FromDaemon::Answer(_, answer) => Some(answer),
        FromDaemon::Notice(_) => None,
    };
    let messages = std::iter::from_fn(|| connection.receive());
    let answers = messages.filter_map(|(message, _)| answer(message));
    answers.take(count).collect()
}

fn filter(text: String) -> Request {
    Request::ClaimFilter { filter: text }
}

/// One program of each of three users: the one in the middle is the attacker, the others claim a port each.
fn one_of_three(hostile: &Hostile, attack: impl FnOnce(&Hostile, Program)) {
    let program = hostile.attach();
    hostile.say("attached");
    hostile.wait_for("go");
    let Ok(port) = hostile.role.parse() else {
        return attack(hostile, program);
    };
    let claim = Request::Claim {
        protocol: Protocol::Udp,
        local: None,
        port: PortWish::Number(port),
        remote: None,
    };
    say(&program.connection, &[claim]);
    hostile.say("asked");
    let answer = answers(&program.connection, 1).remove(0);
    assert!(matches!(answer, Answer::Granted { .. }), "{answer:?}");
}

/// Has the three say what they want while the daemon does not hear, and waits until they have their answers.
fn all_at_once(world: &World) {
    let honest = [(ANYBODY, LAST.start()), (NOBODY, LAST.end())];
    let honest = honest.map(|(user, port)| world.attacker_as(user, &port.to_string()));
    let [first, last] = honest;
    let mut all = [first, world.attacker_as(SOMEBODY, "greedy"), last];
    all.iter_mut().for_each(|one| one.must_say("attached"));
    world.while_the_daemon_stands(|| {
        for one in &mut all {
            one.tell("go");
            one.must_say("asked");
        }
    });
    all.into_iter().for_each(|one| one.finish());
}

/// Each is programs for the kernel to verify. Another's claim is heard before the last of them.
#[test]
fn asking_for_filters_all_at_once() {
    case(
        |hostile| {
            one_of_three(hostile, |hostile, program| {
                // Half of what may be asked for at once: one that costs the processor more than usual is charged as several.
                let others = FILTERS_AT_ONCE / 2 - 1;
                let ports = (0..others).map(|n| format!("udp dst port {}", 5000 + n));
                let last = format!("udp dst portrange {}-{}", LAST.start(), LAST.end());
                let filters: Vec<Request> = ports.chain([last]).map(filter).collect();
                say(&program.connection, &filters);
                hostile.say("asked");
                for answer in answers(&program.connection, filters.len()) {
                    assert!(matches!(answer, Answer::GrantedFilter { .. }), "{answer:?}");
                }
            });
        },
        all_at_once,
    );
}

/// One filter that takes the kernel as long as may be. Nobody's claim waits for that: those of both others are heard before
/// the filter is anybody's.
#[test]
fn asking_for_a_filter_that_takes_long() {
    case(
        |hostile| {
            one_of_three(hostile, |hostile, program| {
                let words = words_of("udp", 8, 24);
                let (first, last) = (LAST.start(), LAST.end());
                let text = format!("udp dst portrange {first}-{last} and ({words})");
                say(&program.connection, &[filter(text)]);
                hostile.say("asked");
                let answer = answers(&program.connection, 1).remove(0);
                assert!(matches!(answer, Answer::GrantedFilter { .. }), "{answer:?}");
            });
        },
        all_at_once,
    );
}

/// Each of this many words of a packet may have a value of its own.
fn words_of(header: &str, first: usize, count: usize) -> String {
    let words = (0..count).map(|n| format!("{header}[{}]={n}", first + n));
    words.collect::<Vec<_>>().join(" or ")
}

/// What takes the kernel seconds to verify is refused before it is asked.
#[test]
fn asking_for_copies_by_a_filter_that_takes_seconds() {
    case(
        |hostile| {
            let connection = hostile.connect();
            let tap = |filter: &str| {
                let filter = filter.to_owned();
                let (interface, snap, all) = (String::new(), 100, false);
                connection
                    .ask(&Request::Tap {
                        interface,
                        filter,
                        snap,
                        all,
                    })
                    .0
            };
            let filter = words_of("tcp", 20, 260);
            assert!(filter.len() <= 4096, "{}", filter.len());
            let answer = tap(&filter);
            let Answer::Refused { code, text } = answer else {
                panic!("{answer:?}");
            };
            assert_eq!(code, Refusal::Limit, "{text}");
            assert!(text.contains("different words of a packet"), "{text}");
            let answer = tap(&words_of("tcp", 20, 30));
            assert!(matches!(answer, Answer::Tapped { .. }), "{answer:?}");
        },
        |world| world.attacker().finish(),
    );
}

/// The bound is the user's, over all their slots and whatever the filters are for. What cannot be read is counted like the
/// rest.
#[test]
fn asking_for_filters_by_many_slots() {
    const ASKED: usize = 60;
    const NONE: &str = "no such words";
    case(
        |hostile| {
            let programs = [(); 3].map(|()| hostile.attach());
            let copies = Request::Tap {
                interface: String::new(),
                filter: NONE.to_owned(),
                snap: 100,
                all: false,
            };
            let began = Instant::now();
            let ask = |n: usize| {
                let connection = &programs[n % 3].connection;
                let answer = match n % 4 {
                    0 => connection.ask(&copies).0,
                    _ => connection.claim_filter(NONE),
                };
                refusal(&answer)
            };
            let refused: Vec<Refusal> = (0..ASKED).map(ask).collect();
            let heard = refused.iter().filter(|code| **code == Refusal::BadRequest);
            let (heard, passed) = (heard.count() as u128, began.elapsed());
            let most = u128::from(FILTERS_AT_ONCE) + passed.as_millis() / FILTER_EVERY.as_millis();
            assert!(heard >= FILTERS_AT_ONCE.into(), "{refused:?}");
            assert!(heard <= most + 1, "{heard} heard in {passed:?}");
            hostile.say("busy");
            hostile.wait_for("go");
        },
        |world| {
            let mut attacker = world.attacker();
            attacker.must_say("busy");
            world.daemon_must_count("refused_bad_request", FILTERS_AT_ONCE.into());
            let program = world.program();
            program.connection.must_claim_filter("udp dst port 5000");
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// More users than there are reports in memory ask at the same time, and all of them have theirs before one reads theirs.
#[test]
fn asking_for_reports_as_many_users() {
    const USERS: u32 = REPORTS_MAX as u32 + 4;
    case(
        |hostile| {
            let connection = hostile.connect();
            hostile.say("connected");
            hostile.wait_for("go");
            say(&connection, &[Request::Status]);
            hostile.say("asked");
            let (message, mut fds) = connection.receive().expect("an answer");
            let FromDaemon::Answer(_, Answer::Report { bytes, asker }) = message else {
                panic!("{message:?}")
            };
            hostile.say("lent");
            hostile.wait_for("read");
            let report = std::fs::File::from(fds.pop().expect("a report"));
            let text = std::io::read_to_string(report).expect("readable");
            assert_eq!(text.len(), bytes as usize, "it was taken back");
            let asker: serde_json::Value = serde_json::from_str(&asker).expect("JSON");
            assert_eq!(asker["uid"], rustix::process::geteuid().as_raw());
        },
        |world| {
            let users = (0..USERS).map(|n| world.attacker_as(61_000 + n, ""));
            let mut users: Vec<_> = users.collect();
            users.iter_mut().for_each(|user| user.must_say("connected"));
            world.while_the_daemon_stands(|| {
                for user in &mut users {
                    user.tell("go");
                    user.must_say("asked");
                }
            });
            users.iter_mut().for_each(|user| user.must_say("lent"));
            users.iter().for_each(|user| user.tell("read"));
            users.into_iter().for_each(|user| user.finish());
        },
    );
}

/// Asks for a neighbour whom there is not.
fn resolve() -> Request {
    let ip = "10.79.0.99".parse().expect("an address");
    Request::Resolve { ip }
}

/// Neighbours by many programs of one user: on none of its connections do they ask for as many as they may.
#[test]
fn asking_for_neighbours_with_many_programs() {
    const PROGRAMS: usize = 6;
    const EACH: usize = RESOLVES_PER_SECOND / 2;
    case(
        |hostile| {
            let is_many = hostile.role == "many";
            let (count, asked) = if is_many { (PROGRAMS, EACH) } else { (1, 1) };
            let programs: Vec<Program> = (0..count).map(|_| hostile.attach()).collect();
            hostile.say("attached");
            hostile.wait_for("go");
            for program in &programs {
                say(&program.connection, &vec![resolve(); asked]);
            }
            hostile.say("asked");
            let answers = programs.iter().map(|p| answers(&p.connection, asked));
            let (done, refused): (Vec<_>, Vec<_>) = answers
                .flatten()
                .partition(|answer| matches!(answer, Answer::Done));
            assert_eq!(
                done.len() + refused.len(),
                count * asked,
                "each is answered"
            );
            let is_limit = |answer: &Answer| refusal(answer) == Refusal::Limit;
            assert!(refused.iter().all(is_limit), "{refused:?}");
            assert_ne!(refused.is_empty(), is_many, "{} done", done.len());
            // Another second, and they may again.
            let again = || matches!(programs[0].connection.ask(&resolve()).0, Answer::Done);
            assert!(within(again), "they may not ask again");
            hostile.say("again");
            hostile.wait_for("end");
        },
        |world| {
            let mut all = [(NOBODY, "many"), (SOMEBODY, "one")]
                .map(|(uid, role)| world.attacker_as(uid, role));
            all.iter_mut().for_each(|one| one.must_say("attached"));
            world.while_the_daemon_stands(|| {
                for one in &mut all {
                    one.tell("go");
                    one.must_say("asked");
                }
            });
            for mut one in all {
                one.must_say("again");
                one.tell("end");
                one.finish();
            }
        },
    );
}
