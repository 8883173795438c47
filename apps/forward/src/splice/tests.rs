//! Connections through it, over the loopback interface.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

use exos::clock;
use rustix::net::{AddressFamily, SocketType, sockopt};

use super::choice::{Server, Service};
use super::counters::Counters;
use super::proxy::{self, Version};
use super::splicer::Splicer;
use crate::limits::{CONNECT_TIME, ESTABLISHED_TIME, HALF_CLOSED_TIME, SPLICE_AT_ONCE};
use crate::packets::packet::Transport;
use crate::packets::reach::Reach;
use crate::service::Listen;

/// On a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn listening() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    (listener, at)
}

pub(super) fn splicer(to: SocketAddr, version: Option<Version>, open_max: u32) -> Splicer {
    let service = Service::to_one("127.0.0.1:0".parse().unwrap(), to);
    Splicer::listen(vec![service], version, open_max).unwrap()
}

fn client(at: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(at).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

/// What a forwarder says after its end.
struct Ended {
    counters: Counters,
    pipes_made: u64,
    server: Server,
}

/// A forwarder that runs in a thread of its own.
struct Running {
    at: SocketAddr,
    stop: UnixStream,
    thread: JoinHandle<Ended>,
}

impl Running {
    fn start(to: SocketAddr, version: Option<Version>, open_max: u32) -> Self {
        let (stop, stopped) = UnixStream::pair().unwrap();
        let (say, said) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut splicer = splicer(to, version, open_max);
            say.send(splicer.services[0].at).unwrap();
            run(&mut splicer, &stopped);
            Ended {
                counters: splicer.counters.clone(),
                pipes_made: splicer.pool.made,
                server: splicer.services.remove(0).servers.remove(0),
            }
        });
        let at = said.recv().unwrap();
        Self { at, stop, thread }
    }

    /// Ends it when all connections have ended.
    fn end(mut self) -> Ended {
        self.stop.write_all(&[1]).unwrap();
        self.thread.join().unwrap()
    }
}

fn run(splicer: &mut Splicer, stopped: &UnixStream) {
    stopped.set_nonblocking(true).unwrap();
    splicer.watch(stopped.as_fd()).unwrap();
    let mut stopping = None::<Clock>;
    while stopping.is_none_or(|since| splicer.open() > 0 && since.elapsed() < PATIENCE) {
        splicer.wait(clock::now()).unwrap();
        splicer.handle(clock::now());
        if { stopped }.read(&mut [0]).is_ok() {
            stopping = Some(Clock::now());
        }
    }
}

/// A server of one connection that sends back what it hears, and ends when its client has.
fn echo(listener: TcpListener) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
    })
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|n| (n / 7 + n / 251) as u8).collect()
}

/// A half that is closed stays so: the answer comes after the end of the question.
#[test]
fn bytes_and_ends_go_through() {
    let (listener, to) = listening();
    let server = echo(listener);
    let running = Running::start(to, None, 10);
    let (mut client, sent) = (client(running.at), bytes(3_000_000));
    client.write_all(&sent).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).unwrap();
    assert!(heard == sent, "{} bytes of {}", heard.len(), sent.len());
    server.join().unwrap();
    let ended = running.end();
    let counters = &ended.counters;
    assert_eq!(
        (counters.connections_accepted, counters.connections_closed),
        (1, 1)
    );
    assert_eq!(
        (counters.bytes_to_servers, counters.bytes_to_clients),
        (3_000_000, 3_000_000)
    );
    assert!(
        (1..=2).contains(&ended.pipes_made),
        "{} pipes",
        ended.pipes_made
    );
    assert_eq!((ended.server.begun, ended.server.open), (1, 0));
}

