//! Asking for what is another's, or for too much.
//!
//! Each attack asserts in its own process that it is refused, and with which code; the case asserts that the daemon
//! counted it and that anyone who was to lose something has it still.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Instant;

use exos_xok::limits::TABLE_GRANTS;
use exos_xok::message::{Answer, FromDaemon, GrantId, Mode, PortWish, Refusal, Request, Secret};
use exos_xok::{Endpoint, Protocol};
use exos_xokd::limits::{ATTACH_EVERY, ATTACHES_AT_ONCE, REPORT_EVERY, REPORTS_MAX};

use crate::attacks::attacker::{NOBODY, SOMEBODY};
use crate::attacks::program::{
    CHUNKS, Connection, Program, attach_request, refusal, secret_from_hex, secret_to_hex,
};
use crate::attacks::world::{OURS, OURS_V6, PEER, ROOTS, case, to_us};
use crate::packets;

const HELD: u16 = 8000;
const LAST: &[u8] = b"this is honest";

fn endpoint(address: &str) -> Endpoint {
    let address: SocketAddr = address.parse().expect("an address");
    Endpoint {
        ip: address.ip(),
        port: address.port(),
    }
}

fn claim(protocol: Protocol, local: &str, port: PortWish, remote: Option<&str>) -> Request {
    Request::Claim {
        protocol,
        local: Some(local.parse::<IpAddr>().expect("an address")),
        port,
        remote: remote.map(endpoint),
    }
}

/// All of these are refused for this reason.
pub(super) fn must_be_refused(connection: &Connection, code: Refusal, requests: &[Request]) {
    for request in requests {
        let (answer, fds) = connection.ask(request);
        assert_eq!(refusal(&answer), code, "{request:?}: {answer:?}");
        assert!(fds.is_empty());
    }
}

