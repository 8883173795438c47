//! Every two calls in a row on listeners, in each of their states, on the kernel's and on ours: the results are the same, and so is what
//! each connection is that they give.
//!
//! The clients are the kernel's in both cases; calls do not wait.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use exos::inet::tcp::{Connection, State as TcpState};
use rustix::net::sockopt::set_socket_linger;

use super::posix::{expect_same, said, tcp_info};
use super::{attach, ours};
use crate::common::PATIENCE;

/// What both kinds of listener can do.
trait Listener: Sized {
    type Stream: Accepted;
    fn accept(&self) -> io::Result<(Self::Stream, SocketAddr)>;
    fn clone_and_accept(&self) -> io::Result<(Self::Stream, SocketAddr)>;
    fn first_incoming(&self) -> io::Result<Self::Stream>;
    fn local_addr(&self) -> io::Result<SocketAddr>;
    fn take_error(&self) -> io::Result<Option<io::Error>>;
    fn set_ttl(&self, ttl: u32) -> io::Result<()>;
    fn ttl(&self) -> io::Result<u32>;
    /// Lets time pass in which packets move.
    fn turn(&self);
    /// Connections that nobody has accepted.
    fn waiting(&self) -> usize;
    /// Connections that no peer has reset.
    fn standing(&self) -> usize;
}

/// What both kinds of connection can do.
trait Accepted: Read + Write {
    fn peer_addr(&self) -> io::Result<SocketAddr>;
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()>;
    fn ttl(&self) -> io::Result<u32>;
}

macro_rules! listener {
    ($kind:ty, $stream:ty, $turn:expr, $waiting:expr, $standing:expr) => {
        impl Accepted for $stream {
            fn peer_addr(&self) -> io::Result<SocketAddr> {
                self.peer_addr()
            }
            fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
                self.set_nonblocking(nonblocking)
            }
            fn ttl(&self) -> io::Result<u32> {
                self.ttl()
            }
        }
        impl Listener for $kind {
            type Stream = $stream;
            fn accept(&self) -> io::Result<($stream, SocketAddr)> {
                self.accept()
            }
            fn clone_and_accept(&self) -> io::Result<($stream, SocketAddr)> {
                self.try_clone()?.accept()
            }
            fn first_incoming(&self) -> io::Result<$stream> {
                self.incoming().next().expect("there is always one")
            }
            fn local_addr(&self) -> io::Result<SocketAddr> {
                self.local_addr()
            }
            fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.take_error()
            }
            fn set_ttl(&self, ttl: u32) -> io::Result<()> {
                self.set_ttl(ttl)
            }
            fn ttl(&self) -> io::Result<u32> {
                self.ttl()
            }
            fn turn(&self) {
                #[allow(clippy::redundant_closure_call)]
                ($turn)(self);
            }
            fn waiting(&self) -> usize {
                #[allow(clippy::redundant_closure_call)]
                ($waiting)(self)
            }
            fn standing(&self) -> usize {
                #[allow(clippy::redundant_closure_call)]
                ($standing)(self)
            }
        }
    };
}

listener!(
    std::net::TcpListener,
    TcpStream,
    |_: &Self| thread::yield_now(),
    // Of a listener the kernel says so in place of what is unacknowledged.
    |listener: &Self| tcp_info(listener).unacknowledged as usize,
    |listener: &Self| of_the_kernels(listener.local_addr().unwrap().port())
);
listener!(
    exos::net::TcpListener,
    exos::net::TcpStream,
    |listener: &Self| {
        listener.net().turn().unwrap();
    },
    of_ours,
    of_ours
);

fn of_ours(listener: &exos::net::TcpListener) -> usize {
    let port = listener.local_addr().unwrap().port();
    listener.net().with(|exos| {
        let all = exos.stack.tcp.standing_from(0);
        let is_its = |c: &Connection| c.flow().local().port() == port;
        let stands = |c: &Connection| c.info().state == TcpState::Established;
        all.filter(|(_, c)| is_its(c) && stands(c)).count()
    })
}

/// Connections of this port that the kernel has and that are established (proc_net_tcp.rst in the kernel's documentation). A busy
/// processor delivers what was sent by loopback later.
fn of_the_kernels(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    let is_its = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        let is_local = fields
            .next()
            .is_some_and(|at| at.ends_with(&format!(":{port:04X}")));
        is_local && fields.nth(1) == Some("01")
    };
    table.lines().filter(is_its).count()
}

/// What a listener's connections are, before anybody has accepted one.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum State {
    None,
    One,
    Two,
    /// The client has written.
    Spoken,
    /// It has written, and finished.
    Finished,
    /// It has reset the connection.
    Reset,
    /// It has written, and reset it.
    SpokenAndReset,
}

const STATES: [State; 7] = [
    State::None,
    State::One,
    State::Two,
    State::Spoken,
    State::Finished,
    State::Reset,
    State::SpokenAndReset,
];

