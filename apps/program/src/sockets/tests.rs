//! Sockets of ours, and a listener of the standard library's on loopback that does what a test says.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use exos_buf::Buffer;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketType, sockopt};

use super::reading::READS_MAX;
use super::*;

const TOKEN: u64 = 7;

/// As much as a connection may keep.
const UNREAD_MAX: usize = 100_000;

/// What an event says: the token, what happened, and why.
type Said = (u64, EventSet, Reason);

struct World {
    listener: TcpListener,
    sockets: Sockets,
}

impl World {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sockets = Sockets::new(UNREAD_MAX).unwrap();
        Self { listener, sockets }
    }

    /// Begins a connection.
    fn open(&mut self, token: u64) -> ConnectionId {
        let to = self.listener.local_addr().unwrap();
        self.sockets.connect(&to, token).unwrap()
    }

    /// The next event; long waited for, because it must come.
    fn event(&mut self) -> Said {
        let deadline = clock::now() + Duration::from_secs(60);
        loop {
            if let Some(event) = self.sockets.poll_event() {
                return (event.token, event.set, event.reason);
            }
            assert!(clock::now() < deadline, "nothing happens");
            self.sockets.wait(Some(deadline)).unwrap();
        }
    }

    /// A connection that stands, and the server's end of it.
    fn connect(&mut self) -> (ConnectionId, TcpStream) {
        let id = self.open(TOKEN);
        let (peer, _) = self.listener.accept().unwrap();
        assert_eq!(self.event(), (TOKEN, EventSet::CONNECTED, Reason::Done));
        (id, peer)
    }

    fn read(&mut self, id: ConnectionId) -> Vec<u8> {
        assert_eq!(self.event().1, EventSet::READABLE);
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
    assert_eq!(world.event().1, EventSet::FINISHED);
    assert_eq!(world.sockets.readable(id), b"HTTP");
    world.sockets.leave(id);
    assert_eq!(world.sockets.readable(ConnectionId::from_bits(99)), b"");
}

/// What the kernel has no room for goes when it has, in order, and our end behind it.
#[test]
fn what_does_not_fit_is_sent_later() {
    const LEN: usize = 12 << 20;
    let mut world = World::new();
    let (id, mut peer) = world.connect();
    let all = pattern(2 * LEN);
    world.sockets.send(id, slice(all[..LEN].to_vec()));
    world.sockets.send(id, slice(all[LEN..].to_vec()));
    world.sockets.finish(id);
    let server = std::thread::spawn(move || {
        let mut received = Vec::new();
        peer.read_to_end(&mut received).unwrap();
        received
    });
    // The server's end of the connection is the first event: until then its kernel asks for more.
    assert_eq!(world.event().1, EventSet::FINISHED);
    assert!(server.join().unwrap() == all, "other bytes came");
}

/// Who sends all and finishes in one segment is told of in one event.
#[test]
fn the_end_comes_with_the_last_bytes() {
    let mut world = World::new();
    let (id, mut peer) = world.connect();
    sockopt::set_tcp_cork(&peer, true).unwrap();
    peer.write_all(b"all").unwrap();
    drop(peer);
    let both = EventSet::READABLE.with(EventSet::FINISHED);
    assert_eq!(world.event(), (TOKEN, both, Reason::Done));
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
        is_finished = world.event().1.contains(EventSet::FINISHED);
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
    let to = to.try_into().unwrap();
    world.sockets.connect(&to, TOKEN).unwrap();
    let refused = (TOKEN, EventSet::CLOSED, Reason::Refused);
    assert_eq!(world.event(), refused);
}

/// No connection leads to everybody.
#[test]
fn no_way_there() {
    let mut world = World::new();
    let to = "255.255.255.255:9".parse().unwrap();
    world.sockets.connect(&to, TOKEN).unwrap();
    let unreachable = (TOKEN, EventSet::CLOSED, Reason::Unreachable);
    assert_eq!(world.event(), unreachable);
}

#[test]
fn resets() {
    let mut world = World::new();
    let closed = (TOKEN, EventSet::CLOSED, Reason::Reset);
    let (_, peer) = world.connect();
    reset(peer);
    assert_eq!(world.event(), closed);
    // What came before it is there to be read.
    let (id, mut peer) = world.connect();
    peer.write_all(b"some").unwrap();
    assert_eq!(world.read(id), b"some");
    reset(peer);
    assert_eq!(world.event(), closed);
    // Or its end.
    let (_, peer) = world.connect();
    peer.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(world.event().1, EventSet::FINISHED);
    reset(peer);
    assert_eq!(world.event(), closed);
    // A connection that was reset before we looked stood all the same.
    world.open(TOKEN);
    reset(world.listener.accept().unwrap().0);
    let both = EventSet::CONNECTED.with(EventSet::CLOSED);
    assert_eq!(world.event(), (TOKEN, both, Reason::Reset));
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
    let new = world.open(8);
    assert_ne!(old, new);
    assert_eq!(world.event(), (8, EventSet::CONNECTED, Reason::Done));
    world.sockets.send(old, slice(b"nobody's".to_vec()));
    world.sockets.finish(old);
    world.sockets.leave(old);
    let (mut peer, _) = world.listener.accept().unwrap();
    peer.write_all(b"news").unwrap();
    assert_eq!(world.read(new), b"news");
}

