//! Against Debian's memcached: drawn commands, answers byte for byte. Over UDP from the kernel's socket at the other end of a wire, where a
//! handler answers some; over TCP's bytes without one. As root, and where `memcached` is installed.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::process::{Child, Command};
use std::time::{Duration, Instant, SystemTime};

use exos_testing::Random;

use super::server::Server;
use super::server::cache::Cache;
use super::server::protocol::Session;
use super::{ask, connect, read, text, whole};
use crate::common::PATIENCE;
use crate::download::Wire;

/// Debian's, on loopback in this thread's network namespace.
struct Theirs {
    process: Child,
    udp: UdpSocket,
    tcp: TcpStream,
}

impl Theirs {
    fn start(test: &str) -> Option<Self> {
        let mut command = Command::new("memcached");
        command.args("-u root -l 127.0.0.1 -p 11222 -U 11222 -t 1".split(' '));
        // A number that gets shorter is padded in its place, but not where one of these threads has the item just then.
        command.args(["-o", "no_lru_maintainer,no_lru_crawler"]);
        let Ok(process) = command.spawn() else {
            eprintln!("skipped: {test}: memcached is not installed");
            return None;
        };
        let patience = Instant::now() + PATIENCE;
        let tcp = loop {
            match TcpStream::connect("127.0.0.1:11222") {
                Ok(tcp) => break tcp,
                Err(e) => assert!(Instant::now() < patience, "{e}"),
            }
        };
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.connect("127.0.0.1:11222").unwrap();
        udp.set_read_timeout(Some(PATIENCE)).unwrap();
        Some(Self { process, udp, tcp })
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

/// Values that count, and some that nearly do.
const COUNTS: [&str; 8] = [
    "0",
    "9",
    "10",
    "99",
    "100 ",
    "18446744073709551615",
    "1x",
    "x",
];

/// Lines that are no command, or hardly one.
const ODD: [&str; 12] = [
    "get",
    "wrong",
    "set a",
    "set a b 0 1",
    "delete",
    "delete a b",
    "get ",
    " get key1",
    "",
    "set key1 0 0 -1",
    "delete a noreply x",
    "get key1 ",
];

const STORAGE: [&str; 8] = [
    "set", "set", "set", "add", "replace", "append", "prepend", "cas",
];

fn one_of(random: &mut Random, all: &[&'static str]) -> &'static str {
    all[random.below(all.len())]
}

/// The beginning of a command that stores, and the value.
fn storage(random: &mut Random, key: &str) -> (String, String) {
    let flags = one_of(random, &["0", "7", "4294967295"]);
    let expires = ["0", "0", "0", "1000", "-1", "2000000000", "4000000000"];
    let expires = one_of(random, &expires);
    let len = [0, 1, 20, 100, 180, 1000, 1380][random.below(7)];
    let verb = one_of(random, &STORAGE);
    let unique = match verb {
        "cas" => format!(" {}", random.below(50)),
        _ => String::new(),
    };
    let letters = random.bytes(len).iter().map(|b| b'a' + b % 26).collect();
    let value = String::from_utf8(letters).unwrap();
    (
        format!("{verb} {key} {flags} {expires} {len}{unique}"),
        value,
    )
}

/// A command, and whether it has an answer.
fn command(random: &mut Random, over_tcp: bool) -> (Vec<u8>, bool) {
    let key = |random: &mut Random| match random.below(12) {
        0 => "k".repeat(250),
        1 => "k".repeat(251),
        n => format!("key{}", n % 5),
    };
    let end = one_of(random, &["\r\n", "\r\n", "\r\n", "\n"]);
    let (first, second) = (key(random), key(random));
    let silent = random.one_in(8);
    let noreply = if silent { " noreply" } else { "" };
    let text = match random.below(14) {
        0..4 => return (format!("get {first}{end}").into(), true),
        10 => match random.below(8) {
            0 => format!("flush_all{}{noreply}{end}", one_of(random, &["", " 0"])),
            1 => {
                return (
                    format!("flush_all{}{end}", one_of(random, &[" x", " 0 2"])).into(),
                    true,
                );
            }
            _ => return (format!("gets {first}{end}").into(), true),
        },
        11 => {
            let verb = one_of(random, &["incr", "decr"]);
            let by = one_of(
                random,
                &["0", "1", "7", "99", "18446744073709551615", "-1", "x"],
            );
            format!("{verb} {first} {by}{noreply}{end}")
        }
        12 => {
            let expires = one_of(random, &["0", "0", "1000", "-1", "x"]);
            format!("touch {first} {expires}{noreply}{end}")
        }
        13 if over_tcp => {
            let value = one_of(random, &COUNTS);
            let set = format!("set {first} 0 0 {}{end}{value}\r\n", value.len());
            return (set.into(), true);
        }
        // Over UDP memcached numbers the datagrams of each value from 0 on.
        4 if over_tcp => return (format!("get {first}  {second}{end}").into(), true),
        4 | 5 => return (format!("{}{end}", one_of(random, &ODD)).into(), true),
        6 => format!(
            "delete {first}{}{noreply}{end}",
            one_of(random, &["", " 0"])
        ),
        _ => {
            // A key that is too long makes the value a second command, and its answer a second datagram.
            let first = match over_tcp {
                true => first,
                false => first.replace(&"k".repeat(251), "k"),
            };
            let (storage, value) = storage(random, &first);
            format!("{storage}{noreply}{end}{value}\r\n")
        }
    };
    (text.into(), !silent)
}

#[test]
fn answers_over_udp_are_memcacheds() {
    let test = "answers_over_udp_are_memcacheds";
    let Some(mut wire) = Wire::new(test, 11211) else {
        return;
    };
    let _far_end = wire.pass_all();
    let Some(theirs) = wire.over_there(|| Theirs::start(test)) else {
        return;
    };
    let mut server = Server::new(&mut wire.exos).unwrap();
    assert_eq!(server.answer_in_kernel(&mut wire.exos), [""; 0]);
    wire.peer
        .set_read_timeout(Some(Duration::from_millis(1)))
        .unwrap();
    let frame = |number: u16, command: &[u8]| {
        [&number.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0], command].concat()
    };
    let mut random = Random(2312);
    for number in 0..3000 {
        let (command, has_answer) = command(&mut random, false);
        let sent = frame(number, &command);
        theirs.udp.send(&sent).unwrap();
        if !has_answer {
            wire.peer.send(&sent).unwrap();
            // What comes behind it has an answer, from the program.
            ask(&mut wire, &mut server, &frame(number, b"wrong\r\n"));
            continue;
        }
        let expected = whole(|| {
            let mut buffer = [0; 1500];
            let len = theirs.udp.recv(&mut buffer).unwrap();
            buffer[..len].to_vec()
        });
        let answer = ask(&mut wire, &mut server, &sent);
        assert_eq!(text(&answer), text(&expected), "{}", text(&command));
    }
    let counters = wire.exos.counters();
    let answered = counters
        .iter()
        .find(|(name, _)| name == "link_xdp_answered");
    assert!(answered.unwrap().1 > 20, "{answered:?}");
}

/// Connections of the kernel's TCP, each with some commands; what one of them has changed, the others see.
#[test]
fn connections_are_answered_in_the_kernel_as_by_memcached() {
    let test = "connections_are_answered_in_the_kernel_as_by_memcached";
    let Some(mut wire) = Wire::new(test, 11211) else {
        return;
    };
    let _far_end = wire.pass_all();
    let Some(mut theirs) = wire.over_there(|| Theirs::start(test)) else {
        return;
    };
    let mut server = Server::new(&mut wire.exos).unwrap();
    assert_eq!(server.answer_in_kernel(&mut wire.exos), [""; 0]);
    let mut random = Random(2314);
    let mut streams: Vec<_> = (0..4).map(|_| connect(&mut wire, &mut server)).collect();
    for _ in 0..2000 {
        let at = random.below(streams.len());
        if random.one_in(2) {
            streams[at] = connect(&mut wire, &mut server);
        }
        let (sent, end): (_, &[u8]) = if random.one_in(3) {
            // What has no answer is followed by what has one that it has not.
            let (command, _) = command(&mut random, true);
            let more = b"incr none 1\r\nget none\r\n";
            ([&command[..], more].concat(), b"NOT_FOUND\r\nEND\r\n")
        } else {
            (format!("get key{}\r\n", random.below(5)).into(), b"END\r\n")
        };
        theirs.tcp.write_all(&sent).unwrap();
        let mut expected = Vec::new();
        while !expected.ends_with(end) {
            let mut more = [0; 4096];
            let len = theirs.tcp.read(&mut more).unwrap();
            expected.extend(&more[..len]);
        }
        streams[at].write_all(&sent).unwrap();
        let answer = read(&mut wire, &mut server, &mut streams[at], expected.len());
        assert_eq!(text(&answer), text(&expected), "{}", text(&sent));
    }
    let hits = server.cache.connection_gets();
    assert!(hits > 50, "{hits}");
}

#[test]
fn answers_over_tcp_are_memcacheds() {
    let test = "answers_over_tcp_are_memcacheds";
    let Some(wire) = Wire::new(test, 11211) else {
        return;
    };
    let Some(mut theirs) = wire.over_there(|| Theirs::start(test)) else {
        return;
    };
    let (mut cache, mut session) = (Cache::new(1 << 30), Session::default());
    let mut random = Random(2313);
    let drawn = Vec::from_iter((0..3000).map(|_| command(&mut random, true).0));
    let odd = [
        "set n 0 0 2\r\n10\r\n",
        "incr n 1 junk\r\n",
        "decr n 1 junk\r\n",
        "incr n 1 junk more\r\n",
        "delete n 0 foo\r\n",
        "get n\r\n",
        "delete n 0 noreply\r\nget n\r\n",
    ];
    let odd = odd.map(|command| command.as_bytes().to_vec());
    for command in drawn.into_iter().chain(odd) {
        theirs.tcp.write_all(&command).unwrap();
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let (first, second) = command.split_at(random.below(command.len() + 1));
        let mut answer = session.handle(&mut cache, first, now).bytes;
        answer.extend(session.handle(&mut cache, second, now).bytes);
        let mut expected = vec![0; answer.len()];
        let read = theirs.tcp.read_exact(&mut expected);
        read.unwrap_or_else(|e| {
            panic!(
                "{e}: {}\nwe say {}\nnot {}",
                text(&command),
                text(&answer),
                text(&expected)
            )
        });
        assert_eq!(text(&answer), text(&expected), "{}", text(&command));
    }
    let last = b"get none\r\nquit\r\nget none\r\n";
    theirs.tcp.write_all(last).unwrap();
    let reply = session.handle(&mut cache, last, 0);
    assert!(reply.close);
    let mut more = vec![0; reply.bytes.len()];
    theirs.tcp.read_exact(&mut more).unwrap();
    assert_eq!(text(&more), text(&reply.bytes));
    // What was not read resets the connection.
    assert!(matches!(theirs.tcp.read(&mut [0; 1]), Ok(0) | Err(_)));
}