/// What nobody takes is not taken in: what is under way is bounded by the kernel's buffers, and all of it arrives.
#[test]
fn a_receiver_that_does_not_read_stops_the_sender() {
    let (listener, to) = listening();
    let running = Running::start(to, None, 10);
    let mut client = client(running.at);
    let (mut server, _) = listener.accept().unwrap();
    client
        .set_write_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let (block, mut sent) = (bytes(1 << 20), 0);
    loop {
        match client.write(&block) {
            Ok(count) => sent += count,
            Err(error) => {
                assert!(matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut
                ));
                break;
            }
        }
        assert!(sent < 256 << 20, "it takes in whatever comes");
    }
    client.shutdown(Shutdown::Write).unwrap();
    let mut heard = Vec::new();
    server.read_to_end(&mut heard).unwrap();
    assert_eq!(heard.len(), sent);
    drop((client, server));
    running.end();
}

/// A client whose server refuses is told so by a reset.
#[test]
fn a_refusal_is_passed_on() {
    // Nobody listens where a socket is bound and no more.
    let (_bound, to) = bound();
    let running = Running::start(to, None, 10);
    let error = client(running.at).read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let ended = running.end();
    assert_eq!(ended.counters.connect_refused, 1);
    assert_eq!(ended.server.failed, 1);
}

/// And a reset by a reset.
#[test]
fn a_reset_is_passed_on() {
    let (listener, to) = listening();
    let running = Running::start(to, None, 10);
    let mut client = client(running.at);
    client.write_all(b"x").unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.read_exact(&mut [0]).unwrap();
    sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    let error = server.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(running.end().counters.connections_broken, 1);
}

/// The server hears of the client before it hears from it, also where the client says nothing.
#[test]
fn a_server_is_told_of_its_client() {
    for version in [Version::V1, Version::V2] {
        let (listener, to) = listening();
        let running = Running::start(to, Some(version), 10);
        let client = client(running.at);
        let (mut server, _) = listener.accept().unwrap();
        let wanted = proxy::header(version, client.local_addr().unwrap(), running.at);
        let mut heard = vec![0; wanted.len()];
        server.read_exact(&mut heard).unwrap();
        assert_eq!(heard, wanted);
        (&client).write_all(b"and this").unwrap();
        drop(client);
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"and this");
        drop(server);
        running.end();
    }
}

/// With as many connections as there may be, the next client waits until one has ended.
#[test]
fn clients_wait_for_room() {
    let (listener, to) = listening();
    let running = Running::start(to, None, 1);
    let first = client(running.at);
    let (first_server, _) = listener.accept().unwrap();
    let mut second = client(running.at);
    second.write_all(b"waiting").unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    listener.set_nonblocking(false).unwrap();
    drop((first, first_server));
    let (mut server, _) = listener.accept().unwrap();
    server.set_nonblocking(false).unwrap();
    let mut heard = [0; 7];
    server.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"waiting");
    drop((second, server));
    assert_eq!(running.end().counters.connections_closed, 2);
}

/// However much there is of one connection, others have their turn; and it goes on by itself.
#[test]
fn a_turn_moves_a_bounded_part() {
    const ALL: usize = 8 << 20;
    let (listener, to) = listening();
    let mut splicer = splicer(to, None, 10);
    let mut client = client(splicer.services[0].at);
    let sender = std::thread::spawn(move || client.write_all(&bytes(ALL)).unwrap());
    accept_all(&mut splicer, 1);
    let (mut server, _) = listener.accept().unwrap();
    server.set_nonblocking(true).unwrap();
    let mut all = Vec::new();
    while all.len() < ALL {
        splicer.wait(clock::now()).unwrap();
        let before = splicer.bytes_moved();
        splicer.handle(clock::now());
        // What one way moves until it has enough, and the call that goes beyond it. The server may hear of it later.
        let moved = splicer.bytes_moved() - before;
        assert!(moved <= 2 * SPLICE_AT_ONCE as u64, "{moved}");
        let _ = server.read_to_end(&mut all);
    }
    assert!(all == bytes(ALL));
    sender.join().unwrap();
}

/// A socket of a port of its own.
fn bound() -> (OwnedFd, SocketAddr) {
    let made = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    rustix::net::bind(&made, &any).unwrap();
    let to = SocketAddr::try_from(rustix::net::getsockname(&made).unwrap()).unwrap();
    (made, to)
}

