//! Sockets of ours, and a listener of the standard library's on loopback that does what a test says.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use exos_buf::Buffer;
use rustix::net::{AddressFamily, SocketType, sockopt};

use super::*;

const TOKEN: u64 = 7;

struct World {
    listener: TcpListener,
    sockets: Sockets,
}

impl World {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sockets = Sockets::new(listener.local_addr().unwrap()).unwrap();
        Self { listener, sockets }
    }

    /// The next event; long waited for, because it must come.
    fn event(&mut self) -> Event {
        let deadline = clock::now() + Duration::from_secs(60);
        loop {
            if let Some(event) = self.sockets.poll_event() {
                return event;
            }
            assert!(clock::now() < deadline, "nothing happens");
            self.sockets.wait(Some(deadline)).unwrap();
        }
    }

    /// A connection that stands, and the server's end of it.
    fn connect(&mut self) -> (SocketId, TcpStream) {
        let id = self.sockets.open(TOKEN).unwrap();
        let (peer, _) = self.listener.accept().unwrap();
        assert_eq!(
            self.event(),
            event(TOKEN, EventSet::CONNECTED, Reason::Done)
        );
        (id, peer)
    }

    fn read(&mut self, id: SocketId) -> Vec<u8> {
        assert_eq!(self.event().set, EventSet::READABLE);
        self.sockets.readable(id).to_vec()
    }
}

fn slice(bytes: Vec<u8>) -> Slice {
    Buffer::from(bytes).whole()
}

/// Bytes of which each tells where it belongs.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

fn reset(peer: TcpStream) {
    sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
}

/// What was not consumed stands before what comes next, whole or in part.
#[test]
fn what_is_left_is_kept() {
    let mut world = World::new();
    let (id, mut peer) = world.connect();
    for (sent, read, consumed) in [
        ("HTTP/1.1 2", "HTTP/1.1 2", 0),
        ("00 O", "HTTP/1.1 200 O", 5),
        ("K", "1.1 200 OK", 10),
        ("x", "x", 1),
    ] {
        peer.write_all(sent.as_bytes()).unwrap();
        assert_eq!(world.read(id), read.as_bytes());
        world.sockets.consume(id, consumed);
    }
    peer.write_all(b"HTTP").unwrap();
    assert_eq!(world.read(id), b"HTTP");
    drop(peer);
    assert_eq!(world.event().set, EventSet::FINISHED);
    assert_eq!(world.sockets.readable(id), b"HTTP");
    world.sockets.leave(id);
    assert_eq!(world.sockets.readable(SocketId::of(99)), b"");
}

/// What the kernel has no room for goes when it has, in order, and our end behind it.
#[test]
fn what_does_not_fit_is_sent_later() {
    const LEN: usize = 12 << 20;
    let mut world = World::new();
    let (id, mut peer) = world.connect();
    let all = pattern(2 * LEN);
    world.sockets.send(id, &slice(all[..LEN].to_vec()));
    world.sockets.send(id, &slice(all[LEN..].to_vec()));
    world.sockets.finish(id);
    let server = std::thread::spawn(move || {
        let mut received = Vec::new();
        peer.read_to_end(&mut received).unwrap();
        received
    });
    // The server's end of the connection is the first event: until then its kernel asks for more.
    assert_eq!(world.event().set, EventSet::FINISHED);
    assert!(server.join().unwrap() == all, "other bytes came");
}

/// A peer that sends all and finishes in one segment is reported in one event.
#[test]
fn the_end_comes_with_the_last_bytes() {
    let mut world = World::new();
    let (id, mut peer) = world.connect();
    sockopt::set_tcp_cork(&peer, true).unwrap();
    peer.write_all(b"all").unwrap();
    drop(peer);
    let both = EventSet::READABLE.with(EventSet::FINISHED);
    assert_eq!(world.event(), event(TOKEN, both, Reason::Done));
    assert_eq!(world.sockets.readable(id), b"all");
}