/// Its peer sends more than a connection may keep: the rest waits in the kernel until some is consumed.
#[test]
fn who_is_not_listened_to_waits() {
    const LEN: usize = 12 << 20;
    let mut world = World::new();
    let (id, mut peer) = world.connect();
    let all = pattern(LEN);
    let server = std::thread::spawn(move || peer.write_all(&all).map(|()| all).unwrap());
    let soon = |ms| Some(clock::now() + Duration::from_millis(ms));
    let end = clock::now() + Duration::from_secs(60);
    while world.sockets.readable(id).len() < UNREAD_MAX {
        assert!(clock::now() < end, "nothing comes");
        world.sockets.wait(soon(10)).unwrap();
        while world.sockets.poll_event().is_some() {}
    }
    world.sockets.wait(soon(100)).unwrap();
    assert!(world.sockets.poll_event().is_none());
    let kept = world.sockets.readable(id).len();
    assert_eq!(kept, UNREAD_MAX);
    assert!(!server.is_finished());
    // Consumed at another time than at an event of the connection.
    let mut received = world.sockets.readable(id).to_vec();
    world.sockets.consume(id, received.len());
    while !world.event().1.contains(EventSet::FINISHED) {
        let bytes = world.sockets.readable(id);
        received.extend_from_slice(bytes);
        let count = bytes.len();
        world.sockets.consume(id, count);
    }
    received.extend_from_slice(world.sockets.readable(id));
    assert!(server.join().unwrap() == received, "other bytes came");
}

/// Who makes room again and again in one turn gets no more reads in it than others.
#[test]
fn who_makes_room_waits_for_its_turn() {
    let mut world = World::new();
    // The kernel keeps more than all these reads take.
    world.sockets = Sockets::new(1000).unwrap();
    let (id, mut peer) = world.connect();
    peer.set_nonblocking(true).unwrap();
    while peer.write(&[7; 100_000]).is_ok() {}
    let soon = clock::now() + Duration::from_secs(60);
    world.sockets.wait(Some(soon)).unwrap();
    let mut reads = 0;
    loop {
        let before = reads;
        while world.sockets.poll_event().is_some() {
            reads += 1;
        }
        if reads == before {
            break;
        }
        let kept = world.sockets.readable(id).len();
        world.sockets.consume(id, kept);
    }
    assert!((1..=READS_MAX).contains(&reads), "{reads} reads");
    // The rest comes in later turns.
    assert_eq!(world.read(id)[0], 7);
}

/// A read stops before urgent data: what is behind it comes all the same, and the end behind that.
#[test]
fn urgent_data_hides_nothing() {
    let mut world = World::new();
    for finishes in [false, true] {
        let (id, mut peer) = world.connect();
        peer.write_all(b"before").unwrap();
        rustix::net::send(&peer, b"!", rustix::net::SendFlags::OOB).unwrap();
        peer.write_all(b"behind").unwrap();
        if finishes {
            peer.shutdown(std::net::Shutdown::Write).unwrap();
        }
        let (mut received, mut is_finished) = (Vec::new(), !finishes);
        while received.len() < b"beforebehind".len() || !is_finished {
            is_finished |= world.event().1.contains(EventSet::FINISHED);
            let bytes = world.sockets.readable(id);
            received.extend_from_slice(bytes);
            let count = bytes.len();
            world.sockets.consume(id, count);
        }
        assert_eq!(received, b"beforebehind");
        world.sockets.leave(id);
    }
}

