//! The conversation itself: malformed, cut, endless, slow and silent, and descriptors where none belong.
//!
//! A connection that misbehaves is ended; the daemon counts why, and the connections beside it notice nothing.

use std::os::fd::AsFd as _;

use exos_xok::limits::MESSAGE_BYTES_MAX;
use exos_xok::message::{Answer, Refusal, Request, VERSION};
use exos_xokd::limits::REPORTS_MAX;

use crate::attacks::attacker::Hostile;
use crate::attacks::program::{Connection, Program, refusal};
use crate::attacks::world::{World, case};

const HELD: u16 = 8000;

/// A source of bytes: SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// While attackers talk, an honest connection is answered.
fn meanwhile_others_are_answered(world: &World, attack: impl FnOnce()) {
    let program = world.program();
    let grant = program.connection.must_claim(HELD);
    attack();
    let (answer, _) = program.connection.ask(&Request::Release { grant });
    assert!(matches!(answer, Answer::Done), "{answer:?}");
    program.connection.must_claim(HELD);
}

fn must_be_closed(connection: &Connection) {
    while connection.receive().is_some() {}
}

fn seed_messages() -> Vec<Vec<u8>> {
    let texts = "udp port 53".to_owned();
    let requests = [
        Request::Hello { version: VERSION },
        Request::Status,
        Request::Release { grant: 1 },
        Request::Resolve {
            ip: [10, 79, 0, 2].into(),
        },
        Request::TimeWait {
            grant: 1,
            entries: vec![1; 112],
        },
        Request::Tap {
            interface: "wire".to_owned(),
            filter: texts,
            snap: 100,
            all: false,
        },
    ];
    requests.iter().map(|r| r.encode(1)).collect()
}

/// Requests with bytes changed, missing and added, a few on each connection as long as it lasts.
#[test]
fn with_malformed_and_cut_messages() {
    const CONNECTIONS: u64 = 200;
    case(
        |hostile| {
            let mut random = Random(79);
            let seeds = seed_messages();
            let mut ended = 0;
            for _ in 0..CONNECTIONS {
                let connection = hostile.connect();
                for _ in 0..4 {
                    let mut message = seeds[random.below(seeds.len())].clone();
                    match random.below(4) {
                        0 => message.truncate(random.below(message.len())),
                        1 => message.extend(vec![0; 1 + random.below(100)]),
                        2 => {
                            message = (0..random.below(200))
                                .map(|_| random.next() as u8)
                                .collect()
                        }
                        _ => {
                            let at = random.below(message.len());
                            message[at] = random.next() as u8;
                        }
                    }
                    if connection.send(&message, &[]).is_err() {
                        ended += 1;
                        break;
                    }
                }
                // Everything was heard, be it as the end of the connection.
                let write = rustix::net::Shutdown::Write;
                let _ = rustix::net::shutdown(connection.as_fd(), write);
                must_be_closed(&connection);
            }
            hostile.say(&ended.to_string());
        },
        |world| {
            meanwhile_others_are_answered(world, || {
                let mut attacker = world.attacker();
                attacker.says();
                attacker.finish();
            });
            // Most of them are no messages; which are, chance decides, from a fixed seed.
            world.daemon_must_count("connections_cut_bad_message", CONNECTIONS / 2);
        },
    );
}

#[test]
fn with_endless_messages() {
    case(
        |hostile| {
            for len in [MESSAGE_BYTES_MAX + 1, 150_000] {
                let connection = hostile.connect();
                connection.send(&vec![0; len], &[]).expect("room");
                must_be_closed(&connection);
            }
            // An empty datagram is the end, to the one that reads.
            let connection = hostile.connect();
            connection.send(&[], &[]).expect("room");
            must_be_closed(&connection);
            hostile.say("closed");
        },
        |world| {
            meanwhile_others_are_answered(world, || {
                world.must_be_attacked("closed");
            });
            world.daemon_must_count("connections_cut_bad_message", 2);
            world.daemon_must_count("connections_hung_up", 1);
        },
    );
}

/// Asks for answers with and without descriptors, and takes none of them.
#[test]
fn without_listening() {
    fn until_cut(connection: &Connection, request: &Request) {
        let bytes = request.encode(1);
        let flags = rustix::net::SendFlags::NOSIGNAL;
        // Waits while the daemon has not read what was said before.
        while rustix::net::send(connection.as_fd(), &bytes, flags).is_ok() {}
    }
    case(
        |hostile| {
            for request in [
                Request::Status,
                Request::Hello { version: VERSION },
                Request::Release { grant: 1 },
            ] {
                until_cut(&hostile.connect(), &request);
            }
            hostile.say("cut");
        },
        |world| {
            meanwhile_others_are_answered(world, || {
                world.must_be_attacked("cut");
            });
            world.daemon_must_count("connections_cut_slow", 3);
        },
    );
}