/// A server that does not answer: one client that waits to be accepted fills its queue, and the kernel then drops SYNs.
fn silent_server() -> (OwnedFd, TcpStream, SocketAddr) {
    let (full, to) = bound();
    rustix::net::listen(&full, 0).unwrap();
    let waiting = TcpStream::connect(to).unwrap();
    (full, waiting, to)
}

/// A server that does not answer, and a connection on which nothing is said, are given up.
#[test]
fn silence_ends_a_connection() {
    let (_full, _waiting, to) = silent_server();
    let mut silent = splicer(to, None, 10);
    let begun = clock::now();
    let mut first = client(silent.services[0].at);
    accept_all(&mut silent, 1);
    silent.handle(begun + CONNECT_TIME / 2);
    assert_eq!(silent.open(), 1);
    silent.handle(clock::now() + CONNECT_TIME);
    assert_eq!((silent.open(), silent.counters.connect_timed_out), (0, 1));
    assert_eq!(
        first.read(&mut [0; 1]).unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );

    let (listener, to) = listening();
    let mut idle = splicer(to, None, 10);
    let _client = client(idle.services[0].at);
    accept_all(&mut idle, 1);
    let _server = listener.accept().unwrap();
    let begun = Clock::now();
    // Until it is told that the connection stands.
    while idle.is_connecting() && begun.elapsed() < PATIENCE {
        idle.wait(clock::now()).unwrap();
        idle.handle(clock::now());
    }
    idle.handle(clock::now() + CONNECT_TIME);
    assert_eq!(idle.open(), 1, "it stands");
    idle.handle(clock::now() + ESTABLISHED_TIME);
    assert_eq!((idle.open(), idle.counters.connections_expired), (0, 1));
}

/// With one side ended it is half an hour, not what it was when both were there.
#[test]
fn a_half_that_is_silent_ends_sooner() {
    let (listener, to) = listening();
    let mut splicer = splicer(to, None, 10);
    let client = client(splicer.services[0].at);
    accept_all(&mut splicer, 1);
    let (mut server, _) = listener.accept().unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    server.set_nonblocking(true).unwrap();
    // Until the server is told.
    while server.read(&mut [0; 1]).is_err() {
        splicer.wait(clock::now()).unwrap();
        splicer.handle(clock::now());
    }
    splicer.handle(clock::now() + HALF_CLOSED_TIME / 2);
    assert_eq!(splicer.open(), 1);
    splicer.handle(clock::now() + HALF_CLOSED_TIME);
    assert_eq!(
        (splicer.open(), splicer.counters.connections_expired),
        (0, 1)
    );
}

/// A client that goes on talking does not prolong the time that a server has to answer.
#[test]
fn a_client_that_talks_is_no_answer() {
    let (_full, _waiting, to) = silent_server();
    let mut splicer = splicer(to, None, 10);
    let mut client = client(splicer.services[0].at);
    accept_all(&mut splicer, 1);
    let begun = clock::now();
    client.write_all(b"are you there?").unwrap();
    // It is heard, some seconds later as far as the forwarder knows.
    splicer.wait(clock::now()).unwrap();
    splicer.handle(begun + CONNECT_TIME / 2);
    assert_eq!(splicer.open(), 1);
    splicer.handle(clock::now() + CONNECT_TIME);
    assert_eq!((splicer.open(), splicer.counters.connect_timed_out), (0, 1));
}

pub(super) fn accept_all(splicer: &mut Splicer, count: u32) {
    while splicer.open() < count {
        splicer.wait(clock::now()).unwrap();
        splicer.handle(clock::now());
    }
}

impl Service {
    fn to_one(at: SocketAddr, to: SocketAddr) -> Self {
        let listen = Listen {
            transport: Transport::Tcp,
            at,
            reach: Reach::Nat,
            to: vec![(to, 1, at.ip())],
        };
        Self::new(&listen).unwrap()
    }
}