/// A connection that was accepted is told of, what the kernel takes of it, and when both sides have finished.
#[test]
fn a_connection_of_a_listeners() {
    let mut world = World::new();
    world.sockets.tell_of_taken();
    let mut client = TcpStream::connect(world.listener.local_addr().unwrap()).unwrap();
    let (socket, from) = world.listener.accept().unwrap();
    rustix::io::ioctl_fionbio(&socket, true).unwrap();
    world.sockets.adopt(socket.into(), from.ip()).unwrap();
    assert_eq!(world.sockets.open(), 1);
    let event = world.sockets.poll_event().unwrap();
    assert_eq!(event.set, EventSet::ACCEPTED);
    let id = event.connection;
    assert_eq!(world.sockets.peer(id), Some(from.ip()));
    for bytes in [&b"a"[..], b"", b"bc"] {
        world.sockets.send(id, slice(bytes.to_vec()));
    }
    assert_eq!(world.sockets.unsent(id), 3);
    assert_eq!(world.event().1, EventSet::ACKNOWLEDGED);
    assert_eq!(world.sockets.unsent(id), 0);
    // What comes after our end is nobody's, but the client's end.
    world.sockets.finish(id);
    world.sockets.discard_received(id);
    assert!(world.sockets.poll_event().is_none());
    let mut got = String::new();
    client.read_to_string(&mut got).unwrap();
    assert_eq!(got, "abc");
    client.write_all(&pattern(1000)).unwrap();
    drop(client);
    assert_eq!(world.event().1, EventSet::FINISHED);
    assert_eq!(world.sockets.readable(id), b"");
    assert_eq!(world.event(), (0, EventSet::CLOSED, Reason::Done));
    assert_eq!((world.sockets.open(), world.sockets.peer(id)), (0, None));
}

/// A file of this test.
#[derive(Debug)]
struct Content(std::fs::File);

impl File for Content {
    fn fd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.0)
    }

    fn is_unchanged(&self) -> bool {
        self.0.metadata().unwrap().len() > 0
    }
}

/// Parts of files go out between slices, in order; of a file that changes nothing more does, and the peer is reset.
#[test]
fn parts_of_files() {
    const LEN: usize = 12 << 20;
    let path = std::env::temp_dir().join(format!("exos-sockets-file-{}", std::process::id()));
    let all = pattern(LEN);
    std::fs::write(&path, &all).unwrap();
    let file = || Rc::new(Content(std::fs::File::open(&path).unwrap()));
    let mut world = World::new();
    let (id, mut peer) = world.connect();
    world.sockets.send(id, slice(b"head".to_vec()));
    world.sockets.send_file(id, file(), 5..LEN as u64);
    world.sockets.send(id, slice(b"between".to_vec()));
    world.sockets.send_file(id, file(), 0..7);
    world.sockets.finish(id);
    let server = std::thread::spawn(move || {
        let mut received = Vec::new();
        peer.read_to_end(&mut received).unwrap();
        received
    });
    assert_eq!(world.event().1, EventSet::FINISHED);
    let wanted = [b"head", &all[5..], b"between", &all[..7]].concat();
    assert!(server.join().unwrap() == wanted, "other bytes came");
    assert_eq!(world.event(), (TOKEN, EventSet::CLOSED, Reason::Done));

    let (id, mut peer) = world.connect();
    world.sockets.send_file(id, file(), 0..LEN as u64);
    assert!(world.sockets.poll_event().is_none());
    peer.read_exact(&mut [0; 1000]).unwrap();
    std::fs::File::create(&path).unwrap();
    let server = std::thread::spawn(move || peer.read_to_end(&mut Vec::new()).unwrap_err());
    let closed = (TOKEN, EventSet::CLOSED, Reason::Aborted);
    assert_eq!(world.event(), closed);
    let error = server.join().unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    std::fs::remove_file(&path).unwrap();
}

