//! Peers as they should be, and as they should not.

use std::os::unix::net::UnixStream;

use exos_xok::message::{Answer, Farewell, FromDaemon, Notice, VERSION};
use rustix::net::SocketAddrUnix;

use super::newcomers::{Awaited, Guests};
use super::*;
use crate::limits::{
    CONNECTIONS, CONNECTIONS_PER_USER_MAX, CONNECTIONS_UNNAMED_MAX, NEWCOMERS_TIME, SLOTLESS_TIME,
};

const START: Now = Now::ZERO;

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("exos-xokd-{name}-{}", std::process::id()))
}

/// Makes a server, of one kind or the other.
type Make = fn(&str) -> (Server, PathBuf);

/// On kernels that refuse descriptors to the one that sends them, and on those that cannot.
const KINDS: [Make; 2] = [server, server_that_is_sent_descriptors];

fn server(name: &str) -> (Server, PathBuf) {
    let path = path(name);
    (Server::listen(&path).expect("a socket"), path)
}

/// A server as it is on kernels that cannot refuse descriptors.
pub(crate) fn server_that_is_sent_descriptors(name: &str) -> (Server, PathBuf) {
    let (mut server, path) = server(name);
    take_descriptors(&server.listener, true);
    server.closing = Closing::new(true);
    (server, path)
}

fn connect(path: &Path) -> OwnedFd {
    let kind = SocketType::SEQPACKET;
    let flags = SocketFlags::NONBLOCK;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).expect("a socket");
    let address = SocketAddrUnix::new(path).expect("a path");
    rustix::net::connect(&socket, &address).expect("it listens");
    socket
}

fn send(socket: &OwnedFd, bytes: &[u8]) {
    rustix::net::send(socket, bytes, SendFlags::empty()).expect("room");
}

fn hear(socket: &OwnedFd) -> Option<FromDaemon> {
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    let received = rustix::net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT);
    let (len, _) = received.ok()?;
    FromDaemon::decode(&buffer[..len]).ok()
}

/// Everybody is of one standing, and some connections hold something.
struct Everybody {
    standing: Standing,
    holding: Vec<ConnectionId>,
    awaited: Vec<Awaited>,
    connections_max: usize,
}

impl Everybody {
    fn named() -> Self {
        Self::of(Standing::Named)
    }

    fn of(standing: Standing) -> Self {
        Self {
            standing,
            holding: Vec::new(),
            awaited: Vec::new(),
            connections_max: CONNECTIONS_PER_USER_MAX,
        }
    }
}

impl Guests for Everybody {
    fn standing(&self, _: &Who) -> Standing {
        self.standing
    }

    fn connections_max(&self, _: u32, groups: Option<&[u32]>) -> usize {
        // Groups of which the one that connects is none may allow more.
        self.connections_max + usize::from(groups.is_none())
    }

    fn holds(&self, id: ConnectionId) -> bool {
        self.holding.contains(&id)
    }

    fn awaited(&self) -> Vec<Awaited> {
        self.awaited.clone()
    }
}

fn count(server: &Server, name: &str) -> u64 {
    let found = server.cuts().find(|(n, _)| *n == name);
    found.expect("a counter").1
}

#[test]
fn requests_come_in_order_and_answers_go_back() {
    let (mut server, path) = server("order");
    let program = connect(&path);
    server.accept(|| START, &Everybody::named());
    let id = server.ids()[0];
    send(&program, &Request::Hello { version: VERSION }.encode(1));
    send(&program, &Request::Status.encode(2));
    assert!(matches!(
        server.receive(id, START),
        Some(Heard::Request(1, Request::Hello { version: VERSION }))
    ));
    assert!(matches!(
        server.receive(id, START),
        Some(Heard::Request(2, Request::Status))
    ));
    assert!(server.receive(id, START).is_none());
    let connection = server.connection(id).expect("connected");
    assert_eq!(connection.peer.pid, std::process::id());
    assert!(server.say(id, Answer::Done.encode(2), Vec::new()));
    assert_eq!(hear(&program), Some(FromDaemon::Answer(2, Answer::Done)));
    drop(program);
    assert!(matches!(
        server.receive(id, START),
        Some(Heard::Gone(Cut::HungUp))
    ));
    assert!(server.is_empty());
}

