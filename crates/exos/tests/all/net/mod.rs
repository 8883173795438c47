//! Sockets of the library, with the kernel's at the other end. As root; in a namespace of each test's own.

mod names;
mod posix;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::thread;
use std::time::Duration;

use exos::OwnPair;
use exos::net::{Events, Interest, Net, Poll, TcpListener, TcpStream, Token, Trigger, UdpSocket};
use exos_host::netns::NetNs;

use crate::common::{PATIENCE, skip_without_root};

/// A stack, with the host's address at the other end of its wire, in a namespace that the calling thread is in; none without root.
fn attach(test: &str) -> Option<(Net, IpAddr)> {
    if skip_without_root(test) {
        return None;
    }
    let here = NetNs::anonymous().unwrap();
    here.enter().unwrap();
    // The kernel's sockets are asked for what ours are.
    let netlink = here.netlink().unwrap();
    let loopback = netlink.link_by_name("lo").unwrap();
    netlink.set_up(loopback.index, true).unwrap();
    let net = Net::attach(OwnPair::new()).unwrap();
    let host = net.with(|exos| exos.pair().unwrap().host_addresses[0].ip);
    Some((net, host))
}

fn ours(net: &Net) -> IpAddr {
    net.with(|exos| exos.pair().unwrap().addresses[0].ip)
}

#[test]
fn an_echo_server_serves_the_kernels_clients() {
    let Some((net, _)) = attach("an_echo_server_serves_the_kernels_clients") else {
        return;
    };
    let listener = TcpListener::bind(&net, "0.0.0.0:0").unwrap();
    let at = SocketAddr::new(ours(&net), listener.local_addr().unwrap().port());
    let clients = thread::spawn(move || {
        for size in [1, 100, 10_000, 1_000_000] {
            let mut socket = std::net::TcpStream::connect_timeout(&at, PATIENCE).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let sent: Vec<u8> = (0..size).map(|i| (i * 7 % 251) as u8).collect();
            let mut writer = socket.try_clone().unwrap();
            let copy = sent.clone();
            let writing = thread::spawn(move || {
                writer.write_all(&copy).unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            });
            let mut back = Vec::new();
            socket.read_to_end(&mut back).unwrap();
            writing.join().unwrap();
            assert!(back == sent, "{size} bytes come back");
        }
    });
    for _ in 0..4 {
        let (mut stream, peer) = listener.accept().unwrap();
        assert_eq!(peer, stream.peer_addr().unwrap());
        let mut bytes = vec![0; 20_000];
        loop {
            let count = stream.read(&mut bytes).unwrap();
            if count == 0 {
                break;
            }
            stream.write_all(&bytes[..count]).unwrap();
        }
    }
    // What was written last is delivered by the end of the stack.
    drop((listener, net));
    clients.join().unwrap();
}

#[test]
fn a_client_reads_what_the_kernels_server_says() {
    let Some((net, host)) = attach("a_client_reads_what_the_kernels_server_says") else {
        return;
    };
    let listener = std::net::TcpListener::bind((host, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut asked = String::new();
        socket.read_to_string(&mut asked).unwrap();
        socket.write_all(b"and to you").unwrap();
        asked
    });
    let mut stream = TcpStream::connect(&net, at).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let early = stream.read(&mut [0; 10]).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::WouldBlock, "the timeout");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"good day").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(
        stream.write(b"more").unwrap_err().kind(),
        ErrorKind::BrokenPipe
    );
    let mut peeked = [0; 3];
    stream.peek(&mut peeked).unwrap();
    assert_eq!(&peeked, b"and");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "and to you");
    assert_eq!(serving.join().unwrap(), "good day");
    let refused = TcpStream::connect(&net, at).unwrap_err();
    assert_eq!(
        refused.kind(),
        ErrorKind::ConnectionRefused,
        "the listener is gone"
    );
}

#[test]
fn datagrams_come_and_go() {
    let Some((net, host)) = attach("datagrams_come_and_go") else {
        return;
    };
    let socket = UdpSocket::bind(&net, "0.0.0.0:0").unwrap();
    let at = SocketAddr::new(ours(&net), socket.local_addr().unwrap().port());
    let peer = std::net::UdpSocket::bind((host, 0)).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    peer.connect(at).unwrap();
    peer.send(b"hello").unwrap();
    let mut bytes = [0; 100];
    assert_eq!(socket.peek(&mut bytes).unwrap(), 5);
    let (count, from) = socket.recv_from(&mut bytes[..4]).unwrap();
    assert_eq!(
        (&bytes[..count], from),
        (&b"hell"[..], peer.local_addr().unwrap())
    );
    socket.send_to(b"good day", from).unwrap();
    assert_eq!(peer.recv(&mut bytes).unwrap(), 8);
    socket.set_nonblocking(true).unwrap();
    assert_eq!(
        socket.recv(&mut bytes).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    // The kernel says that nobody is there.
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    drop(peer);
    socket.connect(from).unwrap();
    socket.send(b"anybody?").unwrap();
    assert_eq!(
        socket.recv(&mut bytes).unwrap_err().kind(),
        ErrorKind::ConnectionRefused
    );
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
        let sockets: Vec<_> = (0..CLIENTS)
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
        told.write_all(b"end").unwrap();
    });
    let poll = Poll::new(&net).unwrap();
    let (kernel_token, listener_token) = (Token(usize::MAX), Token(usize::MAX - 1));
    let fd = std::os::fd::AsFd::as_fd(&kernel);
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
