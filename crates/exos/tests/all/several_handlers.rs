//! Handlers of several ports of one program, in the kernel and in the program; what the kernel leaves to the program's; and messages of TCP
//! connections. From the kernel's sockets at the other end of a wire, as root, in namespaces of each test's own.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::time::Instant;

use exos::ash::parse;
use exos::inet::Framing;
use exos::inet::tcp::{EventSet, ListenOptions};
use exos::{Buffer, Place};

use crate::common::PATIENCE;
use crate::download::{OURS, Wire, too_many_ways};

const PORTS: [u16; 3] = [4000, 4001, 4002];

/// Answers with one byte.
fn answering(with: u8, ways: &str) -> exos::ash::Checked {
    let text = format!(
        "handler h {{ words w[1048576]; need 20; {ways} p = &w[x]; add(p, 1); reply 1 {{ u8(0) = {with}; }} }}"
    );
    parse(&text).unwrap()
}

/// What each of these is answered, while the program takes turns.
fn answers(wire: &mut Wire, peers: &[UdpSocket]) -> Vec<Option<u8>> {
    let mut answer = |peer: &UdpSocket| {
        peer.send(&[0; 20]).unwrap();
        let patience = Instant::now() + PATIENCE;
        let mut answer = [0];
        while Instant::now() < patience {
            wire.turn();
            if peer.recv(&mut answer).is_ok() {
                return Some(answer[0]);
            }
        }
        None
    };
    peers.iter().map(&mut answer).collect()
}

fn counted(wire: &Wire, name: &str) -> u64 {
    let counters = wire.exos.counters();
    let found = counters.iter().find(|(known, _)| known == name);
    found.map_or(0, |(_, count)| *count)
}

#[test]
fn each_port_has_a_handler_of_its_own() {
    let Some(mut wire) = Wire::new("each_port_has_a_handler_of_its_own", PORTS[0]) else {
        return;
    };
    let _far_end = wire.pass_all();
    let peers = wire.over_there(|| {
        PORTS.map(|port| {
            let peer = UdpSocket::bind("0.0.0.0:0").unwrap();
            peer.connect((OURS, port)).unwrap();
            peer.set_nonblocking(true).unwrap();
            peer
        })
    });
    let mut memories = Vec::new();
    for (number, port) in PORTS.into_iter().enumerate() {
        let handler = answering(number as u8, "x = 5;");
        let downloaded = wire.exos.download(handler, port).unwrap();
        assert_eq!(downloaded.place(), Place::Kernel);
        memories.push(downloaded);
    }
    assert_eq!(answers(&mut wire, &peers), [Some(0), Some(1), Some(2)]);
    // One of them in the program, and again in the kernel.
    for (with, ways, place) in [
        (7, too_many_ways(), Place::Compiled),
        (8, "x = 5;".into(), Place::Kernel),
    ] {
        let other = wire.exos.download(answering(with, &ways), PORTS[1]);
        assert_eq!(other.unwrap().place(), place);
        assert_eq!(answers(&mut wire, &peers), [Some(0), Some(with), Some(2)]);
    }
    wire.exos.remove_handler_of(PORTS[1]).unwrap();
    let own = wire.exos.stack.udp.bind(None, PORTS[1]).unwrap();
    peers[1].send(&[3; 20]).unwrap();
    assert_eq!(wire.heard(own, 1), [[3; 20]]);
    let others = [0, 2].map(|at| peers[at].try_clone().unwrap());
    assert_eq!(answers(&mut wire, &others), [Some(0), Some(2)]);
    // Each on the memory that it has had all the time.
    for (at, at_least) in [(0, 4), (2, 4)] {
        let words = memories[at].memory().words("w").unwrap();
        let runs = words[5].load(std::sync::atomic::Ordering::Relaxed);
        assert!(runs >= at_least, "{runs}");
    }
}