/// That a program has gone is known before all that it said has been heard.
#[test]
fn who_has_hung_up_is_known_at_once() {
    let (mut server, path) = server("hung-up");
    let program = connect(&path);
    server.accept(|| START, &Everybody::named());
    let id = server.ids()[0];
    let gone = |server: &Server| server.connection(id).map(Connection::has_hung_up);
    for tag in 1..=20 {
        send(&program, &Request::Status.encode(tag));
    }
    assert_eq!(gone(&server), Some(false));
    drop(program);
    assert_eq!(gone(&server), Some(true));
    for _ in 1..=20 {
        assert!(matches!(
            server.receive(id, START),
            Some(Heard::Request(..))
        ));
    }
    assert!(matches!(
        server.receive(id, START),
        Some(Heard::Gone(Cut::HungUp))
    ));
}

/// A child has the socket and goes on asking: the process that connected has ended all the same.
#[test]
fn a_connection_ends_with_its_process_whoever_goes_on_speaking() {
    let (mut server, path) = server("outlived");
    let program = connect(&path);
    server.accept(|| START, &Everybody::named());
    let id = server.ids()[0];
    send(&program, &Request::Status.encode(1));
    server.end_with_process(id);
    assert!(matches!(
        server.receive(id, START),
        Some(Heard::Request(1, _))
    ));
    let mut ended = std::process::Command::new("true")
        .spawn()
        .expect("it starts");
    let pid = rustix::process::Pid::from_child(&ended);
    let flags = rustix::process::PidfdFlags::empty();
    let process = rustix::process::pidfd_open(pid, flags).expect("it is ours");
    ended.wait().expect("ours");
    let connection = server.connections.get_mut(&id);
    connection.expect("connected").peer.process = process;
    send(&program, &Request::Status.encode(2));
    server.end_with_process(id);
    assert!(
        server.receive(id, START).is_none(),
        "it is not heard any more"
    );
    assert_eq!(server.take_ended(), [id]);
    assert_eq!(count(&server, "connections_process_ended"), 1);
}

#[test]
fn what_cannot_be_read_ends_the_connection() {
    let (mut server, path) = server("bad");
    let endless = vec![7; MESSAGE_BYTES_MAX + 1];
    let cut = Request::Resolve {
        ip: [1, 2, 3, 4].into(),
    }
    .encode(1);
    for bytes in [&b"x"[..], &[0; 6], &cut[..9], &endless] {
        let program = connect(&path);
        server.accept(|| START, &Everybody::named());
        let id = server.ids()[0];
        send(&program, bytes);
        assert!(matches!(
            server.receive(id, START),
            Some(Heard::Gone(Cut::BadMessage))
        ));
        assert!(server.is_empty());
    }
    assert_eq!(count(&server, "connections_cut_bad_message"), 4);
}

#[test]
fn a_program_that_does_not_listen_is_cut_off() {
    let (mut server, path) = server("slow");
    let program = connect(&path);
    server.accept(|| START, &Everybody::named());
    let id = server.ids()[0];
    let long = Answer::Refused {
        code: exos_xok::message::Refusal::System,
        text: "x".repeat(1000),
    };
    let mut said = 0;
    while server.say(id, long.encode(1), Vec::new()) {
        said += 1;
        assert!(said < 10_000, "it never ends");
    }
    assert_eq!(count(&server, "connections_cut_slow"), 1);
    assert!(server.is_empty());
    assert_eq!(server.take_ended(), [id]);
    assert!(server.take_ended().is_empty());
    drop(program);
}

/// As on kernels that cannot refuse them.
#[test]
fn descriptors_that_are_sent_to_us_are_not_kept() {
    let (mut server, path) = server_that_is_sent_descriptors("kept-descriptors");
    let program = connect(&path);
    server.accept(|| START, &Everybody::named());
    let id = server.ids()[0];
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let theirs = OwnedFd::from(theirs);
    send_with(&program, &Request::Status.encode(1), &theirs).expect("room");
    drop(theirs);
    assert!(matches!(
        server.receive(id, START),
        Some(Heard::Gone(Cut::BadMessage))
    ));
    // Soon nobody has the other end any more.
    let read = std::io::Read::read(&mut &ours, &mut [0; 1]).expect("the end");
    assert_eq!(read, 0);
}

