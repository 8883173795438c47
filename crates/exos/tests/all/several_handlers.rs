//! Handlers of several ports of one program, in the kernel and in the program; what the kernel leaves to the program's; and messages of TCP
//! connections. From the kernel's sockets at the other end of a wire, as root, in namespaces of each test's own.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::time::Instant;

use exos::Place;
use exos::ash::parse;
use exos::inet::limits::{HANDLED_BYTES_MAX, HANDLED_REPLY_BYTES_MAX};

use crate::common::PATIENCE;
use crate::download::{OURS, Wire, too_many_ways};

#[path = "../../examples/calls.rs"]
#[allow(dead_code)] // Its `main`.
mod calls;

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
    // Only the one that was in the program for a while has answered there.
    assert_eq!(wire.counted("handler_answered"), 1);
    assert_eq!(wire.counted("link_xdp_answered"), 8);
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
    assert_eq!(wire.counted("handler_answered"), 10);
    assert_eq!(wire.counted("link_xdp_answered"), 0);
    let own = wire.exos.stack.udp.bind(None, PORTS[0]).unwrap();
    peer[0].send(b"up!").unwrap();
    assert_eq!(wire.heard(own, 1), [b"up!"]);
    assert_eq!(wire.counted("handler_gave_up"), 1);
}

/// A call of the example's: its length, its number, what is called, and a number.
fn call(number: u32, what: u8, with: u64) -> Vec<u8> {
    let mut call = vec![0, 13];
    call.extend(number.to_be_bytes());
    call.push(what);
    call.extend(with.to_be_bytes());
    call
}

/// Messages of a connection in segments of any length: those of one kind are answered before the program hears of them, and what it
/// is to answer itself is answered in its place.
#[test]
fn messages_of_connections_are_dealt_with_in_order() {
    let test = "messages_of_connections_are_dealt_with_in_order";
    let Some(mut wire) = Wire::new(test, PORTS[0]) else {
        return;
    };
    let calls = calls::listen(&mut wire.exos).unwrap();
    assert_eq!(calls.place(), Place::Compiled);
    let said = calls.not_in_kernel().unwrap().to_string();
    assert!(said.contains("connections are the stack's"), "{said}");
    // The third and the sixth are other calls. What the session has numbered is what the handler has dealt with.
    let what = |n: u32| if n % 3 == 2 { 2 } else { 1 };
    let sent = (0..8).map(|n| call(n - n / 3, what(n), 5));
    let all: Vec<_> = sent.flatten().collect();
    let client = wire.over_there(|| {
        std::thread::spawn(move || {
            let mut stream = TcpStream::connect((OURS, PORTS[0])).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            for part in all.chunks(11) {
                stream.write_all(part).unwrap();
            }
            let mut answers = vec![0; all.len()];
            stream.read_exact(&mut answers).unwrap();
            answers
        })
    });
    let mut answered_here = 0;
    let patience = Instant::now() + PATIENCE;
    while !client.is_finished() && Instant::now() < patience {
        answered_here += calls::turn(&mut wire.exos).unwrap();
    }
    assert_eq!(answered_here, 2);
    let mut before = 0;
    let expected = (0..8).flat_map(|n| match what(n) {
        1 => {
            before += 5;
            call(n - n / 3, 0x81, before - 5)
        }
        _ => call(n - n / 3, 0xff, 5),
    });
    let expected: Vec<_> = expected.collect();
    assert_eq!(client.join().unwrap(), expected);
    let sum = calls.memory().words("sum").unwrap();
    assert_eq!(sum[0].load(std::sync::atomic::Ordering::Relaxed), 30);
}

/// Calls that the program answers itself, from a peer that reads nothing until it is told to: no more answers wait than the handler would
/// leave, and in the end all are there.
#[test]
fn a_peer_that_takes_no_answers_does_not_fill_memory() {
    let test = "a_peer_that_takes_no_answers_does_not_fill_memory";
    let Some(mut wire) = Wire::new(test, PORTS[0]) else {
        return;
    };
    let _calls = calls::listen(&mut wire.exos).unwrap();
    let mut one = call(0, 2, 5);
    one.resize(1400, 7);
    one[..2].copy_from_slice(&1398u16.to_be_bytes());
    let all = one.repeat(2000);
    let (read_now, may_read) = std::sync::mpsc::channel();
    let client = wire.over_there(|| {
        std::thread::spawn(move || {
            let mut stream = TcpStream::connect((OURS, PORTS[0])).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let (mut sending, mut answers) = (stream.try_clone().unwrap(), vec![0; all.len()]);
            let sender = std::thread::spawn(move || sending.write_all(&all));
            may_read.recv().unwrap();
            stream.read_exact(&mut answers).unwrap();
            sender.join().unwrap().unwrap();
            answers
        })
    });
    let patience = Instant::now() + PATIENCE;
    let mut turns_left = 300;
    while turns_left > 0 {
        calls::turn(&mut wire.exos).unwrap();
        let tcp = &wire.exos.stack.tcp;
        let all = tcp.connections_where(|_| true);
        let waits = |id: &_| tcp.connection(*id).unwrap().unacknowledged();
        let waiting = all.iter().map(waits).sum::<usize>();
        let most = HANDLED_REPLY_BYTES_MAX + HANDLED_BYTES_MAX;
        assert!(waiting <= most, "{waiting}");
        turns_left -= u32::from(waiting > HANDLED_REPLY_BYTES_MAX);
        assert!(Instant::now() < patience, "{waiting}");
    }
    read_now.send(()).unwrap();
    while !client.is_finished() && Instant::now() < patience {
        calls::turn(&mut wire.exos).unwrap();
    }
    one[6] = 0xff;
    assert!(client.join().unwrap() == one.repeat(2000));
}
