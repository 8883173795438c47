//! Being many: users whom the policy does not name, as one person may be with subordinate user numbers, and who may do
//! something by a rule for everybody. What they take they take from each other.

use exos_xok::message::{Answer, FromDaemon, Mode, Refusal, Request, VERSION};
use exos_xokd::limits::{CONNECTIONS_UNNAMED_MAX, GRANTS, PROGRAMS};
use exos_xokd::pool::Standing;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::attacks::attacker::{Attacker, Hostile, NOBODY};
use crate::attacks::program::{CHUNKS, Connection, Program};
use crate::attacks::world::{OURS, OURS_V6, World, case, to_us, within};
use crate::packets;

/// Nobody's names; the policy has none of them.
const STRANGERS: std::ops::Range<u32> = 70_000..70_010;

/// One behind all of them whom it names.
const LAST_NAMED: u32 = STRANGERS.end + 1;

const HELD: u16 = 8000;
const LAST: &[u8] = b"this is honest";

/// Has everybody allowed what users are that the policy names.
fn allow_everybody(world: &World) {
    let addresses = "addresses = [\"10.79.0.7\", \"fd79::7\"]\n";
    let anyone = format!("[[allow]]\nanyone = true\n{addresses}");
    let named = format!("[[allow]]\nuser = \"{LAST_NAMED}\"\n{addresses}");
    world.set_policy(|policy| format!("{policy}{anyone}{named}"));
    let allowed = || {
        let mut stranger = world.attacker_as(STRANGERS.end, "try");
        let allowed = stranger.says() == "true";
        stranger.finish();
        allowed
    };
    assert!(within(allowed), "the policy was not read");
    assert!(within(|| world.slots().is_empty()));
}

/// What the process does that tries whether it is allowed.
fn try_it(hostile: &Hostile) -> bool {
    if hostile.role != "try" {
        return false;
    }
    let (answer, _) = hostile.connect().attach();
    let allowed = matches!(answer, Answer::Attached { .. });
    hostile.say(&allowed.to_string());
    true
}

/// What the processes do that are of no crowd: the one that tries, and the one of a user whom the policy names.
fn is_of_no_crowd(hostile: &Hostile) -> bool {
    let is_named = hostile.role == "named";
    if is_named {
        let _program = hostile.attach();
        hostile.say("attached");
    }
    is_named || try_it(hostile)
}

/// A user whom the policy names, and root, get in and have their packets.
fn others_have_what_is_theirs(world: &World) {
    let mut named = world.attacker_as(NOBODY, "named");
    named.must_say("attached");
    let mut program = world.program();
    program.connection.must_claim(HELD);
    world.far.send(&packets::udp(&to_us(OURS, HELD), LAST));
    program.receive_up_to(LAST);
    named.finish();
}

fn strangers(world: &World, count: usize) -> Vec<Attacker> {
    let uids = STRANGERS.take(count);
    uids.map(|uid| world.attacker_as(uid, "crowd")).collect()
}

fn end(attackers: Vec<Attacker>) {
    for attacker in attackers {
        attacker.tell("go");
        attacker.finish();
    }
}

/// A word with the daemon, or its refusal to have one.
fn is_heard(connection: &Connection) -> bool {
    let hello = Request::Hello { version: VERSION };
    let heard = connection.try_ask(&hello);
    heard.is_some_and(|(answer, _)| matches!(answer, Answer::Welcome { .. }))
}

/// All connections that there are for such users. Those who hold nothing make room after a while.
#[test]
fn for_all_connections() {
    case(
        |hostile| {
            if try_it(hostile) {
                return;
            }
            match &hostile.role[..] {
                "crowd" => {
                    let all = (0..CONNECTIONS_UNNAMED_MAX + 2).map(|_| hostile.connect());
                    let heard: Vec<Connection> = all.filter(is_heard).collect();
                    hostile.say(&heard.len().to_string());
                    hostile.wait_for("go");
                }
                "late" => {
                    let connection = hostile.connect();
                    let hello = Request::Hello { version: VERSION };
                    let _ = connection.send(&hello.encode(1), &[]);
                    let at_once = matches!(connection.receive(), Some((FromDaemon::Answer(..), _)));
                    hostile.say(&at_once.to_string());
                    assert!(within(|| is_heard(&hostile.connect())), "nobody makes room");
                    hostile.say("heard");
                }
                _ => {
                    let _program = hostile.attach();
                    hostile.say("attached");
                }
            }
        },
        |world| {
            allow_everybody(world);
            let mut crowd = strangers(world, 4);
            for attacker in &mut crowd {
                assert_eq!(attacker.says(), CONNECTIONS_UNNAMED_MAX.to_string());
            }
            let mut late = world.attacker_as(STRANGERS.end, "late");
            let at_once = late.says();
            others_have_what_is_theirs(world);
            late.must_say("heard");
            late.finish();
            // Unless all of this took so long that they had had their time.
            let made_room = world.daemon_counted("connections_cut_made_room");
            assert!(at_once == "false" || made_room > 1, "{made_room}");
            assert!(made_room > 0);
            end(crowd);
        },
    );
}