#[derive(Copy, Clone, Debug)]
enum Call {
    Accept,
    AcceptByAClone,
    Incoming,
    LocalAddr,
    TakeError,
    Ttl,
}

const CALLS: [Call; 6] = [
    Call::Accept,
    Call::AcceptByAClone,
    Call::Incoming,
    Call::LocalAddr,
    Call::TakeError,
    Call::Ttl,
];

fn until<L: Listener>(listener: &L, state: State, mut seen: impl FnMut(&L) -> bool) {
    let began = Instant::now();
    while !seen(listener) {
        assert!(began.elapsed() < PATIENCE, "{state:?} does not come about");
        listener.turn();
    }
}

/// Brings a listener, which others reach at this address, into the state. Gives the clients, and what their addresses are.
fn reach<L: Listener>(state: State, listener: &L, at: IpAddr) -> (Vec<TcpStream>, Vec<SocketAddr>) {
    let at = SocketAddr::new(at, listener.local_addr().unwrap().port());
    let count = match state {
        State::None => 0,
        State::Two => 2,
        _ => 1,
    };
    let mut clients = Vec::new();
    for waiting in 1..=count {
        let connecting = thread::spawn(move || TcpStream::connect_timeout(&at, PATIENCE).unwrap());
        until(listener, state, |_| connecting.is_finished());
        clients.push(connecting.join().unwrap());
        until(listener, state, |listener| listener.waiting() == waiting);
    }
    let addresses = clients.iter().map(|c| c.local_addr().unwrap()).collect();
    let Some(client) = clients.last_mut() else {
        return (clients, addresses);
    };
    if matches!(
        state,
        State::Spoken | State::Finished | State::SpokenAndReset
    ) {
        client.write_all(b"hello").unwrap();
    }
    if state == State::Finished {
        client.shutdown(Shutdown::Write).unwrap();
    }
    until(listener, state, |_| tcp_info(client).unacknowledged == 0);
    if matches!(state, State::Reset | State::SpokenAndReset) {
        set_socket_linger(&*client, Some(Duration::ZERO)).unwrap();
        clients.clear();
        until(listener, state, |listener| listener.standing() == 0);
    }
    (clients, addresses)
}

/// Which client's it is, whether it waits, and what it reads and writes.
fn described<S: Accepted>(mut stream: S, clients: &[SocketAddr]) -> String {
    let of = stream
        .peer_addr()
        .map(|at| clients.iter().position(|client| *client == at));
    let mut results = vec![said(of), said(stream.ttl())];
    stream.set_nonblocking(true).unwrap();
    for _ in 0..3 {
        let mut bytes = [0; 4];
        results.push(said(
            stream.read(&mut bytes).map(|count| bytes[..count].to_vec()),
        ));
    }
    results.push(said(stream.write(b"word")));
    results.join(", ")
}

fn call<L: Listener>(call: Call, listener: &L, clients: &[SocketAddr]) -> String {
    let accepted = |accepted: io::Result<(L::Stream, SocketAddr)>| {
        said(accepted.map(|(stream, peer)| {
            let of = clients.iter().position(|client| *client == peer);
            (of, described(stream, clients))
        }))
    };
    match call {
        Call::Accept => accepted(listener.accept()),
        Call::AcceptByAClone => accepted(listener.clone_and_accept()),
        Call::Incoming => said(
            listener
                .first_incoming()
                .map(|stream| described(stream, clients)),
        ),
        Call::LocalAddr => said(listener.local_addr().map(|at| at.port() != 0)),
        Call::TakeError => said(listener.take_error().map(|error| error.map(|e| e.kind()))),
        Call::Ttl => {
            let wrong = said(listener.set_ttl(0)) + &said(listener.set_ttl(256));
            wrong + &said(listener.set_ttl(9)) + &said(listener.ttl())
        }
    }
}

/// What every two calls give in every state, a line each.
fn table<L: Listener>(at: IpAddr, listen: impl Fn() -> L) -> Vec<String> {
    let mut lines = Vec::new();
    for state in STATES {
        for first in CALLS {
            for second in CALLS {
                let listener = listen();
                let (clients, addresses) = reach(state, &listener, at);
                let results = [first, second].map(|one| call(one, &listener, &addresses));
                lines.push(format!("{state:?}: {first:?}, {second:?}: {results:?}"));
                drop(clients);
            }
        }
    }
    lines
}

#[test]
fn every_two_calls_on_listeners_give_what_the_kernels_do() {
    let Some((net, host)) = attach("every_two_calls_on_listeners_give_what_the_kernels_do") else {
        return;
    };
    let kernels = table(host, || {
        let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    });
    let ours = table(ours(&net), || {
        let listener = exos::net::TcpListener::bind(&net, "0.0.0.0:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    });
    expect_same(&kernels, &ours);
}