/// The port of another, its connections, and claims that lie around it.
#[test]
fn for_a_port_that_another_has() {
    let number = PortWish::Number(HELD);
    let requests = [
        claim(Protocol::Udp, OURS, number, None),
        claim(Protocol::Udp, OURS, number, Some("10.79.0.2:9")),
        claim(Protocol::Udp, OURS, PortWish::All, None),
        claim(Protocol::Any, OURS, PortWish::All, None),
    ];
    let refused = requests.len() as u64;
    case(
        |hostile| {
            let program = hostile.attach();
            // The last two are more than policy allows, no matter who has a part of them.
            must_be_refused(&program.connection, Refusal::Held, &requests[..2]);
            must_be_refused(&program.connection, Refusal::NotAllowed, &requests[2..]);
            hostile.say("refused");
            hostile.wait_for("go");
        },
        |world| {
            let mut holder = world.program();
            holder.connection.must_claim(HELD);
            let mut attacker = world.attacker();
            attacker.must_say("refused");
            world.daemon_must_count("refused_held", 2);
            world.daemon_must_count("refused_not_allowed", refused - 2);
            world.far.send(&packets::udp(&to_us(OURS, HELD), LAST));
            assert_eq!(holder.receive_up_to(LAST).len(), 1);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// What policy does not allow: addresses of others, ports of the system, whole protocols; and what is no claim.
#[test]
fn for_what_policy_does_not_allow() {
    case(
        |hostile| {
            let program = hostile.attach();
            let number = PortWish::Number;
            let not_allowed = [
                claim(Protocol::Udp, ROOTS, number(HELD), None),
                claim(Protocol::Tcp, OURS, number(1023), None),
                claim(Protocol::Tcp, OURS_V6, number(80), None),
                claim(Protocol::Tcp, OURS, PortWish::All, None),
                claim(Protocol::Any, OURS, PortWish::All, None),
                claim(Protocol::Icmp, OURS, PortWish::All, None),
                claim(Protocol::Icmpv6, OURS_V6, PortWish::All, None),
            ];
            must_be_refused(&program.connection, Refusal::NotAllowed, &not_allowed);
            let nobodys = [
                claim(Protocol::Udp, PEER, number(HELD), None),
                claim(Protocol::Udp, "::ffff:10.79.0.7", number(HELD), None),
                claim(Protocol::Udp, "0.0.0.0", number(HELD), None),
                claim(Protocol::Udp, "224.0.0.1", number(HELD), None),
            ];
            must_be_refused(&program.connection, Refusal::NotFound, &nobodys);
            let families = claim(Protocol::Udp, OURS, number(HELD), Some("[fd79::2]:9"));
            let step_aside = Request::StepAside;
            must_be_refused(&program.connection, Refusal::BadRequest, &[families]);
            must_be_refused(&program.connection, Refusal::NotAllowed, &[step_aside]);
            hostile.say("refused");
        },
        |world| {
            world.must_be_attacked("refused");
            world.daemon_must_count("refused_not_allowed", 8);
            world.daemon_must_count("refused_not_found", 4);
            world.daemon_must_count("refused_bad_request", 1);
        },
    );
}

/// Another's grant by its number, which can be read in the tables, and parts of one's own that are none.
#[test]
fn for_more_than_was_granted() {
    case(
        |hostile| {
            let program = hostile.attach();
            let others: GrantId = hostile.hear().parse().expect("a number");
            let own = program.connection.must_claim(7000);
            let remote = endpoint("10.79.0.2:9");
            let narrow = |grant, remote, port| Request::Narrow {
                grant,
                remote,
                port,
            };
            let not_ours = [
                narrow(others, remote, 0),
                Request::Release { grant: others },
                Request::Share { grant: others },
                Request::TimeWait {
                    grant: others,
                    entries: vec![0; 56],
                },
                Request::Release { grant: 0 },
                Request::Release { grant: u32::MAX },
                Request::Untap { tap: 1 },
                Request::Import {
                    ticket: Secret([0; 16]),
                },
            ];
            must_be_refused(&program.connection, Refusal::NotFound, &not_ours);
            let six = endpoint("[fd79::2]:9");
            let no_part = [narrow(own, remote, HELD), narrow(own, six, 0)];
            must_be_refused(&program.connection, Refusal::BadRequest, &no_part);
            hostile.say("refused");
            hostile.wait_for("go");
        },
        |world| {
            let mut holder = world.program();
            let grant = holder.connection.must_claim(HELD);
            let mut attacker = world.attacker();
            attacker.tell(&grant.to_string());
            attacker.must_say("refused");
            world.daemon_must_count("refused_not_found", 8);
            world.daemon_must_count("refused_bad_request", 2);
            world.far.send(&packets::udp(&to_us(OURS, HELD), LAST));
            assert_eq!(holder.receive_up_to(LAST).len(), 1);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// Tickets are for one use, tokens for the user and for a slot that nobody holds.
#[test]
fn with_tickets_and_tokens_that_are_used_up() {
    case(
        |hostile| {
            let program = hostile.attach();
            let connection = &program.connection;
            let theirs = secret_from_hex(&hostile.hear());
            // Of another user's slot, and of one's own while another connection has it.
            let stranger = hostile.connect();
            let reattach = |token| Request::Reattach { token };
            must_be_refused(&stranger, Refusal::NotFound, &[reattach(theirs)]);
            must_be_refused(&stranger, Refusal::Held, &[reattach(program.token)]);
            let twice = reattach(program.token);
            must_be_refused(connection, Refusal::BadRequest, &[twice]);

            let grant = connection.must_claim(7000);
            let (answer, _) = connection.ask(&Request::Share { grant });
            let Answer::Ticket(ticket) = answer else {
                panic!("{answer:?}")
            };
            let other = hostile.attach();
            let import = Request::Import { ticket };
            let (answer, _) = other.connection.ask(&import);
            assert!(matches!(answer, Answer::Granted { .. }), "{answer:?}");
            must_be_refused(&other.connection, Refusal::NotFound, &[import]);
            // A ticket for what was given back meanwhile is good for nothing.
            let grant = connection.must_claim(7001);
            let (answer, _) = connection.ask(&Request::Share { grant });
            let Answer::Ticket(ticket) = answer else {
                panic!("{answer:?}")
            };
            connection.ask(&Request::Release { grant });
            let import = Request::Import { ticket };
            must_be_refused(&other.connection, Refusal::NotFound, &[import]);
            // The slot is gone, and so is what took it up.
            let token = other.token;
            drop(other);
            let late = hostile.connect();
            let gone = || refusal(&late.ask(&reattach(token)).0) == Refusal::NotFound;
            assert!(crate::attacks::world::within(gone));
            hostile.say("refused");
        },
        |world| {
            let holder = world.program();
            let mut attacker = world.attacker();
            attacker.tell(&secret_to_hex(&holder.token));
            attacker.must_say("refused");
            attacker.finish();
            world.daemon_must_count("refused_not_found", 4);
            let held = holder.connection.must_claim(HELD);
            assert!(held > 0, "it works on");
        },
    );
}

/// Modes, sizes and interfaces that are not to be had.
#[test]
fn for_slots_that_cannot_be() {
    let attach = |interface: &str, mode, chunks| Request::Attach {
        interface: interface.to_owned(),
        mode,
        chunks,
        program: "program".to_owned(),
    };
    case(
        |hostile| {
            let connection = hostile.connect();
            for (request, code) in [
                (
                    attach("", Mode::Direct(Some(0)), CHUNKS),
                    Refusal::NotAllowed,
                ),
                (attach("lo", Mode::Shared, CHUNKS), Refusal::NotFound),
                (attach("../../etc", Mode::Shared, CHUNKS), Refusal::NotFound),
                (attach("", Mode::Shared, u32::MAX), Refusal::Limit),
                (attach("", Mode::Shared, 1 << 30), Refusal::Limit),
                (attach("", Mode::Shared, 1), Refusal::BadRequest),
                (attach("", Mode::Shared, 513), Refusal::BadRequest),
            ] {
                must_be_refused(&connection, code, &[request]);
            }
            let first = Request::Release { grant: 1 };
            must_be_refused(&connection, Refusal::BadRequest, &[first]);
            let program = Program::attach(connection);
            let again = attach("", Mode::Shared, CHUNKS);
            must_be_refused(&program.connection, Refusal::BadRequest, &[again]);
            hostile.say("refused");
        },
        |world| {
            world.must_be_attacked("refused");
            world.daemon_must_count("refused_limit", 2);
            world.daemon_must_count("refused_bad_request", 4);
        },
    );
}

/// A user who takes all that they can get leaves the others what is theirs: slots, memory, connections.
#[test]
fn for_all_slots_and_connections() {
    case(
        |hostile| {
            let mut programs = Vec::new();
            loop {
                let connection = hostile.connect();
                match connection.attach() {
                    (Answer::Attached { .. }, fds) => programs.push((connection, fds)),
                    (Answer::Refused { code, .. }, _) => {
                        assert_eq!(code, Refusal::Limit);
                        break;
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(programs.len(), 16, "as many as policy allows");
            let mut connections = Vec::new();
            // One that is refused is closed: it cannot ask for anything.
            while let connection = hostile.connect()
                && connection.try_ask(&Request::Status).is_some()
            {
                connections.push(connection);
            }
            assert!(programs.len() + connections.len() <= 64);
            hostile.say("full");
            hostile.wait_for("go");
        },
        |world| {
            let mut attacker = world.attacker();
            attacker.must_say("full");
            world.daemon_must_count("connections_refused_too_many", 1);
            // Another user still gets a slot, a port, a connection.
            let mut program = world.program();
            program.connection.must_claim(HELD);
            world.far.send(&packets::udp(&to_us(OURS, HELD), LAST));
            program.receive_up_to(LAST);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// All the grants that a user can have: the tables hold more, and the next user gets them.
#[test]
fn for_all_grants() {
    case(
        |hostile| {
            let program = hostile.attach();
            // Both protocols of both addresses: four times as many ports as there are grants for one user.
            let mut granted = 0;
            'all: for port in 1024..=u16::MAX {
                for (protocol, local) in [
                    (Protocol::Udp, OURS),
                    (Protocol::Tcp, OURS),
                    (Protocol::Udp, OURS_V6),
                    (Protocol::Tcp, OURS_V6),
                ] {
                    let request = claim(protocol, local, PortWish::Number(port), None);
                    match program.connection.ask(&request).0 {
                        Answer::Granted { .. } => granted += 1,
                        Answer::Refused { code, .. } => {
                            assert_eq!(code, Refusal::Limit);
                            break 'all;
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            assert!(granted < TABLE_GRANTS, "{granted} grants to one user");
            hostile.say(&granted.to_string());
            hostile.wait_for("go");
        },
        |world| {
            let mut attacker = world.attacker();
            assert_eq!(attacker.says(), "12000");
            world.daemon_must_count("refused_limit", 1);
            let mut program = world.program();
            program.connection.must_claim(60_000);
            world.far.send(&packets::udp(&to_us(OURS, 60_000), LAST));
            program.receive_up_to(LAST);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// Memory: of many small programs or of one that is large.
#[test]
fn for_all_memory() {
    case(
        |hostile| {
            let mut held = Vec::new();
            let mut bytes = 0;
            for chunks in [16 * 1024, 8192, 4096, 2048, 1024] {
                loop {
                    let connection = hostile.connect();
                    let request = Request::Attach {
                        interface: String::new(),
                        mode: Mode::Shared,
                        chunks,
                        program: "program".to_owned(),
                    };
                    match connection.ask_until_heard(&request) {
                        (Answer::Attached { .. }, fds) => {
                            let memory = std::fs::File::from(fds[1].try_clone().expect("one"));
                            bytes += memory.metadata().expect("memory").len();
                            held.push((connection, fds));
                        }
                        (Answer::Refused { code, .. }, _) => {
                            assert_eq!(code, Refusal::Limit);
                            break;
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            assert!(bytes <= 64 << 20, "{bytes} bytes");
            hostile.say("full");
            hostile.wait_for("go");
        },
        |world| {
            let mut attacker = world.attacker();
            attacker.must_say("full");
            world.daemon_must_count("refused_limit", 5);
            // Not at the expense of another user, who is not allowed more than this one.
            let mut other = world.attacker_as(SOMEBODY, "");
            other.must_say("full");
            for attacker in [attacker, other] {
                attacker.tell("go");
                attacker.finish();
            }
            assert_ne!(NOBODY, SOMEBODY);
        },
    );
}

/// What is bounded per slot: tickets, and neighbours asked for, each of which is a broadcast.
#[test]
fn for_tickets_and_neighbours_without_end() {
    case(
        |hostile| {
            let program = hostile.attach();
            let grant = program.connection.must_claim(7000);
            let until_refused = |request: &dyn Fn(u32) -> Request| {
                let mut done = 0;
                loop {
                    match program.connection.ask(&request(done)).0 {
                        Answer::Refused { code, .. } => break assert_eq!(code, Refusal::Limit),
                        _ => done += 1,
                    }
                    assert!(done < 100_000, "it never ends");
                }
            };
            until_refused(&|_| Request::Share { grant });
            until_refused(&|done| Request::Resolve {
                ip: IpAddr::from([10, 79, (done / 256) as u8, done as u8]),
            });
            hostile.say("refused");
        },
        |world| {
            world.must_be_attacked("refused");
            world.daemon_must_count("refused_limit", 2);
        },
    );
}

/// Asks on all these connections by turns and keeps the reports: `repeats` of those that it has already, and as many
/// different ones as the daemon makes meanwhile, but more than it leaves in memory. Also when each was made.
fn reports_without_end(connections: &[Connection], repeats: usize) -> (Vec<OwnedFd>, Vec<u64>) {
    const ASKED: usize = 3000;
    let (mut kept, mut made) = (Vec::new(), Vec::new());
    let mut different = std::collections::BTreeSet::new();
    let mut asked = 0;
    while asked < ASKED || different.len() <= REPORTS_MAX + 3 {
        // On all of them before the first answer is waited for, which costs a slow machine some time.
        if asked % connections.len() == 0 {
            for connection in connections {
                let bytes = Request::Status.encode(1);
                connection.send(&bytes, &[]).expect("room");
            }
        }
        let connection = &connections[asked % connections.len()];
        asked += 1;
        let (said, mut fds) = connection.receive().expect("an answer");
        let is_report = matches!(said, FromDaemon::Answer(1, Answer::Report { .. }));
        assert!(is_report, "{said:?}");
        let report = fds.pop().expect("a report");
        if different.insert(rustix::fs::fstat(&report).expect("a file").st_ino) {
            let again = report.try_clone().expect("a descriptor").into();
            // A slow one finds it taken back already.
            let text: Option<serde_json::Value> = serde_json::from_reader::<File, _>(again).ok();
            made.extend(text.and_then(|text| text["time_ns"].as_u64()));
            kept.push(report);
        } else if asked - different.len() < repeats {
            kept.push(report);
        }
    }
    // They are answered in the order of a turn.
    made.sort_unstable();
    (kept, made)
}

/// Reports on all connections that a user may have, all of them kept: few are made, and their memory goes.
#[test]
fn for_reports_without_end() {
    case(
        |hostile| {
            // Reports are kept until the end: as many descriptors as the system lets one have, half of them for others.
            let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
            let repeats = limit.current.unwrap_or(4096).min(4096) as usize / 2;
            let connections: Vec<Connection> = (0..60).map(|_| hostile.connect()).collect();
            let (kept, made) = reports_without_end(&connections, repeats);
            let every = REPORT_EVERY.as_nanos() as u64;
            for pair in made.windows(2) {
                assert!(pair[1] >= pair[0] + every, "{pair:?} ns");
            }
            let stat = |fd: &OwnedFd| rustix::fs::fstat(fd).expect("a file");
            let files = kept.iter().map(stat).map(|s| (s.st_ino, s.st_size));
            let files = files.collect::<std::collections::BTreeMap<_, _>>();
            let memory = files.values().filter(|size| **size > 0).count();
            assert!(
                files.len() > REPORTS_MAX && memory <= REPORTS_MAX,
                "{memory} in memory"
            );
            hostile.say("kept");
        },
        |world| {
            let program = world.program();
            let mut attacker = world.attacker();
            for port in 9000..9200 {
                program.connection.must_claim(port);
            }
            attacker.must_say("kept");
            attacker.finish();
        },
    );
}

/// A slot that cannot be: refused at once, and counted like the others.
fn impossible() -> Request {
    Request::Attach {
        interface: String::new(),
        mode: Mode::Auto,
        chunks: 3,
        program: "program".to_owned(),
    }
}

/// Comes and goes, each time some tens of milliseconds of the daemon's time: a few times at once, then seldom.
#[test]
fn for_slots_again_and_again() {
    case(
        |hostile| {
            let began = Instant::now();
            let mut attached = 0;
            for _ in 0..24 {
                // Each is waited for by itself.
                hostile.say("again");
                match hostile.connect().ask(&attach_request()).0 {
                    Answer::Attached { .. } => attached += 1,
                    // Those that it has left may be counted still.
                    Answer::Refused { code, .. } => {
                        assert!(matches!(code, Refusal::Limit | Refusal::Busy));
                    }
                    other => panic!("{other:?}"),
                }
            }
            let since = began.elapsed().as_millis() / ATTACH_EVERY.as_millis();
            assert!(attached <= u128::from(ATTACHES_AT_ONCE) + since + 1);
            // Asked for faster than any machine makes them.
            let connection = hostile.connect();
            let busy = (0..1000).find_map(|_| match connection.ask(&impossible()).0 {
                Answer::Refused {
                    code: Refusal::Busy,
                    text,
                } if text.contains("too often") => Some(text),
                _ => None,
            });
            let text = busy.expect("it ends");
            assert!(text.contains("try again in"), "{text}");
            hostile.say("busy");
            hostile.wait_for("go");
        },
        |world| {
            let mut attacker = world.attacker();
            while attacker.says() != "busy" {}
            world.daemon_must_count("refused_busy", 1);
            // Another user need not wait.
            world.program().connection.must_claim(HELD);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// Connects without end and without waiting, from several processes: others get in all the same.
#[test]
fn for_the_queue_of_newcomers() {
    const STORMS: usize = 3;
    case(
        |hostile| {
            hostile.say("ready");
            hostile.wait_for("go");
            let mut kept = std::collections::VecDeque::new();
            for _ in 0..20_000 {
                kept.extend(hostile.connect_now());
                if kept.len() > 200 {
                    kept.pop_front();
                }
            }
            hostile.say("done");
        },
        |world| {
            let start = |_| world.attacker();
            let mut storms: Vec<_> = (0..STORMS).map(start).collect();
            storms.iter_mut().for_each(|storm| storm.must_say("ready"));
            storms.iter().for_each(|storm| storm.tell("go"));
            for _ in 0..20 {
                let connection = world.connect();
                let (answer, _) = connection.ask(&Request::Hello {
                    version: exos_xok::message::VERSION,
                });
                assert!(matches!(answer, Answer::Welcome { .. }), "{answer:?}");
            }
            for mut storm in storms {
                storm.must_say("done");
                storm.finish();
            }
            world.daemon_must_count("connections_refused_too_many", 1);
        },
    );
}

/// Slots that cannot be, over and over: the tables do not fill up, and others attach as before.
#[test]
fn for_slots_that_cannot_be_made() {
    case(
        |hostile| {
            let connection = hostile.connect();
            let mut refused = 0;
            for _ in 0..300 {
                let (answer, _) = connection.ask(&impossible());
                let code = refusal(&answer);
                assert!(
                    matches!(code, Refusal::BadRequest | Refusal::Busy),
                    "{answer:?}"
                );
                refused += u32::from(code == Refusal::BadRequest);
            }
            assert!(refused > 0, "it was never its turn");
            hostile.say("done");
        },
        |world| {
            world.must_be_attacked("done");
            let (answer, _) = world.connect().attach();
            assert!(matches!(answer, Answer::Attached { .. }), "{answer:?}");
        },
    );
}