#[test]
fn one_user_cannot_keep_the_others_out() {
    let (mut server, path) = server("many");
    let mut programs = Vec::new();
    for _ in 0..CONNECTIONS_PER_USER_MAX + 3 {
        programs.push(connect(&path));
        server.accept(|| START, &Everybody::named());
    }
    assert_eq!(server.len(), CONNECTIONS_PER_USER_MAX);
    assert_eq!(count(&server, "connections_refused_too_many"), 3);
    assert!(server.silent(HELLO_TIME).is_empty());
    let late = HELLO_TIME + Now::from_millis(1);
    assert_eq!(server.silent(late).len(), CONNECTIONS_PER_USER_MAX);
    // What it has said waits for its turn.
    send(&programs[0], &Request::Hello { version: VERSION }.encode(1));
    assert_eq!(server.silent(late).len(), CONNECTIONS_PER_USER_MAX - 1);
}

/// A policy may allow a user more programs than that.
#[test]
fn who_may_have_more_programs_has_more_connections() {
    let (mut server, path) = server("more");
    let guests = Everybody {
        connections_max: CONNECTIONS_PER_USER_MAX + 10,
        ..Everybody::named()
    };
    let mut programs = Vec::new();
    for _ in 0..guests.connections_max + 3 {
        programs.push(connect(&path));
        server.accept(|| START, &guests);
    }
    assert_eq!(server.len(), guests.connections_max);
    assert_eq!(count(&server, "connections_refused_too_many"), 3);
}

/// Fills the server as if connections of this many other users were there, of one standing.
fn fill(server: &mut Server, path: &Path, connections: usize, standing: Standing) -> Vec<OwnedFd> {
    let mut programs = Vec::new();
    for _ in 0..connections {
        programs.push(connect(path));
        server.accept(|| START, &Everybody::of(standing));
        let user = 100_000 + server.last as u32;
        let connection = server.connections.get_mut(&server.last);
        connection.expect("it was let in").peer.uid = user;
    }
    programs
}

/// The last words of a daemon that has closed the connection.
fn last_words(program: &OwnedFd) -> Option<FromDaemon> {
    let words = hear(program);
    let mut byte = [0];
    let end = rustix::net::recv(program, &mut byte[..], RecvFlags::DONTWAIT);
    assert!(matches!(end, Ok((0, _)) | Err(Errno::CONNRESET)), "{end:?}");
    words
}

const FULL: FromDaemon = FromDaemon::Notice(Notice::Goodbye(Farewell::Full));

#[test]
fn who_connects_again_and_again_keeps_nobody_longer_than_a_turn() {
    let (mut server, path) = server("newcomers");
    let crowd: Vec<OwnedFd> = (0..20).map(|_| connect(&path)).collect();
    // Each takes a quarter of the time.
    let ticks = std::cell::Cell::new(0);
    let clock = || START + NEWCOMERS_TIME / 4 * ticks.replace(ticks.get() + 1);
    for turn in 1..=5 {
        server.accept(clock, &Everybody::named());
        assert_eq!(server.len(), 4 * turn);
    }
    drop(crowd);
}

#[test]
fn users_whom_nobody_names_cannot_keep_the_others_out() {
    let (mut server, path) = server("crowd");
    let most = CONNECTIONS.most(Standing::Unnamed);
    let _crowd = fill(&mut server, &path, most, Standing::Unnamed);
    let turned_away = connect(&path);
    send(&turned_away, &Request::Status.encode(1));
    server.accept(|| START, &Everybody::of(Standing::Unnamed));
    assert_eq!((server.len(), last_words(&turned_away)), (most, Some(FULL)));
    assert_eq!(count(&server, "connections_refused_too_many"), 1);
    for standing in [Standing::Member, Standing::Named, Standing::Own] {
        let more = CONNECTIONS.most(standing) - server.len();
        let _all = fill(&mut server, &path, more, standing);
        assert_eq!(server.len(), CONNECTIONS.most(standing), "{standing:?}");
        if standing < Standing::Own {
            let late = connect(&path);
            server.accept(|| START, &Everybody::of(standing));
            assert_eq!(last_words(&late), Some(FULL));
        }
    }
}