/// All grants.
#[test]
fn for_all_grants() {
    case(
        |hostile| {
            if is_of_no_crowd(hostile) {
                return;
            }
            let program = hostile.attach();
            let (granted, text) = program.connection.claim_until_refused(&[OURS, OURS_V6]);
            assert!(text.contains("no rule of the policy names"), "{text}");
            hostile.say(&granted.to_string());
            hostile.wait_for("go");
        },
        |world| {
            allow_everybody(world);
            let mut crowd = Vec::new();
            // Anyone who comes next finds a quarter of what there was.
            let all = GRANTS.most(Standing::Unnamed);
            let parts = [all * 3 / 4, all / 4 * 3 / 4, all / 16 * 3 / 4];
            for (uid, granted) in STRANGERS.zip(parts) {
                let mut attacker = world.attacker_as(uid, "crowd");
                assert_eq!(attacker.says(), granted.to_string());
                crowd.push(attacker);
            }
            others_have_what_is_theirs(world);
            end(crowd);
        },
    );
}

/// Attaches until that is refused; returns what it has, and why it has no more.
fn attach_until_refused(
    hostile: &Hostile,
    chunks: impl Iterator<Item = u32>,
) -> (Vec<(Connection, Vec<std::os::fd::OwnedFd>)>, String) {
    let mut has = Vec::new();
    for chunks in chunks {
        let connection = hostile.connect();
        let (answer, fds) = connection.ask_until_heard(&Request::Attach {
            interface: String::new(),
            mode: Mode::Auto,
            chunks,
            program: "program".to_owned(),
        });
        match answer {
            Answer::Attached { .. } => has.push((connection, fds)),
            Answer::Refused {
                code: Refusal::Limit,
                text,
            } => return (has, text),
            other => panic!("{other:?}"),
        }
    }
    (has, String::new())
}

/// All memory: four users have as much as each may.
#[test]
fn for_all_memory() {
    case(
        |hostile| {
            if is_of_no_crowd(hostile) {
                return;
            }
            // 32, 16 and 8 MiB, and never more than 64 asked for.
            let (has, text) = attach_until_refused(hostile, [16_384, 8192, 4096].into_iter());
            assert!(
                text.is_empty() || text.contains("no rule of the policy names"),
                "{text}"
            );
            hostile.say(&has.len().to_string());
            hostile.wait_for("go");
        },
        |world| {
            allow_everybody(world);
            let mut crowd = Vec::new();
            for (uid, slots) in STRANGERS.zip(["3", "3", "3", "3", "0"]) {
                let mut attacker = world.attacker_as(uid, "crowd");
                assert_eq!(attacker.says(), slots);
                crowd.push(attacker);
            }
            others_have_what_is_theirs(world);
            end(crowd);
        },
    );
}

/// All slots that there are for such users.
#[test]
fn for_all_slots() {
    const EACH: usize = CONNECTIONS_UNNAMED_MAX - 1;
    case(
        |hostile| {
            if is_of_no_crowd(hostile) {
                return;
            }
            // One connection less than there may be, so that those of the last one are not what is refused.
            let (has, text) = attach_until_refused(hostile, std::iter::repeat_n(CHUNKS, EACH));
            hostile.say(&format!("{} {text}", has.len()));
            hostile.wait_for("go");
        },
        |world| {
            allow_everybody(world);
            let mut left = PROGRAMS.most(Standing::Unnamed);
            let mut crowd = Vec::new();
            for uid in STRANGERS {
                let mut attacker = world.attacker_as(uid, "crowd");
                let said = attacker.says();
                let has = left.min(EACH);
                assert!(said.starts_with(&format!("{has} ")), "{said}");
                crowd.push(attacker);
                left -= has;
                if has < EACH {
                    break;
                }
            }
            assert_eq!(left, 0);
            others_have_what_is_theirs(world);
            end(crowd);
        },
    );
}