/// On a veth the kernel has no room for long answers to short messages.
#[test]
fn what_the_kernel_has_no_room_for_the_program_answers() {
    let test = "what_the_kernel_has_no_room_for_the_program_answers";
    let Some(mut wire) = Wire::new(test, PORTS[0]) else {
        return;
    };
    let _far_end = wire.pass_all();
    let text = "handler h { words w[1]; if length == 3 { give up; } p = &w[0]; was = add(p, 1); reply 1000 { u8(0) = was; } }";
    let downloaded = wire.exos.download(parse(text).unwrap(), PORTS[0]).unwrap();
    assert_eq!(downloaded.place(), Place::Kernel);
    let peer = [wire.peer.try_clone().unwrap()];
    peer[0].set_nonblocking(true).unwrap();
    for expected in 0..10 {
        assert_eq!(answers(&mut wire, &peer), [Some(expected)]);
    }
    assert_eq!(counted(&wire, "handler_answered"), 10);
    assert_eq!(counted(&wire, "link_xdp_answered"), 0);
    let own = wire.exos.stack.udp.bind(None, PORTS[0]).unwrap();
    peer[0].send(b"up!").unwrap();
    assert_eq!(wire.heard(own, 1), [b"up!"]);
    assert_eq!(counted(&wire, "handler_gave_up"), 1);
}

/// Of `CALLS`, whose layers have their headers behind the length.
fn call(sequence: u32, method: u8, by: u64) -> Vec<u8> {
    let mut call = vec![0, 16, 1, method];
    call.extend(sequence.to_be_bytes());
    call.extend(&[0, 0]);
    call.extend(by.to_be_bytes());
    call
}

const CALLS: &str = "handler calls {
    layer session 8 {
        words sequence[1];

        expected = &sequence[0];
        if be32(4) != *expected { give up; }
        commit { add(expected, 1); }
        reply { u8(2) = 0x81; }
    }
    words counters[1];

    if u8(0 - 5) != 1 { give up; }
    need 10;
    counter = &counters[0];
    before = add(counter, be64(2));
    reply length { be64(2) = before; }
}";

/// Messages of a connection in segments of any length: those of one method are answered before the program hears of them, and what it
/// is to answer itself is answered in its place.
#[test]
fn messages_of_connections_are_dealt_with_in_order() {
    let test = "messages_of_connections_are_dealt_with_in_order";
    let Some(mut wire) = Wire::new(test, PORTS[0]) else {
        return;
    };
    let options = ListenOptions::default();
    wire.exos.stack.tcp.listen(None, PORTS[0], options).unwrap();
    let framing = Framing::Length {
        at: 0,
        bytes: 2,
        more: 2,
    };
    let handler = parse(CALLS).unwrap();
    let calls = wire
        .exos
        .download_for_streams(handler, PORTS[0], framing)
        .unwrap();
    assert_eq!(calls.place(), Place::Compiled);
    let said = calls.not_in_kernel().unwrap().to_string();
    assert!(said.contains("connections are the stack's"), "{said}");
    // The third and the sixth are of the other method.
    let sent: Vec<_> = (0..8)
        .map(|n| call(n - n / 3, if n % 3 == 2 { 2 } else { 1 }, 5))
        .collect();
    let client = wire.over_there(|| {
        std::thread::spawn(move || {
            let mut stream = TcpStream::connect((OURS, PORTS[0])).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let all = sent.concat();
            for part in all.chunks(11) {
                stream.write_all(part).unwrap();
            }
            let mut answers = vec![0; 6 * 18 + 2 * 4];
            stream.read_exact(&mut answers).unwrap();
            answers
        })
    });
    let mut answered_here = 0;
    let patience = Instant::now() + PATIENCE;
    while !client.is_finished() && Instant::now() < patience {
        wire.turn();
        while let Some(event) = wire.exos.stack.poll_event() {
            if event.set.contains(EventSet::READABLE) {
                answered_here += answer_here(&mut wire.exos.stack, event.connection);
            }
        }
    }
    assert_eq!(answered_here, 2);
    let answers = client.join().unwrap();
    let (mut at, mut before) = (0, 0);
    for n in 0..8 {
        if n % 3 == 2 {
            assert_eq!(&answers[at..at + 4], b"here");
            at += 4;
            continue;
        }
        let mut expected = call(n - n / 3, 1, before);
        expected[2] = 0x81;
        assert_eq!(answers[at..at + 18], expected);
        (at, before) = (at + 18, before + 5);
    }
    let counters = calls.memory().words("counters").unwrap();
    let sum = counters[0].load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(sum, 30);
}

/// The program answers what its handler gave up, until that deals with messages again. Gives how many those were.
fn answer_here(stack: &mut exos::Stack, id: exos::inet::tcp::ConnectionId) -> u32 {
    let mut answered = 0;
    loop {
        assert_eq!(stack.tcp.readable(id)[3], 2, "of the other method");
        stack.tcp.consume(id, 18);
        stack.tcp.send(id, Buffer::from(b"here".to_vec()).whole());
        answered += 1;
        if !stack.resume_handling(id) {
            return answered;
        }
    }
}