#[test]
fn one_that_holds_nothing_makes_room_when_it_has_had_its_time() {
    KINDS.into_iter().for_each(makes_room);
}

fn makes_room(server: Make) {
    let (mut server, path) = server("room");
    let most = CONNECTIONS.most(Standing::Unnamed);
    let crowd = fill(&mut server, &path, most, Standing::Unnamed);
    let mut guests = Everybody::of(Standing::Unnamed);
    let ids = server.ids();
    // The first holds something, the second has asked lately, so the third is idle for longest.
    guests.holding.push(ids[0]);
    send(&crowd[1], &Request::Status.encode(1));
    server.receive(ids[1], START + Now::from_secs(1));
    let early = connect(&path);
    server.accept(|| START + SLOTLESS_TIME - Now::from_millis(1), &guests);
    assert_eq!(last_words(&early), Some(FULL));
    let _newcomer = connect(&path);
    server.accept(|| START + SLOTLESS_TIME, &guests);
    assert_eq!(server.len(), most);
    assert!(server.connection(ids[2]).is_none() && server.connection(ids[1]).is_some());
    assert_eq!(last_words(&crowd[2]), Some(FULL));
    assert_eq!(count(&server, "connections_cut_made_room"), 1);
    assert_eq!(server.take_ended(), [ids[2]]);
    // When all hold something nobody makes room; and nobody does for one whom the policy knows less.
    guests.holding = server.ids();
    let late = connect(&path);
    server.accept(|| START + SLOTLESS_TIME, &guests);
    assert_eq!(last_words(&late), Some(FULL));
    server.set_standings(|_| Standing::Named);
    let more = CONNECTIONS.most(Standing::Named) - server.len();
    let _named = fill(&mut server, &path, more, Standing::Named);
    let late = connect(&path);
    let later = START + SLOTLESS_TIME * 2;
    server.accept(|| later, &Everybody::of(Standing::Unnamed));
    assert_eq!(last_words(&late), Some(FULL));
    assert_eq!(count(&server, "connections_cut_made_room"), 1);
}

/// After a start anyone who comes first does not take the places of those who are about to come back.
#[test]
fn there_is_room_for_who_comes_back() {
    KINDS.into_iter().for_each(comes_back);
}

fn comes_back(server: Make) {
    const AWAY: usize = 3;
    const ABSENT: u32 = 7;
    let (mut server, path) = server("back");
    let most = CONNECTIONS.most(Standing::Unnamed);
    let _crowd = fill(&mut server, &path, most - AWAY, Standing::Unnamed);
    let awaiting = |uid, present| Everybody {
        awaited: vec![Awaited {
            uid,
            standing: Standing::Unnamed,
            away: AWAY,
            present,
        }],
        ..Everybody::of(Standing::Unnamed)
    };
    let stranger = connect(&path);
    server.accept(|| START, &awaiting(ABSENT, 0));
    assert_eq!(last_words(&stranger), Some(FULL), "another's");
    // One of the crowd is theirs, beside their slots: that is one of the three. As a slot's it is not.
    let first = server.ids()[0];
    server
        .connections
        .get_mut(&first)
        .expect("it is there")
        .peer
        .uid = ABSENT;
    let stranger = connect(&path);
    server.accept(|| START, &awaiting(ABSENT, 1));
    assert_eq!(last_words(&stranger), Some(FULL), "another's");
    let mut let_in = vec![connect(&path)];
    server.accept(|| START, &awaiting(ABSENT, 0));
    assert_eq!(server.len(), most - AWAY + 1);
    // And who is awaited themselves finds what is left.
    let ours = rustix::process::geteuid().as_raw();
    while server.len() < most {
        let_in.push(connect(&path));
        let before = server.len();
        server.accept(|| START, &awaiting(ours, 0));
        assert_eq!(server.len(), before + 1);
    }
}

