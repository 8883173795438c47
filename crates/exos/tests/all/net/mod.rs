//! Sockets of the library, with the kernel's at the other end. As root; in a namespace of each test's own.

mod names;
mod posix;
mod posix_datagrams;
mod posix_listeners;
mod through;
mod waiting;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use exos::net::{BindOptions, Events, Net, Poll, TcpListener, TcpStream, UdpSocket};
use exos::{Buffer, OwnPair};
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
    let segments = || net.with(|exos| exos.stack.counters().tcp_segments_sent);
    let before = segments();
    stream
        .send_and_finish(Buffer::from(&b"good day"[..]).into())
        .unwrap();
    assert_eq!(segments(), before + 1, "the end is on what was sent");
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

/// Its packets stay within the stack; and of one that is over nothing is left to give.
#[test]
fn a_connection_to_ourselves_and_one_that_is_over_are_not_handed_over() {
    let test = "a_connection_to_ourselves_and_one_that_is_over_are_not_handed_over";
    let Some((net, _)) = attach(test) else {
        return;
    };
    let (to, _from) = UnixStream::pair().unwrap();
    let listener = TcpListener::bind(&net, "0.0.0.0:7").unwrap();
    let near = TcpStream::connect(&net, (ours(&net), 7)).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let not = near.hand_over(&to).unwrap_err();
    assert_eq!(not.error.kind(), ErrorKind::Unsupported);
    let mut near = not.stream;
    near.write_all(b"still here").unwrap();
    let mut heard = [0; 10];
    far.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"still here");
    far.set_linger(Some(Duration::ZERO)).unwrap();
    drop(far);
    let end = near.read(&mut heard).unwrap_err();
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    let not = near.hand_over(&to).unwrap_err();
    assert_eq!(not.error.kind(), ErrorKind::NotConnected);
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
    assert_eq!(socket.ttl().unwrap(), 64);
    socket.set_ttl(200).unwrap();
    socket.set_tos(0xb9).unwrap();
    assert_eq!((socket.ttl().unwrap(), socket.tos().unwrap()), (200, 0xb9));
    for bad in [0, 256] {
        let refused = socket.set_ttl(bad).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    }
    socket.send_to(b"good day", from).unwrap();
    assert_eq!(peer.recv(&mut bytes).unwrap(), 8);
    socket.set_nonblocking(true).unwrap();
    assert_eq!(
        socket.recv(&mut bytes).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    // The kernel says that nobody is there.
    socket.set_nonblocking(false).unwrap();
    let soon = Some(Duration::from_millis(100));
    socket.set_read_timeout(soon).unwrap();
    drop(peer);
    socket.connect(from).unwrap();
    // But not of each datagram: it may have had so much to say of others.
    let refused = (0..600).find_map(|_| {
        let asked = socket.send(b"anybody?");
        let heard = asked.and_then(|_| socket.recv(&mut bytes)).unwrap_err();
        (heard.kind() != ErrorKind::WouldBlock).then(|| heard.kind())
    });
    assert_eq!(refused, Some(ErrorKind::ConnectionRefused));
}

#[test]
fn each_family_has_sockets_for_datagrams_of_its_own() {
    let Some((net, host)) = attach("each_family_has_sockets_for_datagrams_of_its_own") else {
        return;
    };
    let v4 = UdpSocket::bind(&net, "0.0.0.0:0").unwrap();
    let port = v4.local_addr().unwrap().port();
    let both = UdpSocket::bind(&net, ("::", port)).unwrap_err();
    assert_eq!(both.kind(), ErrorKind::AddrInUse);
    let v6 = {
        let options = BindOptions {
            v6_only: true,
            ..BindOptions::default()
        };
        let at = SocketAddr::new(IpAddr::from([0; 16]), port);
        UdpSocket::bind_with(&net, at, &options).unwrap()
    };
    let peer = std::net::UdpSocket::bind((host, 0)).unwrap();
    peer.send_to(b"IPv4", (ours(&net), port)).unwrap();
    v4.set_read_timeout(Some(PATIENCE)).unwrap();
    let (count, from) = v4.recv_from(&mut [0; 100]).unwrap();
    assert_eq!((count, from), (4, peer.local_addr().unwrap()));
    let other = v6.send_to(b"x", from).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::InvalidInput, "of the other family");
    // One that is connected no more hears everybody.
    v4.connect((host, 1)).unwrap();
    v4.disconnect().unwrap();
    assert_eq!(v4.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
    peer.send_to(b"again", (ours(&net), port)).unwrap();
    assert_eq!(v4.recv(&mut [0; 100]).unwrap(), 5);
}

