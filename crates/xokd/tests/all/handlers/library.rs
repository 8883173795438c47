//! Programs of the library that download by the daemon: what it answers, what they answer themselves.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use exos::{Daemon, Exos, Place, Role};

use super::{Asker, PORT, lab_of, too_many_ways};
use crate::lab::*;

#[path = "../../../../exos/examples/remote_increment.rs"]
#[allow(dead_code)] // Its `main`.
mod remote_increment;

#[path = "../../../../exos/examples/memcached/main.rs"]
#[allow(dead_code)] // Its `main`.
mod memcached;

/// The library claims the port, and its stack gets what the handler gives up.
#[test]
fn a_program_of_the_librarys_downloads_by_the_daemon() {
    let Some((lab, _takes)) = lab_of("handler-library") else {
        return;
    };
    let mut exos = Exos::attach(Daemon {
        socket: lab.socket(),
        ..Daemon::new(Role::Connect(Vec::new()))
    })
    .expect("the daemon lends a link");
    let counters = remote_increment::download(&mut exos).expect("it is sound");
    let asker = Asker::new(&lab);
    for before in 0..10 {
        assert_eq!(asker.ask(7, 1), before);
    }
    assert_eq!(remote_increment::sum(&counters), 10);
    let own = exos.stack.udp.bind(None, PORT).expect("a free port");
    asker.0.send(b"short").expect("a neighbour");
    let heard = within(|| {
        exos.receive();
        let datagram = exos.stack.udp.receive(own).expect("ours");
        datagram.is_some_and(|datagram| datagram.payload == b"short")
    });
    assert!(heard, "what is given up comes to the socket");
    exos.remove_handler();
    asker.0.send(&[0; 12]).expect("a neighbour");
    let heard = within(|| {
        exos.receive();
        exos.stack.udp.receive(own).expect("ours").is_some()
    });
    assert!(heard, "nothing handles any more");
}

/// Of a cache: over UDP and on connections, to ports of the same number.
#[test]
fn datagrams_and_requests_are_answered_beside_each_other() {
    let Some((lab, _takes)) = lab_of("handlers-beside") else {
        return;
    };
    let mut exos = Exos::attach(Daemon {
        socket: lab.socket(),
        ..Daemon::new(Role::Serve(vec![memcached::PORT]))
    })
    .expect("the daemon lends a link");
    let mut server = memcached::Server::new(&mut exos).expect("free ports");
    let item = memcached::item::Item {
        flags: 0,
        expires: None,
        value: b"value".to_vec(),
    };
    server.cache.set(b"key", item).expect("room");
    let refused = server.answer_in_kernel(&mut exos);
    assert_eq!(refused, [""; 0], "a place for each");
    let mut turn = |exos: &mut Exos| {
        exos.receive();
        server.answer(exos).expect("it is the same as before");
        exos.send().expect("there is room");
        server.cache.connection_gets()
    };
    let answer = b"VALUE key 0 5\r\nvalue\r\nEND\r\n";
    // Where the program has no turn for long, a connection is its own.
    let mut by_connection = |exos: &mut Exos| {
        let before = turn(exos);
        within(|| {
            let client = lab.over_there(|| std::thread::spawn(get_by_connection));
            while !client.is_finished() {
                turn(exos);
            }
            assert_eq!(client.join().expect("it is answered"), answer);
            turn(exos) > before
        })
    };
    assert!(by_connection(&mut exos), "the program has answered");
    let asker = Asker::of(&lab, memcached::PORT);
    let question = b"\0\x01\0\0\0\x01\0\0get key\r\n";
    let mut got = [0; 64];
    asker.0.send(question).expect("a neighbour");
    let len = asker.0.recv(&mut got).expect("without the program");
    assert_eq!(got[8..len], *answer);

    exos.remove_handler_of(memcached::PORT)
        .expect("the daemon is there");
    assert!(by_connection(&mut exos), "requests are the kernel's still");
    asker.0.send(question).expect("a neighbour");
    asker.0.set_nonblocking(true).expect("a socket");
    assert!(asker.0.recv(&mut got).is_err(), "it waits for the program");
    let answered = within(|| {
        turn(&mut exos);
        asker.0.recv(&mut got).is_ok()
    });
    assert!(answered && got[8..len] == *answer);
}

