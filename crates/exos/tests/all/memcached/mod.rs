//! The cache in memcached's protocol: what the kernel answers of it, and what it bounds. As root.

mod theirs;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime};

use exos_ash::Layout;
use exos_ash::kernel::InKernel;
use exos_filter::handler::forward::WayOut;
use exos_host::bpf::{Map, MappedArray, Prog, permitted};
use exos_wire::Mac;

use crate::common::PATIENCE;
use crate::download::{OURS, Wire};

#[path = "../../../examples/memcached/main.rs"]
#[allow(dead_code)] // Its `main`.
mod server;
use server::answers::Shape;
use server::cache::{Cache, CacheFull};
use server::item::Item;
use server::protocol::Session;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// An answer of one datagram or several, in their order.
fn whole(mut receive: impl FnMut() -> Vec<u8>) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let datagram = receive();
        let [number, count] = [2, 4].map(|at| u16::from_be_bytes([datagram[at], datagram[at + 1]]));
        all.extend(datagram);
        if number + 1 >= count {
            return all;
        }
    }
}

/// The answer to a datagram, from kernel or program.
fn ask(wire: &mut Wire, server: &mut server::Server, frame: &[u8]) -> Vec<u8> {
    wire.peer.send(frame).unwrap();
    let patience = Instant::now() + PATIENCE;
    whole(|| {
        loop {
            let mut buffer = [0; 1500];
            if let Ok(len) = wire.peer.recv(&mut buffer) {
                return buffer[..len].to_vec();
            }
            assert!(Instant::now() < patience, "no answer to {}", text(frame));
            wire.exos.receive();
            server.answer(&mut wire.exos).unwrap();
            wire.exos.send().unwrap();
        }
    })
}

/// The wire's other end takes none of the kernel's answers.
#[test]
fn what_the_kernel_cannot_answer_the_program_does() {
    let Some(mut wire) = Wire::new("what_the_kernel_cannot_answer_the_program_does", 11211) else {
        return;
    };
    let mut server = server::Server::new(&mut wire.exos).unwrap();
    let refused = server.answer_in_kernel(&mut wire.exos);
    for (line, transport) in refused.iter().zip(["TCP", "UDP"]) {
        let is_told = line.contains(transport) && line.contains("neither GRO nor an XDP program");
        assert!(is_told, "{line}");
    }
    assert_eq!(refused.len(), 2, "{refused:?}");
    let mut stream = connect(&mut wire, &mut server);
    stream
        .write_all(b"set key 0 0 5\r\nvalue\r\nget key\r\n")
        .unwrap();
    let answer = b"VALUE key 0 5\r\nvalue\r\nEND\r\n";
    let expected = [b"STORED\r\n", &answer[..]].concat();
    let got = read(&mut wire, &mut server, &mut stream, expected.len());
    assert_eq!(text(&got), text(&expected));
    let soon = Some(Duration::from_millis(1));
    wire.peer.set_read_timeout(soon).unwrap();
    let got = ask(&mut wire, &mut server, b"\0\x01\0\0\0\x01\0\0get key\r\n");
    assert_eq!(text(&got[8..]), text(answer));
}