/// Accepts connections of any of them until there are as many: how many each has accepted.
fn accept_up_to(
    net: &Net,
    listeners: &[TcpListener],
    streams: &mut Vec<TcpStream>,
    most: usize,
) -> Vec<usize> {
    let poll = Poll::new(net).unwrap();
    let mut accepted = vec![0; listeners.len()];
    for _ in 0..PATIENCE.as_millis() {
        let wait = Duration::from_millis(1);
        poll.wait(&mut Events::default(), Some(wait)).unwrap();
        for (count, listener) in accepted.iter_mut().zip(listeners) {
            if streams.len() < most
                && let Ok((stream, _)) = listener.accept()
            {
                *count += 1;
                streams.push(stream);
            }
        }
        if streams.len() == most {
            break;
        }
    }
    accepted
}

/// Connections are spread over all that share a port, and none is lost when one of them goes.
#[test]
fn listeners_share_a_port() {
    const CLIENTS: usize = 60;
    let Some((net, _)) = attach("listeners_share_a_port") else {
        return;
    };
    let first = TcpListener::bind_shared(&net, "0.0.0.0:0").unwrap();
    let at = first.local_addr().unwrap();
    let alone = TcpListener::bind(&net, at).unwrap_err();
    assert_eq!(alone.kind(), ErrorKind::AddrInUse);
    let mut listeners = vec![first];
    listeners.extend((0..2).map(|_| TcpListener::bind_shared(&net, at).unwrap()));
    for listener in &listeners {
        listener.set_nonblocking(true).unwrap();
    }
    let to = SocketAddr::new(ours(&net), at.port());
    let clients = thread::spawn(move || {
        let connect = |_| std::net::TcpStream::connect_timeout(&to, PATIENCE).unwrap();
        let sockets: Vec<_> = (0..CLIENTS).map(connect).collect();
        for mut socket in sockets {
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.read_exact(&mut [0]).unwrap();
        }
    });
    let mut streams = Vec::new();
    let accepted = accept_up_to(&net, &listeners, &mut streams, CLIENTS / 2);
    assert!(accepted.iter().all(|count| *count > 0), "{accepted:?}");
    // What waits for the first goes to the others then.
    listeners.remove(0);
    accept_up_to(&net, &listeners, &mut streams, CLIENTS);
    assert_eq!(streams.len(), CLIENTS);
    for stream in &mut streams {
        stream.write_all(b"x").unwrap();
    }
    net.turn().unwrap();
    clients.join().unwrap();
    drop(listeners);
    assert!(
        TcpListener::bind(&net, at).is_ok(),
        "the port is free again"
    );
}

/// One thread is both ends, by each address of the stack: a connection, datagrams, and a port that nobody listens on.
#[test]
fn a_thread_connects_to_itself() {
    let Some((net, _)) = attach("a_thread_connects_to_itself") else {
        return;
    };
    let sent: Vec<u8> = (0..300_000).map(|n| (n % 251) as u8).collect();
    let addresses = net.with(|exos| exos.stack.addresses().to_vec());
    assert!(addresses.len() >= 3, "IPv4, IPv6 and a link-local address");
    let listener = TcpListener::bind(&net, "[::]:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let datagrams = UdpSocket::bind(&net, ("::", port)).unwrap();
    datagrams.set_read_timeout(Some(PATIENCE)).unwrap();
    for at in addresses
        .iter()
        .map(|prefix| SocketAddr::new(prefix.addr, port))
    {
        let mut ours = TcpStream::connect_timeout(&net, &at, PATIENCE).unwrap();
        let (mut theirs, peer) = listener.accept().unwrap();
        assert_eq!(
            (peer, theirs.local_addr().unwrap()),
            (ours.local_addr().unwrap(), at)
        );
        ours.write_all(&sent).unwrap();
        ours.shutdown(Shutdown::Write).unwrap();
        let mut read = Vec::new();
        theirs.read_to_end(&mut read).unwrap();
        assert!(read == sent, "{at}");
        theirs.write_all(b"heard").unwrap();
        drop(theirs);
        let mut answer = String::new();
        ours.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "heard");

        datagrams.send_to(b"to myself", at).unwrap();
        assert_eq!(datagrams.recv_from(&mut read).unwrap(), (9, at));
        let closed = SocketAddr::new(at.ip(), port ^ 1);
        datagrams.connect(closed).unwrap();
        datagrams.send(b"nobody").unwrap();
        let refused = datagrams.recv(&mut read).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        datagrams.disconnect().unwrap();
        let refused = TcpStream::connect(&net, closed).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
    let segments = net.with(|exos| exos.stack.counters().tcp_segments_sent);
    assert_eq!(net.with(|exos| exos.stack.counters().drop_loopback_full), 0);
    assert!(net.with(|exos| exos.stack.counters().packets_looped) >= segments);
}