#[test]
fn without_a_word() {
    case(
        |hostile| {
            let silent: Vec<Connection> = (0..32).map(|_| hostile.connect()).collect();
            silent.iter().for_each(must_be_closed);
            hostile.say("closed");
        },
        |world| {
            meanwhile_others_are_answered(world, || {
                world.must_be_attacked("closed");
            });
            world.daemon_must_count("connections_cut_silent", 32);
        },
    );
}

/// Descriptors, as many as the kernel takes with a message, before and after the first word: the kernel refuses them (from
/// Linux 6.16 on), or they end the connection, and the daemon has none of them afterwards.
#[test]
fn with_descriptors_for_the_daemon() {
    fn send_descriptors(hostile: &Hostile) {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let many = [theirs.as_fd(); 253];
        for turn in 0..40 {
            let connection = hostile.connect();
            if turn % 2 == 0 {
                let (_, fds) = connection.ask(&Request::Release { grant: 1 });
                assert!(fds.is_empty());
            }
            let bytes = Request::Status.encode(1);
            // The connection itself is one, too.
            let sent = match turn % 4 {
                0 | 1 => connection.send(&bytes, &many),
                _ => connection.send(&bytes, &[connection.as_fd()]),
            };
            match sent {
                Ok(()) => assert!(connection.receive().is_none(), "it goes on"),
                Err(error) => assert_eq!(error, rustix::io::Errno::PERM),
            }
        }
        drop(theirs);
        let read = std::io::Read::read(&mut &ours, &mut [0; 1]);
        assert_eq!(read.expect("the end"), 0, "nobody has the other end");
    }
    case(
        |hostile| {
            send_descriptors(hostile);
            hostile.say("sent");
            hostile.wait_for("go");
        },
        |world| {
            let before = world.daemon_descriptors();
            let mut attacker = world.attacker();
            attacker.must_say("sent");
            let none_left = || world.daemon_descriptors() <= before;
            assert!(crate::attacks::world::within(none_left));
            world.daemon_must_count("refused_bad_request", 20);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// Anyone who has no room for descriptors does not get them; the daemon does not keep them for them.
#[test]
fn without_room_for_descriptors() {
    case(
        |hostile| {
            let connection = hostile.connect();
            let attach = crate::attacks::program::attach_request();
            connection.send(&attach.encode(1), &[]).expect("room");
            let mut buffer = vec![0; MESSAGE_BYTES_MAX];
            let flags = rustix::net::RecvFlags::empty();
            let got = rustix::net::recv(connection.as_fd(), &mut buffer[..], flags);
            assert!(got.expect("an answer").0 > 0);
            // It has a slot and no way to use it, and no second one.
            let (answer, _) = connection.ask(&attach);
            assert_eq!(refusal(&answer), Refusal::BadRequest);
            for _ in 0..200 {
                let bytes = Request::Status.encode(2);
                connection.send(&bytes, &[]).expect("room");
                rustix::net::recv(connection.as_fd(), &mut buffer[..], flags).expect("an answer");
            }
            hostile.say("received");
            hostile.wait_for("go");
        },
        |world| {
            let before = world.daemon_descriptors();
            let mut attacker = world.attacker();
            attacker.must_say("received");
            // Its connection, its process, what keeps a slot's link working, and the reports that can be read.
            assert!(world.daemon_descriptors() <= before + 8 + REPORTS_MAX);
            attacker.tell("go");
            attacker.finish();
            let program: Program = world.program();
            program.connection.must_claim(HELD);
        },
    );
}

/// Greets over many connections and takes no welcome, each of which has a descriptor with it.
#[test]
fn without_taking_descriptors() {
    const CONNECTIONS: usize = 60;
    case(
        |hostile| {
            let hello = Request::Hello { version: VERSION };
            let cut_after = hostile.connect().send_until_cut(&hello, 5000);
            let all: Vec<Connection> = (0..CONNECTIONS).map(|_| hostile.connect()).collect();
            // So many that some wait in the daemon, and too few to be cut off for it.
            for _ in 0..cut_after - 20 {
                for connection in &all {
                    let _ = connection.send(&hello.encode(1), &[]);
                }
            }
            hostile.say("greeted");
            hostile.wait_for("go");
        },
        |world| {
            let before = world.daemon_descriptors();
            let mut attacker = world.attacker();
            attacker.must_say("greeted");
            world.daemon_must_count("refused_limit", CONNECTIONS as u64);
            // Each connection has its socket, its process, and one welcome that waits.
            let bound = before + 3 * (CONNECTIONS + 2);
            let now = world.daemon_descriptors();
            assert!(now <= bound, "{now} descriptors, {before} before");
            attacker.tell("go");
            attacker.finish();
            let program: Program = world.program();
            program.connection.must_claim(HELD);
        },
    );
}
