//! One wait for many: sockets, descriptors of the kernel's, timers, ends of child processes, words of memory.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use exos::net::{Events, Interest, Poll, TcpListener, TcpStream, Token, Trigger, UdpSocket};
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::futex;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::{attach, ours};
use crate::common::PATIENCE;

const SOCKET: Token = Token(0);
const COUNTER: Token = Token(1);
const TIMER: Token = Token(2);
const CHILD: Token = Token(3);
const WORD: Token = Token(4);

/// A socket, a counter, a timer, a child and a word in one set: each is told once it is ready, and by its trigger.
#[test]
fn each_kind_is_told_in_one_wait() {
    let Some((net, host)) = attach("each_kind_is_told_in_one_wait") else {
        return;
    };
    let poll = Poll::new(&net).unwrap();
    let mut events = Events::default();
    let socket = UdpSocket::bind(&net, "0.0.0.0:0").unwrap();
    poll.register(&socket, SOCKET, Interest::READABLE, Trigger::Edge)
        .unwrap();
    let counter = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    poll.register_fd(counter.as_fd(), COUNTER, Interest::READABLE, Trigger::Edge)
        .unwrap();
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK).unwrap();
    poll.register_fd(timer.as_fd(), TIMER, Interest::READABLE, Trigger::OneShot)
        .unwrap();
    let mut child = Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let end = poll.register_child(&child, CHILD).unwrap();
    let word = Arc::new(AtomicU32::new(7));
    let mut change = poll.register_word(&word, 7, WORD).unwrap();
    poll.wait(&mut events, Some(Duration::from_millis(1)))
        .unwrap();
    assert!(events.is_empty(), "nothing is ready");

    // All at once, from elsewhere.
    let soon = Itimerspec {
        it_interval: Timespec::default(),
        it_value: Timespec {
            tv_sec: 0,
            tv_nsec: 1,
        },
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &soon).unwrap();
    rustix::io::write(&counter, &1_u64.to_ne_bytes()).unwrap();
    drop(child.stdin.take());
    let at = SocketAddr::new(ours(&net), socket.local_addr().unwrap().port());
    let peer = std::net::UdpSocket::bind((host, 0)).unwrap();
    peer.send_to(b"hello", at).unwrap();
    let others = Arc::clone(&word);
    let changing = thread::spawn(move || {
        others.store(8, Ordering::Release);
        futex::wake(&others, futex::Flags::empty(), 1).unwrap();
    });
    let mut told = BTreeSet::new();
    while told.len() < 5 {
        poll.wait(&mut events, Some(PATIENCE)).unwrap();
        assert!(!events.is_empty(), "only {told:?} are told");
        told.extend(events.iter().map(|event| event.token));
    }
    changing.join().unwrap();

    // What is told by its state is told again, the others are not.
    poll.wait(&mut events, Some(PATIENCE)).unwrap();
    let still: BTreeSet<_> = events.iter().map(|event| event.token).collect();
    assert_eq!(still, BTreeSet::from([CHILD, WORD]));
    assert!(child.wait().unwrap().success());
    drop(end);
    change.again(&word, 8).unwrap();
    poll.wait(&mut events, Some(Duration::from_millis(1)))
        .unwrap();
    assert!(events.is_empty(), "the word is 8 still");
    // One that is another by now is told at once.
    word.store(9, Ordering::Release);
    futex::wake(&word, futex::Flags::empty(), 1).unwrap();
    change.again(&word, 8).unwrap();
    for _ in 0..2 {
        poll.wait(&mut events, Some(PATIENCE)).unwrap();
        let told: Vec<_> = events.iter().map(|event| event.token).collect();
        assert_eq!(told, [WORD]);
        change.again(&word, 8).unwrap();
    }
    drop(change);
    poll.wait(&mut events, Some(Duration::from_millis(1)))
        .unwrap();
    assert!(events.is_empty(), "it is waited for no more");
}

/// Connections of the kernel's that send in turns, and take back what each has sent.
fn hear_echoes(at: SocketAddr, count: usize) {
    let sockets: Vec<_> = (0..count)
        .map(|_| std::net::TcpStream::connect_timeout(&at, PATIENCE).unwrap())
        .collect();
    for round in 0..3_u8 {
        for (i, mut socket) in sockets.iter().enumerate() {
            socket.write_all(&[round, i as u8]).unwrap();
        }
        for (i, mut socket) in sockets.iter().enumerate() {
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut back = [0; 2];
            socket.read_exact(&mut back).unwrap();
            assert_eq!(back, [round, i as u8]);
        }
    }
}

#[test]
fn many_are_waited_for_together() {
    let Some((net, _)) = attach("many_are_waited_for_together") else {
        return;
    };
    const CLIENTS: usize = 50;
    let listener = TcpListener::bind(&net, "[::]:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let at = SocketAddr::new(ours(&net), listener.local_addr().unwrap().port());
    let (kernel, mut told) = std::os::unix::net::UnixStream::pair().unwrap();
    let clients = thread::spawn(move || {
        hear_echoes(at, CLIENTS);
        told.write_all(b"end").unwrap();
    });
    let poll = Poll::new(&net).unwrap();
    let (kernel_token, listener_token) = (Token(usize::MAX), Token(usize::MAX - 1));
    let fd = kernel.as_fd();
    poll.register_fd(fd, kernel_token, Interest::READABLE, Trigger::Level)
        .unwrap();
    poll.register(
        &listener,
        listener_token,
        Interest::READABLE,
        Trigger::Level,
    )
    .unwrap();
    let twice = poll.register(
        &listener,
        listener_token,
        Interest::READABLE,
        Trigger::Level,
    );
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::AlreadyExists);
    let mut streams: Vec<TcpStream> = Vec::new();
    let mut events = Events::default();
    'all: loop {
        poll.wait(&mut events, Some(PATIENCE)).unwrap();
        assert!(!events.is_empty(), "the clients have stopped");
        for event in events.iter() {
            if event.token == kernel_token {
                break 'all;
            }
            if event.token == listener_token {
                let (stream, _) = listener.accept().unwrap();
                stream.set_nonblocking(true).unwrap();
                let trigger = [Trigger::Level, Trigger::Edge][streams.len() % 2];
                poll.register(&stream, Token(streams.len()), Interest::READABLE, trigger)
                    .unwrap();
                streams.push(stream);
                continue;
            }
            let mut stream = &streams[event.token.0];
            let mut bytes = [0; 100];
            match stream.read(&mut bytes) {
                Ok(count) => assert_eq!(stream.write(&bytes[..count]).unwrap(), count),
                Err(error) => panic!("an event without bytes: {error}"),
            }
        }
    }
    assert_eq!(streams.len(), CLIENTS);
    clients.join().unwrap();
}
