//! A program on two cores, over a veth of two queues, with the kernel's TCP at the other end. As root; in a namespace of
//! the tests' own.

use crate::echo;

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use exos::net::{self, Net};
use exos::{Addresses, ErrorKind, Exos, Interface, OwnPair, Queues};
use exos_host::netns::NetNs;
use exos_inet::tcp::{EventSet, ListenOptions, Options};

const CONNECTIONS: usize = 100;

/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends back what comes, until told to stop; returns its counters.
fn serve(mut exos: Exos, stop: &AtomicBool) -> Vec<(String, u64)> {
    let options = ListenOptions::default();
    exos.stack.tcp.listen(None, 80, options).unwrap();
    while !stop.load(Ordering::Relaxed) {
        echo::turn(&mut exos);
    }
    exos.counters()
}

fn counter(counters: &[(String, u64)], name: &str) -> u64 {
    let found = counters.iter().find(|(n, _)| n == name);
    found.expect("every stack has it").1
}

/// Nothing was reset. What acknowledges the end that a core has sent again, for want of a turn of the other's, may find the connection gone.
fn nothing_was_reset(counters: &[Vec<(String, u64)>; 2]) {
    let sum = |name| counters.iter().map(|all| counter(all, name)).sum::<u64>();
    let (resets, again) = (sum("tcp_resets_sent"), sum("tcp_segments_retransmitted"));
    assert!(resets <= again, "{resets}, {again} segments sent again");
}

/// One after the other, half of them over IPv6: each sends some and gets it back.
fn visit(addresses: [SocketAddr; 2]) {
    for n in 0..CONNECTIONS {
        let sent: Vec<u8> = (0..20_000).map(|i| (i * (n + 1)) as u8).collect();
        let mut socket = TcpStream::connect_timeout(&addresses[n % 2], PATIENCE).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(&sent).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let mut back = Vec::new();
        socket.read_to_end(&mut back).unwrap();
        assert!(back == sent, "{} bytes came back", back.len());
    }
}

/// An interface pair with a queue for each of two cores, in a namespace that the calling thread is in; none without root.
fn two_cores(test: &str) -> Option<Exos> {
    let here = NetNs::anonymous().and_then(|here| here.enter().map(|()| here));
    if !rustix::process::geteuid().is_root() || here.is_err() {
        eprintln!("SKIPPED: {test} needs root");
        return None;
    }
    Some(Exos::attach(OwnPair::new().with_cores(2)).unwrap())
}

#[test]
fn both_cores_accept_and_nobody_outside_sees_that_they_are_two() {
    let test = "both_cores_accept_and_nobody_outside_sees_that_they_are_two";
    let Some(mut first) = two_cores(test) else {
        return;
    };
    let addresses = first.pair().unwrap().addresses;
    let addresses = addresses.map(|ours| SocketAddr::new(ours.ip, 80));
    let second = first.take_cores().pop().unwrap();
    assert!(first.take_cores().is_empty());
    let stop = AtomicBool::new(false);
    let counters = thread::scope(|scope| {
        let second = scope.spawn(|| serve(second.start().unwrap(), &stop));
        // The first stays where it was made; the visitor is the one that moves.
        let visitor = scope.spawn(|| {
            visit(addresses);
            stop.store(true, Ordering::Relaxed);
        });
        let first = serve(first, &stop);
        visitor.join().unwrap();
        [first, second.join().unwrap()]
    });
    let of = |name| counters.each_ref().map(|all| counter(all, name));
    let accepted = of("tcp_accepted");
    assert_eq!(accepted.iter().sum::<u64>(), CONNECTIONS as u64);
    assert!(accepted.iter().all(|n| *n > 10), "{accepted:?}");
    nothing_was_reset(&counters);
    assert_eq!(of("cores_frames_lost"), [0, 0]);
    // Every frame to us went to a core, and what the first sent of them to the other is less than it kept.
    let handed_on: u64 = of("cores_frames_handed_on").iter().sum();
    let received: u64 = of("frames_received").iter().sum();
    assert!(handed_on * 4 < received, "{handed_on} of {received}");
}

/// Opens connections, half of them over IPv6, says something on each, and gets it back; goes on until all cores have got
/// everything back, for what comes to one of them may be the other's.
fn connect(mut exos: Exos, to: [SocketAddr; 2], done: &AtomicUsize) -> Vec<(String, u64)> {
    let options = Options::default();
    for n in 0..CONNECTIONS {
        let now = exos.now();
        let opened = exos.stack.tcp.connect(now, None, to[n % 2], &options);
        opened.expect("there are ports");
    }
    let mut open = CONNECTIONS;
    let patience = exos.now() + PATIENCE;
    while done.load(Ordering::Relaxed) < 2 && exos.now() < patience {
        exos.receive();
        while let Some(event) = exos.stack.poll_event() {
            let (id, tcp) = (event.connection, &mut exos.stack.tcp);
            if event.set.contains(EventSet::CONNECTED) {
                tcp.send(id, exos_buf::Buffer::from(&b"hello"[..]).into());
            }
            if tcp.readable(id) == b"hello" {
                tcp.consume(id, 5);
                tcp.finish(id);
                open -= 1;
                done.fetch_add(usize::from(open == 0), Ordering::Relaxed);
            }
        }
        exos.send().unwrap();
        let soon = exos.now() + Duration::from_millis(20);
        exos.wait(Some(soon), &[]).unwrap();
    }
    exos.counters()
}