#[test]
fn a_user_whom_nobody_names_has_a_few() {
    let (mut server, path) = server("few");
    let connect = |_| connect(&path);
    let _programs: Vec<_> = (0..CONNECTIONS_UNNAMED_MAX + 3).map(connect).collect();
    server.accept(|| START, &Everybody::of(Standing::Unnamed));
    assert_eq!(server.len(), CONNECTIONS_UNNAMED_MAX);
    assert_eq!(count(&server, "connections_refused_too_many"), 3);
}

#[test]
fn a_socket_that_nobody_answers_is_replaced_and_another_is_not() {
    let (server, path) = server("twice");
    let error = Server::listen(&path).expect_err("it is taken");
    assert!(error.to_string().contains("--replace"), "{error}");
    let Server { listener, .. } = &server;
    rustix::net::shutdown(listener, rustix::net::Shutdown::Both).expect("it listens");
    std::mem::forget(server); // As if killed: the path stays.
    let again = Server::listen(&path).expect("nobody answers");
    drop(again);
    assert!(!path.exists());
}

/// Sends a message with a descriptor.
fn send_with(socket: &OwnedFd, bytes: &[u8], fd: &OwnedFd) -> Result<(), Errno> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd()];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    let parts = [std::io::IoSlice::new(bytes)];
    rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// Runs a test in a process of its own. Other tests start programs, which have copies of all sockets for a moment, and who
/// closes a socket then does not wait.
fn alone(test: &str, part: impl FnOnce()) {
    if exos_testing::role().is_some() {
        part();
        exos_testing::done();
    }
    assert!(exos_testing::is_done(exos_testing::play(test, "alone")));
}

/// A TCP socket that takes an hour to be closed, and the peer that does not read what it sends.
fn lingering() -> (OwnedFd, std::net::TcpStream) {
    use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
    use std::io::Write as _;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    // So that what is sent stays with the sender, for the most part, however late it is delivered.
    set_socket_recv_buffer_size(&listener, 4096).expect("a socket");
    let at = listener.local_addr().expect("it is bound");
    let mut stream = std::net::TcpStream::connect(at).expect("it listens");
    set_socket_send_buffer_size(&stream, 1 << 18).expect("a socket");
    let (peer, _) = listener.accept().expect("it is connected");
    let hour = Some(std::time::Duration::from_secs(3600));
    rustix::net::sockopt::set_socket_linger(&stream, hour).expect("a TCP socket");
    stream.set_nonblocking(true).expect("a socket");
    while stream.write(&[0; 1 << 16]).is_ok() {}
    (stream.into(), peer)
}

/// Where the kernel can, it refuses descriptors to the one that connects, before they are on their way; else they end the
/// connection.
#[test]
fn descriptors_are_not_taken() {
    let (mut server, path) = server("descriptors");
    let program = connect(&path);
    let file = OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
    let sent = send_with(&program, &Request::Status.encode(1), &file);
    server.accept(|| START, &Everybody::named());
    let id = server.ids()[0];
    match sent {
        Err(error) => {
            assert_eq!(error, Errno::PERM);
            send(&program, &Request::Status.encode(1));
            assert!(matches!(
                server.receive(id, START),
                Some(Heard::Request(1, Request::Status))
            ));
        }
        Ok(()) => assert!(matches!(
            server.receive(id, START),
            Some(Heard::Gone(Cut::BadMessage))
        )),
    }
}