/// All of the daemon's time: each asks for a place, before a user who is named, and their two are made first and third, or
/// first and second. The numbers of slots say in which order they were given.
#[test]
fn for_the_daemons_time() {
    const CROWD: usize = 8;
    case(
        |hostile| {
            if try_it(hostile) {
                return;
            }
            let connections = match &hostile.role[..] {
                "named" => vec![hostile.connect(), hostile.connect()],
                _ => vec![hostile.connect()],
            };
            assert!(connections.iter().all(is_heard));
            hostile.say("connected");
            hostile.wait_for("go");
            for connection in &connections {
                let attach = crate::attacks::program::attach_request();
                connection.send(&attach.encode(1), &[]).expect("room");
            }
            hostile.say("asked");
            for connection in &connections {
                let slot = match connection.receive() {
                    Some((FromDaemon::Answer(_, Answer::Attached { slot, .. }), _)) => slot,
                    other => panic!("{other:?}"),
                };
                hostile.say(&slot.to_string());
            }
            hostile.wait_for("go");
        },
        |world| {
            allow_everybody(world);
            let mut crowd = strangers(world, CROWD);
            let mut named = world.attacker_as(LAST_NAMED, "named");
            crowd.iter_mut().for_each(|one| one.must_say("connected"));
            named.must_say("connected");
            world.while_the_daemon_stands(|| {
                for one in crowd.iter_mut().chain([&mut named]) {
                    one.tell("go");
                    one.must_say("asked");
                }
            });
            let slots: Vec<u32> = (0..2).map(|_| named.says().parse().expect("one")).collect();
            assert!(
                slots.contains(&1) && slots.iter().all(|slot| *slot <= 3),
                "{slots:?}"
            );
            let mut others: Vec<u32> = Vec::new();
            for one in &mut crowd {
                others.push(one.says().parse().expect("one"));
            }
            assert_eq!(others.len(), CROWD, "all of them in the end");
            end(crowd);
            end(vec![named]);
        },
    );
}

/// All descriptors that the daemon may have: who is in is served, and who is not waits and is not sent away.
#[test]
fn for_the_daemons_last_descriptors() {
    const CONNECTIONS: usize = 40;
    case(
        |hostile| {
            let all: Vec<Connection> = (0..CONNECTIONS).map(|_| hostile.connect()).collect();
            for connection in &all {
                let hello = Request::Hello { version: VERSION };
                connection.send(&hello.encode(1), &[]).expect("room");
            }
            hostile.say("connected");
            hostile.wait_for("go");
        },
        |world| {
            let program: Program = world.program();
            let pid = Pid::from_raw(world.daemon_pid().cast_signed()).expect("it runs");
            let before = getrlimit(Resource::Nofile);
            let most = world.daemon_descriptors() as u64 + 12;
            let limit = Rlimit {
                current: Some(most),
                ..before
            };
            prlimit(Some(pid), Resource::Nofile, limit).expect("root may");
            let mut attacker = world.attacker();
            attacker.must_say("connected");
            let few = || world.daemon_descriptors() as u64 + 2 > most;
            assert!(within(few), "descriptors are left");
            let newcomer = world.connect();
            let hello = Request::Hello { version: VERSION };
            newcomer.send(&hello.encode(1), &[]).expect("room");
            for port in 9000..9100 {
                let grant = program.connection.must_claim(port);
                program.connection.ask(&Request::Release { grant });
            }
            let second = Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            let mut fds = [PollFd::new(&newcomer, PollFlags::IN)];
            assert_eq!(poll(&mut fds, Some(&second)), Ok(0), "it waits");
            attacker.tell("go");
            attacker.finish();
            let (answer, _) = newcomer.receive().expect("it is let in");
            let welcome = matches!(&answer, FromDaemon::Answer(_, Answer::Welcome { .. }));
            assert!(welcome, "{answer:?}");
            assert_eq!(world.daemon_counted("connections_refused_too_many"), 0);
        },
    );
}