/// More than is read in one turn is read to its end all the same.
#[test]
fn what_is_long_is_read_in_several_turns() {
    const LEN: usize = 12 << 20;
    let mut world = World::new();
    let (long, mut peer) = world.connect();
    let all = pattern(LEN);
    let server = std::thread::spawn(move || peer.write_all(&all).map(|()| all).unwrap());
    let mut received = Vec::new();
    let mut is_finished = false;
    while !is_finished {
        is_finished = world.event().set.contains(EventSet::FINISHED);
        let bytes = world.sockets.readable(long);
        received.extend_from_slice(bytes);
        let count = bytes.len();
        world.sockets.consume(long, count);
    }
    assert!(server.join().unwrap() == received, "other bytes came");
}

#[test]
fn nobody_listens() {
    let mut world = World::new();
    // A port that is taken, so that nobody else comes to listen there.
    let taken = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&taken, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let to = rustix::net::getsockname(&taken).unwrap();
    world.sockets = Sockets::new(to.try_into().unwrap()).unwrap();
    world.sockets.open(TOKEN).unwrap();
    let refused = event(TOKEN, EventSet::CLOSED, Reason::Refused);
    assert_eq!(world.event(), refused);
}

/// No connection leads to everybody.
#[test]
fn no_way_there() {
    let mut world = World::new();
    world.sockets = Sockets::new("255.255.255.255:9".parse().unwrap()).unwrap();
    world.sockets.open(TOKEN).unwrap();
    let event = world.event();
    assert_eq!(
        (event.set, event.reason),
        (EventSet::CLOSED, Reason::Unreachable)
    );
}

#[test]
fn resets() {
    let mut world = World::new();
    let closed = event(TOKEN, EventSet::CLOSED, Reason::Reset);
    let (_, peer) = world.connect();
    reset(peer);
    assert_eq!(world.event(), closed);
    // What came before it is there to be read.
    let (id, mut peer) = world.connect();
    peer.write_all(b"some").unwrap();
    assert_eq!(world.read(id), b"some");
    reset(peer);
    assert_eq!(world.event(), closed);
    // A connection that was reset before we looked stood all the same.
    world.sockets.open(TOKEN).unwrap();
    reset(world.listener.accept().unwrap().0);
    let both = EventSet::CONNECTED.with(EventSet::CLOSED);
    assert_eq!(world.event(), event(TOKEN, both, Reason::Reset));
    // We reset what we give up, and finish what we leave.
    let (id, mut peer) = world.connect();
    world.sockets.abort(id);
    let error = peer.read(&mut [0; 9]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let (id, mut peer) = world.connect();
    world.sockets.leave(id);
    assert_eq!(peer.read(&mut [0; 9]).unwrap(), 0);
}

/// What epoll told of a connection that has been given up since concerns nobody, its follower on the same place neither.
#[test]
fn late_news() {
    let mut world = World::new();
    let (old, mut peer) = world.connect();
    peer.write_all(b"late").unwrap();
    let soon = Some(clock::now() + Duration::from_secs(60));
    world.sockets.wait(soon).unwrap();
    world.sockets.abort(old);
    let new = world.sockets.open(8).unwrap();
    assert_ne!(old, new);
    assert_eq!(world.event(), event(8, EventSet::CONNECTED, Reason::Done));
    world.sockets.send(old, &slice(b"nobody's".to_vec()));
    world.sockets.finish(old);
    world.sockets.leave(old);
    let (mut peer, _) = world.listener.accept().unwrap();
    peer.write_all(b"news").unwrap();
    assert_eq!(world.read(new), b"news");
}

/// Shortage is told once, with what can be done about it.
#[test]
fn shortage() {
    let mut world = World::new();
    assert!(world.sockets.poll_shortage().is_none());
    world.sockets.shortage = Some(Errno::MFILE);
    let said = world.sockets.poll_shortage().unwrap().to_string();
    assert!(said.contains("ulimit -n"), "{said}");
    world.sockets.shortage = Some(Errno::MFILE);
    assert!(world.sockets.poll_shortage().is_none());
}