/// As on kernels that cannot refuse them: what has not been looked at is not received, since it may have descriptors.
#[test]
fn a_message_that_comes_after_the_look_is_left_alone() {
    let (mut server, path) = server_that_is_sent_descriptors("look");
    let program = connect(&path);
    server.accept(|| START, &Everybody::named());
    let socket = &server.connections.values().next().expect("let in").socket;
    assert_eq!(server.closing.next(socket), Next::Nothing);
    send(&program, &Request::Status.encode(1));
    assert_eq!(server.closing.next(socket), Next::Plain);
    let id = server.ids()[0];
    assert!(server.receive(id, START).is_some());
    let file = OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
    send_with(&program, &Request::Status.encode(1), &file).expect("it is taken");
    let socket = &server.connections[&id].socket;
    assert_eq!(server.closing.next(socket), Next::Descriptors);
    drop(program);
    let (gone, _) = UnixStream::pair().expect("a pair");
    assert_eq!(
        server.closing.next(gone),
        Next::Plain,
        "the end is to be seen"
    );
}

/// How many descriptors this process has.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("ours").count()
}

/// As on kernels that cannot refuse them: descriptors that take an hour to be closed, in messages that are received, in some
/// that are not, and of a user who has too many connections. Nobody waits for them, they keep nothing, and they keep nobody
/// out.
#[test]
fn what_takes_long_to_be_closed_keeps_nobody() {
    alone(
        "server::tests::what_takes_long_to_be_closed_keeps_nobody",
        || {
            let (done, over) = std::sync::mpsc::channel();
            // On a thread, so that waiting is seen.
            std::thread::spawn(move || {
                close_what_takes_long();
                done.send(())
            });
            let patience = std::time::Duration::from_secs(60);
            over.recv_timeout(patience).expect("nobody waits");
        },
    );
}

fn close_what_takes_long() {
    let (mut server, path) = server_that_is_sent_descriptors("lingering");
    let mut peers = Vec::new();
    let mut connect_with_lingering = || {
        let client = connect(&path);
        let (socket, peer) = lingering();
        peers.push(peer);
        send_with(&client, &Request::Status.encode(1), &socket).expect("it is taken");
        client
    };
    let before = descriptors();
    let clients: Vec<_> = (0..6).map(|_| connect_with_lingering()).collect();
    server.accept(|| START, &Everybody::named());
    let ids = server.ids();
    assert!(matches!(
        server.receive(ids[0], START),
        Some(Heard::Gone(Cut::BadMessage))
    ));
    server.cut(ids[1], Cut::Silent);
    drop(clients);
    for id in &ids[2..] {
        assert!(server.receive(*id, START).is_some());
    }
    assert!(server.is_empty());
    let programs: Vec<_> = (0..CONNECTIONS_PER_USER_MAX)
        .map(|_| connect(&path))
        .collect();
    server.accept(|| START, &Everybody::named());
    assert_eq!(server.len(), programs.len());
    for turned_away in 1..=600 {
        match turned_away % 10 {
            0 => drop(connect_with_lingering()),
            _ => drop(connect(&path)),
        }
        server.accept(|| START, &Everybody::named());
        assert_eq!(count(&server, "connections_refused_too_many"), turned_away);
    }
    // Each that is connected has two here, and one at its other end.
    assert_eq!(descriptors(), before + 3 * programs.len() + peers.len());
    // All of this was somebody else, then: strangers have what is theirs.
    for connection in server.connections.values_mut() {
        connection.peer.uid = 7;
    }
    let most = CONNECTIONS.most(Standing::Unnamed);
    let _strangers = fill(&mut server, &path, most, Standing::Unnamed);
    assert_eq!(server.len(), programs.len() + most);
}

/// Connections that end in every way, of which one has a descriptor with it.
pub(crate) fn come_and_go(mut server: Server, path: &Path) {
    let file = OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
    let [leaves, sends, cut] = [(); 3].map(|()| connect(path));
    send_with(&sends, &Request::Status.encode(1), &file).expect("it is taken");
    server.accept(|| START, &Everybody::named());
    let ids = server.ids();
    drop(leaves);
    for (id, why) in [(ids[0], Cut::HungUp), (ids[1], Cut::BadMessage)] {
        assert!(matches!(server.receive(id, START), Some(Heard::Gone(cut)) if cut == why));
    }
    server.cut(ids[2], Cut::Silent);
    assert_eq!(hear(&cut), None);
    let _last = connect(path);
    server.accept(|| START, &Everybody::named());
    assert_eq!(server.len(), 1);
    drop(server);
}