/// What a connection is answered.
fn get_by_connection() -> Vec<u8> {
    let mut stream = TcpStream::connect((OURS, memcached::PORT)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    stream.write_all(b"get key\r\n").expect("it is open");
    let mut got = vec![0; b"VALUE key 0 5\r\nvalue\r\nEND\r\n".len()];
    stream.read_exact(&mut got).expect("an answer");
    got
}

/// Nobody could take out the handler that the kernel runs then.
#[test]
fn no_handler_runs_here_while_the_daemon_is_gone() {
    let Some((mut lab, _takes)) = lab_of("handler-gone") else {
        return;
    };
    let mut exos = Exos::attach(Daemon {
        socket: lab.socket(),
        ..Daemon::new(Role::Connect(Vec::new()))
    })
    .expect("the daemon lends a link");
    let counters = remote_increment::download(&mut exos).expect("it is sound");
    assert_eq!(counters.place(), Place::Kernel);
    let asker = Asker::new(&lab);
    assert_eq!(asker.ask(7, 1), 0);
    lab.kill();
    assert!(remote_increment::download(&mut exos).is_err());
    // However often it is asked, since the kernel has it still.
    for _ in 0..2 {
        assert!(exos.remove_handler_of(PORT).is_err());
    }
    assert_eq!(asker.ask(7, 1), 1);
    assert_eq!(remote_increment::sum(&counters), 2, "as before");
}

/// A message is answered by the program's turns, which are not needed once policy has the kernel do it.
#[test]
fn a_program_without_steps_runs_its_handler_itself() {
    let Some((mut lab, _takes)) = lab_of("handler-here") else {
        return;
    };
    lab.stop();
    let rule = |steps: u64| format!("[[allow]]\nuser = \"root\"\nhandler_steps = {steps}\n");
    lab.start_by(&rule(0));
    let mut exos = Exos::attach(Daemon {
        socket: lab.socket(),
        ..Daemon::new(Role::Connect(Vec::new()))
    })
    .expect("the daemon lends a link");
    let counters = remote_increment::download(&mut exos).expect("it is sound");
    assert_ne!(counters.place(), Place::Kernel);
    let why = counters.not_in_kernel().expect("policy").to_string();
    assert!(why.contains("handler_steps"), "{why}");
    let asker = Asker::new(&lab);
    // It waits in `peek` for no longer than a turn takes.
    let shortly = Some(Duration::from_millis(10));
    asker.0.set_read_timeout(shortly).expect("not zero");
    asker.0.send(&[0; 12]).expect("a neighbour");
    let answered = within(|| {
        exos.receive();
        exos.send().expect("there is room");
        asker.0.peek(&mut [0; 64]).is_ok()
    });
    assert!(answered);
    lab.reload(&rule(1_000_000));
    assert!(within(|| {
        let counters = remote_increment::download(&mut exos).expect("it is sound");
        counters.place() == Place::Kernel
    }));
    assert_eq!(asker.0.recv(&mut [0; 64]).expect("it waits"), 12);
    asker.0.set_read_timeout(Some(PATIENCE)).expect("not zero");
    assert_eq!(asker.ask(7, 1), 0);
}

/// What the kernel has no steps for, and all messages of a handler that its verifier does not follow, are answered by the program, on memory
/// that it has together with the kernel: each once.
#[test]
fn what_the_kernel_leaves_the_program_answers() {
    let Some((mut lab, _takes)) = lab_of("handler-rest") else {
        return;
    };
    lab.stop();
    lab.start_by("[[allow]]\nuser = \"root\"\nhandler_steps = 10000\n");
    let mut exos = Exos::attach(Daemon {
        socket: lab.socket(),
        ..Daemon::new(Role::Connect(Vec::new()))
    })
    .expect("the daemon lends a link");
    let counters = remote_increment::download(&mut exos).expect("it is sound");
    assert_eq!(counters.place(), Place::Kernel);
    let text = format!(
        "handler h {{ words w[1048576]; need 12; {} p = &w[x]; before = add(p, be64(4)); reply 12 {{ be64(4) = before; }} }}",
        too_many_ways()
    );
    let handler = exos::ash::parse(&text).expect("it is sound");
    let other = exos.download(handler, PORT + 1).expect("the port is free");
    assert_eq!(other.place(), Place::Compiled);
    let why = other.not_in_kernel().expect("the verifier").to_string();
    assert!(why.contains("too many ways"), "{why}");
    let asker = Asker::new(&lab);
    asker.0.set_nonblocking(true).expect("a socket");
    let answers = |exos: &mut Exos| {
        for _ in 0..50 {
            let message = [&7u32.to_be_bytes()[..], &1u64.to_be_bytes()].concat();
            asker.0.send(&message).expect("a neighbour");
        }
        let (mut came, mut answer) = (Vec::new(), [0; 64]);
        let all = within(|| {
            exos.receive();
            exos.send().expect("there is room");
            while asker.0.recv(&mut answer).is_ok() {
                came.push(answer[11]);
            }
            came.len() == 50
        });
        came.sort_unstable();
        assert!(all && came.iter().copied().eq(0..50), "{came:?}");
    };
    answers(&mut exos);
    assert_eq!(remote_increment::sum(&counters), 50);
    let by_us = |exos: &Exos| exos.stack.counters().handler_answered;
    let here = by_us(&exos);
    assert!((1..50).contains(&here), "some by the kernel, not {here}");
    asker.0.connect((OURS, PORT + 1)).expect("a route");
    answers(&mut exos);
    assert_eq!(by_us(&exos), here + 50);
}