/// Sends back what comes on each connection, until as many have come as two cores open; gives the other ends of all.
fn answer(listener: &TcpListener) -> Vec<SocketAddr> {
    let mut peers = Vec::new();
    thread::scope(|scope| {
        while peers.len() < 2 * CONNECTIONS && comes(listener) {
            let (mut socket, peer) = listener.accept().unwrap();
            peers.push(peer);
            scope.spawn(move || {
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut hello = [0; 5];
                socket.read_exact(&mut hello).unwrap();
                socket.write_all(&hello).unwrap();
            });
        }
    });
    peers
}

/// There is a connection to accept.
fn comes(listener: &TcpListener) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let patience = Timespec {
        tv_sec: PATIENCE.as_secs() as i64,
        tv_nsec: 0,
    };
    poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&patience)).unwrap() > 0
}

#[test]
fn both_cores_connect_and_never_from_the_same_port() {
    let test = "both_cores_connect_and_never_from_the_same_port";
    let Some(mut first) = two_cores(test) else {
        return;
    };
    let listener = TcpListener::bind("[::]:81").unwrap();
    let hosts = first.pair().unwrap().host_addresses;
    let to = hosts.map(|host| SocketAddr::new(host.ip, 81));
    let second = first.take_cores().pop().unwrap();
    let done = AtomicUsize::new(0);
    let (peers, counters) = thread::scope(|scope| {
        let second = scope.spawn(|| connect(second.start().unwrap(), to, &done));
        let answering = scope.spawn(|| answer(&listener));
        let first = connect(first, to, &done);
        let peers = answering.join().unwrap();
        (peers, [first, second.join().unwrap()])
    });
    let different: HashSet<_> = peers.iter().collect();
    assert_eq!(different.len(), 2 * CONNECTIONS);
    let of = |name| counters.each_ref().map(|all| counter(all, name));
    assert_eq!(of("tcp_connected"), [CONNECTIONS as u64; 2]);
    nothing_was_reset(&counters);
    assert_eq!(of("cores_frames_lost"), [0, 0]);
}

/// A core's stack that listens at port 80, and what it waits for.
fn listening(exos: Exos) -> (Net, net::TcpListener, net::Poll) {
    let net = Net::new(exos);
    let listener = net::TcpListener::bind(&net, "[::]:80").unwrap();
    listener.set_nonblocking(true).unwrap();
    let poll = net::Poll::new(&net).unwrap();
    let (readable, level) = (net::Interest::READABLE, net::Trigger::Level);
    poll.register(&listener, net::Token(0), readable, level)
        .unwrap();
    (net, listener, poll)
}

/// Sends back what comes on one connection, and finishes it.
fn echo_one(mut stream: net::TcpStream) {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    stream.write_all(&bytes).unwrap();
}

/// Without a daemon: what comes to the core that accepted is handed on to the one that has the connection.
#[test]
fn both_cores_accept_and_one_serves() {
    let Some(mut first) = two_cores("both_cores_accept_and_one_serves") else {
        return;
    };
    let addresses = first.pair().unwrap().addresses;
    let addresses = addresses.map(|ours| SocketAddr::new(ours.ip, 80));
    let second = first.take_cores().pop().unwrap();
    let (to, from) = UnixStream::pair().unwrap();
    let (_net, listener, poll) = listening(first);
    let mut events = net::Events::default();
    thread::scope(|scope| {
        let serving = scope.spawn(move || {
            let (net, listener, poll) = listening(second.start().unwrap());
            let (readable, level) = (net::Interest::READABLE, net::Trigger::Level);
            poll.register_fd(from.as_fd(), net::Token(1), readable, level)
                .unwrap();
            let mut events = net::Events::default();
            loop {
                poll.wait(&mut events, None).unwrap();
                while let Ok((stream, _)) = listener.accept() {
                    echo_one(stream);
                }
                if events.iter().any(|event| event.token == net::Token(1)) {
                    match net::TcpStream::take_over(&net, &from) {
                        Ok(stream) => echo_one(stream),
                        Err(_) => return,
                    }
                }
            }
        });
        let visitor = scope.spawn(|| visit(addresses));
        let mut handed_over = 0;
        while !visitor.is_finished() {
            let soon = Some(Duration::from_millis(20));
            poll.wait(&mut events, soon).unwrap();
            while let Ok((stream, _)) = listener.accept() {
                stream.hand_over(&to).unwrap();
                handed_over += 1;
            }
        }
        visitor.join().unwrap();
        drop(to);
        serving.join().unwrap();
        assert!(handed_over > 10, "{handed_over} of {CONNECTIONS}");
    });
}

#[test]
fn several_cores_need_a_queue_each() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let ours = Addresses::new(["192.0.2.7/24".parse().unwrap()]).unwrap();
    let two_cores = Interface {
        queues: Queues::All { cores: 2 },
        ..Interface::new("lo", ours)
    };
    let error = Exos::attach(two_cores).map(drop).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooFewQueues { queues: 1 });
    let error = error.to_string();
    assert!(
        error.contains("fewer than the 2 cores") && error.contains("run on 1 core"),
        "{error}"
    );
}