/// A connection to a Unix socket of this name, which is gone again, and its peer.
fn connect_unix(world: &mut World, name: &str) -> (ConnectionId, std::os::unix::net::UnixStream) {
    let name = format!("exos-sockets-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let id = world.sockets.connect_unix(&path, TOKEN).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(world.sockets.connect_unix(&path, TOKEN).is_err());
    (id, listener.accept().unwrap().0)
}

/// A peer at a Unix socket that answers without reading what it was sent, and closes, is read to its end.
#[test]
fn what_a_peer_said_before_it_took_no_more_is_read() {
    let mut world = World::new();
    world.sockets.read_to_the_end();
    let (id, mut peer) = connect_unix(&mut world, "said");
    assert_eq!(world.sockets.ends(id), None, "it has no addresses of IP");
    world.sockets.send(id, slice(pattern(8 << 20)));
    world.sockets.wait(Some(Instant::START)).unwrap();
    peer.write_all(b"enough").unwrap();
    drop(peer);
    let mut said = Vec::new();
    loop {
        let (_, set, _) = world.event();
        if set.contains(EventSet::READABLE) {
            said.extend_from_slice(world.sockets.readable(id));
            world.sockets.consume(id, world.sockets.readable(id).len());
        }
        if set.contains(EventSet::FINISHED) || set.contains(EventSet::CLOSED) {
            break;
        }
    }
    assert_eq!(said, b"enough");
    assert_eq!(world.sockets.unsent(id), 0);
}

#[test]
fn both_ends_are_known() {
    let mut world = World::new();
    let (id, peer) = world.connect();
    let ends = (peer.peer_addr().unwrap(), peer.local_addr().unwrap());
    assert_eq!(world.sockets.ends(id), Some(ends));
}

#[test]
fn what_only_ends_a_wait_is_not_told() {
    let mut world = World::new();
    let pair = || std::os::unix::net::UnixStream::pair().unwrap();
    let ((waker, mut wakes), (watched, mut tells)) = (pair(), pair());
    world.sockets.wake_by(waker.as_fd()).unwrap();
    world.sockets.watch(watched.as_fd()).unwrap();
    wakes.write_all(b"x").unwrap();
    world.sockets.wait(None).unwrap();
    assert!(!world.sockets.was_told());
    tells.write_all(b"x").unwrap();
    world.sockets.wait(None).unwrap();
    assert!(world.sockets.was_told());
}

/// A connection to a Unix socket stands and has room: nobody is woken to be told so. Where it had none, it is told of more.
#[test]
fn a_unix_socket_is_told_of_room_where_it_had_none() {
    const LEN: usize = 8 << 20;
    let mut world = World::new();
    world.sockets.tell_of_taken();
    let (id, mut peer) = connect_unix(&mut world, "room");
    world.sockets.wait(Some(Instant::START)).unwrap();
    let fd = world.sockets.fd();
    let ready = poll(
        &mut [PollFd::new(&fd, PollFlags::IN)],
        Some(&Timespec::default()),
    );
    assert_eq!(ready, Ok(0));
    world.sockets.send(id, slice(pattern(LEN)));
    world.sockets.wait(Some(Instant::START)).unwrap();
    assert!(world.sockets.unsent(id) > 0);
    let reader = std::thread::spawn(move || {
        let mut all = vec![0; LEN];
        peer.read_exact(&mut all).unwrap();
        all
    });
    while world.sockets.unsent(id) > 0 {
        assert_eq!(world.event().1, EventSet::ACKNOWLEDGED);
    }
    assert!(reader.join().unwrap() == pattern(LEN));
}

/// What is written now is at the peer before anything is waited for, and once; what the peer does then is told.
#[test]
fn what_is_written_now_is_there_at_once() {
    let mut world = World::new();
    let (id, mut peer) = connect_unix(&mut world, "now");
    world.sockets.send(id, slice(b"asked".to_vec()));
    world.sockets.write_now(id);
    peer.set_nonblocking(true).unwrap();
    let mut got = [0; 16];
    assert_eq!(peer.read(&mut got).unwrap(), 5);
    world.sockets.wait(Some(Instant::START)).unwrap();
    let again = peer.read(&mut got).unwrap_err();
    assert_eq!(again.kind(), std::io::ErrorKind::WouldBlock);
    peer.write_all(b"answer").unwrap();
    drop(peer);
    let both = EventSet::READABLE.with(EventSet::FINISHED);
    assert_eq!(world.event(), (TOKEN, both, Reason::Done));
    assert_eq!(world.sockets.readable(id), b"answer");
}

/// What a peer said before it was gone waits for who takes it slowly; that the connection is over is told behind it.
#[test]
fn the_end_waits_for_what_is_not_consumed() {
    let mut world = World::new();
    world.sockets.read_to_the_end();
    let (id, mut peer) = connect_unix(&mut world, "end");
    assert!(world.sockets.is_silent(id));
    world.sockets.send(id, slice(b"asked".to_vec()));
    assert!(world.sockets.poll_event().is_none());
    peer.write_all(b"answer").unwrap();
    assert!(!world.sockets.is_silent(id));
    // It has not read what it was asked: that is told as a reset.
    drop(peer);
    assert_eq!(world.event().1, EventSet::READABLE);
    world.sockets.consume(id, 2);
    for _ in 0..3 {
        world.sockets.wait(Some(exos_inet::Instant::START)).unwrap();
        assert!(world.sockets.poll_event().is_none());
    }
    assert_eq!(world.sockets.readable(id), b"swer");
    world.sockets.consume(id, 3);
    assert!(world.sockets.poll_event().is_none());
    world.sockets.consume(id, 1);
    assert_eq!(world.event(), (TOKEN, EventSet::CLOSED, Reason::Reset));
}

/// The kernel may have a connection stand of which nothing was told: what was queued has not left when it is given up.
#[test]
fn nothing_leaves_before_a_connection_was_told_to_stand() {
    let mut world = World::new();
    let id = world.open(TOKEN);
    let (mut peer, _) = world.listener.accept().unwrap();
    world.sockets.send(id, slice(b"POST /pay".to_vec()));
    world.sockets.leave(id);
    let mut received = Vec::new();
    let ended = peer.read_to_end(&mut received);
    assert!(ended.is_err(), "it is reset");
    assert_eq!(received, b"");
}