/// A connection of the kernel's at the other end.
fn connect(wire: &mut Wire, server: &mut server::Server) -> TcpStream {
    let connecting = wire.over_there(|| {
        std::thread::spawn(|| TcpStream::connect((OURS, 11211)).expect("the server listens"))
    });
    while !connecting.is_finished() {
        turn(wire, server);
    }
    let stream = connecting.join().unwrap();
    let soon = Some(Duration::from_millis(1));
    stream.set_read_timeout(soon).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn turn(wire: &mut Wire, server: &mut server::Server) {
    wire.exos.receive();
    server.answer(&mut wire.exos).unwrap();
    wire.exos.send().unwrap();
}

/// As many bytes as come until there are `len`.
fn read(
    wire: &mut Wire,
    server: &mut server::Server,
    stream: &mut TcpStream,
    len: usize,
) -> Vec<u8> {
    let (mut answer, patience) = (vec![0; len], Instant::now() + PATIENCE);
    let mut at = 0;
    while at < len {
        if let Ok(more) = stream.read(&mut answer[at..]) {
            assert!(more > 0, "it is closed behind {}", text(&answer[..at]));
            at += more;
            continue;
        }
        assert!(Instant::now() < patience, "{}", text(&answer[..at]));
        turn(wire, server);
    }
    answer
}

/// Nothing is to be waited for: the first of a new program's connections begins in the kernel, unless the machine lets the program wait.
#[test]
fn the_first_connection_is_answered_in_the_kernel() {
    for attempt in 0..5 {
        let Some(mut wire) = Wire::new(&format!("first_connection_{attempt}"), 11211) else {
            return;
        };
        let _far_end = wire.pass_all();
        let mut server = server::Server::new(&mut wire.exos).unwrap();
        let item = Item {
            flags: 0,
            expires: None,
            value: b"value".to_vec(),
        };
        server.cache.set(b"key", item).unwrap();
        let begun = Instant::now();
        assert_eq!(server.answer_in_kernel(&mut wire.exos), [""; 0]);
        let mut stream = connect(&mut wire, &mut server);
        let answer = b"VALUE key 0 5\r\nvalue\r\nEND\r\n";
        stream.write_all(b"get key\r\n").unwrap();
        let got = read(&mut wire, &mut server, &mut stream, answer.len());
        assert_eq!(text(&got), text(answer));
        if begun.elapsed() < Duration::from_secs(1) {
            // The kernel's answers are counted later.
            while server.cache.connection_gets() == 0 {
                assert!(begun.elapsed() < PATIENCE, "the program has answered");
                turn(&mut wire, &mut server);
            }
            return;
        }
    }
    eprintln!("SKIPPED: the first connection: each of five was made to wait for a second");
}

#[test]
fn a_full_cache_takes_no_more_and_forgets_what_was_replaced() {
    let mut cache = Cache::new(1000);
    let item = |len: usize| Item {
        flags: 0,
        expires: None,
        value: vec![b'v'; len],
    };
    cache.set(b"one", item(500)).unwrap();
    assert_eq!(cache.set(b"two", item(400)), Err(CacheFull));
    cache.set(b"two", item(200)).unwrap();
    assert_eq!(cache.set(b"one", item(800)), Err(CacheFull));
    assert_eq!(cache.get(b"one", 0), None);
    assert_eq!(cache.len(), 1);
    let expiring = Item {
        expires: Some(10),
        ..item(1)
    };
    cache.set(b"one", expiring).unwrap();
    assert!(cache.get(b"one", 9).is_some());
    assert!(cache.get(b"one", 10).is_none());
}

/// What is there goes when the time has come, and not before.
#[test]
fn all_items_go_at_a_time() {
    let (mut cache, mut session) = (Cache::new(1 << 20), Session::default());
    let mut says =
        |command: &str, now| text(&session.handle(&mut cache, command.as_bytes(), now).bytes);
    assert_eq!(
        says("set a 0 0 1\r\n1\r\nflush_all 10\r\n", 100),
        "STORED\r\nOK\r\n"
    );
    assert_eq!(says("incr a 1\r\n", 109), "2\r\n");
    assert_eq!(says("get a\r\n", 110), "END\r\n");
    assert_eq!(
        says("set a 0 0 1\r\n1\r\nget a\r\n", 110),
        "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n"
    );
}

/// The kernel is told of nothing that is about to go.
#[test]
fn what_goes_at_a_time_is_not_for_the_kernel() {
    let Some(mut wire) = Wire::new("what_goes_at_a_time_is_not_for_the_kernel", 11211) else {
        return;
    };
    let _far_end = wire.pass_all();
    let (mut cache, mut session) = (Cache::new(1 << 20), Session::default());
    session.handle(&mut cache, b"set a 0 0 1\r\n1\r\nflush_all 10\r\n", 100);
    let (answers, bytes) = (64, 256);
    let shape = Shape { answers, bytes };
    cache.download(&mut wire.exos, 11211, shape).unwrap();
    assert_eq!((cache.len(), cache.in_kernel()), (1, 0));
    // A time beyond 30 days is one since 1970, which is past.
    session.handle(&mut cache, b"flush_all 2592001\r\n", 2_592_002);
    let reply = session.handle(&mut cache, b"get a\r\n", 2_592_002);
    assert_eq!(text(&reply.bytes), "END\r\n");
}

/// Over UDP: two seconds before an item expires the kernel has it no more, and not until it has heard the time.
#[test]
fn what_expires_is_answered_in_the_kernel_until_shortly_before() {
    let Some(mut wire) = Wire::new("what_expires_is_answered_in_the_kernel", 11211) else {
        return;
    };
    let _far_end = wire.pass_all();
    let (mut cache, mut session) = (Cache::new(1 << 20), Session::default());
    let (answers, bytes) = (64, 128);
    let shape = Shape { answers, bytes };
    let mut says = |cache: &mut Cache, command: &str, now| {
        text(&session.handle(cache, command.as_bytes(), now).bytes)
    };
    let value = "VALUE a 0 1\r\n1\r\nEND\r\n";
    says(&mut cache, "set a 0 100 1\r\n1\r\n", 1000);
    cache.download(&mut wire.exos, 11211, shape).unwrap();
    assert_eq!(says(&mut cache, "get a\r\n", 1000), value);
    assert_eq!(cache.in_kernel(), 0, "nobody says the time");
    cache.tell_kernel(&mut wire.exos, 1000);
    for (now, in_kernel) in [
        (1000, 1),
        (1097, 1),
        (1098, 0),
        (1099, 0),
        (1050, 1),
        (1098, 0),
    ] {
        cache.tell_kernel(&mut wire.exos, now);
        assert_eq!(says(&mut cache, "get a\r\n", now), value);
        assert_eq!(cache.in_kernel(), in_kernel, "at {now}");
    }
    // It is to last longer, shorter, for ever.
    for (command, in_kernel) in [("touch a 100", 1), ("touch a 2", 0), ("touch a 0", 1)] {
        says(&mut cache, &format!("{command}\r\n"), 1098);
        assert_eq!(says(&mut cache, "get a\r\n", 1098), value);
        assert_eq!(cache.in_kernel(), in_kernel, "{command}");
    }
    says(&mut cache, "set a 0 3 1\r\n1\r\n", 1098);
    assert_eq!(cache.in_kernel(), 1);
    cache.tell_kernel(&mut wire.exos, 1099);
    assert_eq!(cache.in_kernel(), 0);
    assert_eq!(says(&mut cache, "get a\r\n", 1101), "END\r\n");
}

/// Over TCP, too.
#[test]
fn what_expires_is_answered_on_connections_until_shortly_before() {
    let Some(mut wire) = Wire::new("what_expires_on_connections", 11211) else {
        return;
    };
    let _far_end = wire.pass_all();
    let mut server = server::Server::new(&mut wire.exos).unwrap();
    assert_eq!(server.answer_in_kernel(&mut wire.exos), [""; 0]);
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let end = now + 10_000;
    let item = Item {
        flags: 0,
        expires: Some(end),
        value: b"1".to_vec(),
    };
    server.cache.set(b"a", item).unwrap();
    let value = "VALUE a 0 1\r\n1\r\nEND\r\n";
    // Before a turn of the server's, which says the time as it is.
    let mut is_answered = |time| {
        let mut stream = connect(&mut wire, &mut server);
        server.cache.tell_kernel(&mut wire.exos, time);
        stream.write_all(b"get a\r\n").unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let mut answer = [0; 100];
        let is_answered = stream.read(&mut answer).is_ok();
        if !is_answered {
            let answer = read(&mut wire, &mut server, &mut stream, value.len());
            assert_eq!(text(&answer), value, "by the program");
        }
        is_answered
    };
    let becomes_answered = |is_answered: &mut dyn FnMut(u64) -> bool, time| {
        let patience = Instant::now() + PATIENCE;
        while !is_answered(time) {
            assert!(Instant::now() < patience, "not in the kernel at {time}");
        }
    };
    becomes_answered(&mut is_answered, now);
    becomes_answered(&mut is_answered, end - 3);
    assert!(!is_answered(end - 2) && !is_answered(end - 1));
    becomes_answered(&mut is_answered, now);
}

/// What is asked in few words fills no memory.
#[test]
fn answers_are_bounded() {
    let (mut cache, mut session) = (Cache::new(1 << 30), Session::default());
    let item = Item {
        flags: 0,
        expires: None,
        value: vec![b'v'; 1 << 20],
    };
    cache.set(b"k", item).unwrap();
    let most = 5 << 20;
    let all_at_once = format!("get{}\r\n", " k".repeat(700));
    let datagram = [&[0, 1, 0, 0, 0, 1, 0, 0][..], all_at_once.as_bytes()].concat();
    let answered = cache.handle_datagram(&datagram, 0);
    assert_eq!(answered.len(), 1, "an error");
    let datagram = [&[0, 1, 0, 0, 0, 1, 0, 0][..], &b"get k\r\n".repeat(100)].concat();
    let answered = cache.handle_datagram(&datagram, 0);
    assert!(answered.iter().map(Vec::len).sum::<usize>() < most);
    let mut reply = session.handle(&mut cache, &b"get k\r\n".repeat(100), 0);
    let mut answers = 0;
    loop {
        assert!(reply.bytes.len() < most);
        answers += reply
            .bytes
            .windows(5)
            .filter(|end| end == b"END\r\n")
            .count();
        if !reply.more {
            break;
        }
        reply = session.handle(&mut cache, &[], 0);
    }
    assert_eq!(answers, 100, "each once");
}

#[test]
fn a_session_that_is_closed_keeps_nothing() {
    let (mut cache, mut session) = (Cache::new(1 << 20), Session::default());
    assert!(
        session.handle(&mut cache, &[b'x'; 10_000], 0).close,
        "no line"
    );
    for _ in 0..100 {
        let reply = session.handle(&mut cache, b"set a 0 0 1\r\n1\r\n", 0);
        assert!(reply.close && reply.bytes.is_empty());
    }
    assert_eq!(cache.len(), 0);
    assert!(format!("{session:?}").len() < 200);
}

#[test]
fn what_fits_no_row_takes_no_other_from_the_kernel() {
    let Some(mut wire) = Wire::new("what_fits_no_row_takes_no_other_from_the_kernel", 11211) else {
        return;
    };
    let _far_end = wire.pass_all();
    let mut cache = Cache::new(1 << 20);
    let (answers, bytes) = (64, 256);
    let shape = Shape { answers, bytes };
    cache.download(&mut wire.exos, 11211, shape).unwrap();
    let item = |len: usize| Item {
        flags: 0,
        expires: None,
        value: vec![b'v'; len],
    };
    for number in 0..answers {
        cache
            .set(format!("key{number}").as_bytes(), item(20))
            .unwrap();
    }
    let full = cache.in_kernel();
    assert_eq!(full, answers as usize);
    cache.set(b"long", item(300)).unwrap();
    assert!(cache.get(b"long", 0).is_some());
    assert_eq!(cache.in_kernel(), full);
}

/// For both versions of IP, with sums that are still to be made, as on a veth by the daemon.
#[test]
fn a_gate_takes_the_handler() {
    if let Err(error) = permitted() {
        eprintln!("skipped: a_gate_takes_the_handler: {error}");
        return;
    }
    let shape = Shape {
        answers: 4096,
        bytes: 1392,
    };
    let handler = server::answers::handler(shape).unwrap();
    let bytes = Layout::of(handler.handler()).bytes() as usize;
    let memory = MappedArray::new("memcached", bytes, 1).unwrap();
    let outcomes = Map::prog_array(4).unwrap();
    let in_kernel = InKernel {
        handler: &handler,
        memory_fd: memory.raw_fd(),
        mac: Mac([2, 0, 0, 0, 0, 1]),
        addresses: Vec::new(),
        not_from: Vec::new(),
        port: 11211,
        may_be_partial: true,
        way_out: WayOut::Redirect(1),
    };
    let program = in_kernel.in_gate(outcomes.raw_fd());
    if let Err(error) = Prog::load(&program.words(), "memcached", true) {
        panic!("{error}");
    }
}
