//! Every two calls in a row on sockets for datagrams, in each of their states, on the kernel's and on ours: the results are the same.
//!
//! The peer is the kernel's in both cases; calls do not wait.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket as Peer};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::posix::{expect_same, said};
use super::{attach, ours};
use crate::common::PATIENCE;

/// What both kinds of socket can do.
trait Datagrams: Sized {
    fn recv(&self, into: &mut [u8]) -> io::Result<usize>;
    fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
    fn peek(&self, into: &mut [u8]) -> io::Result<usize>;
    fn peek_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
    fn clone_and_recv(&self, into: &mut [u8]) -> io::Result<usize>;
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;
    fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize>;
    fn connect(&self, to: SocketAddr) -> io::Result<()>;
    fn local_addr(&self) -> io::Result<SocketAddr>;
    fn peer_addr(&self) -> io::Result<SocketAddr>;
    fn take_error(&self) -> io::Result<Option<io::Error>>;
    fn set_ttl(&self, ttl: u32) -> io::Result<()>;
    fn ttl(&self) -> io::Result<u32>;
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()>;
    fn read_timeout(&self) -> io::Result<Option<Duration>>;
    /// Lets time pass in which packets move.
    fn turn(&self);
    /// How often ICMP has told of a datagram that did not arrive, as far as that is seen without asking for the error.
    fn refusals(&self) -> u64;
}

macro_rules! datagrams {
    ($kind:ty, $turn:expr, $refusals:expr, $($name:ident($($argument:ident: $of:ty),*) -> $result:ty;)*) => {
        impl Datagrams for $kind {
            fn clone_and_recv(&self, into: &mut [u8]) -> io::Result<usize> {
                self.try_clone()?.recv(into)
            }
            fn turn(&self) {
                #[allow(clippy::redundant_closure_call)]
                ($turn)(self);
            }
            fn refusals(&self) -> u64 {
                #[allow(clippy::redundant_closure_call)]
                ($refusals)(self)
            }
            $(fn $name(&self, $($argument: $of),*) -> io::Result<$result> {
                self.$name($($argument),*)
            })*
        }
    };
    ($($kind:ty: $turn:expr, $refusals:expr;)*) => {
        $(datagrams! { $kind, $turn, $refusals,
            recv(into: &mut [u8]) -> usize;
            recv_from(into: &mut [u8]) -> (usize, SocketAddr);
            peek(into: &mut [u8]) -> usize;
            peek_from(into: &mut [u8]) -> (usize, SocketAddr);
            send(bytes: &[u8]) -> usize;
            send_to(bytes: &[u8], to: SocketAddr) -> usize;
            connect(to: SocketAddr) -> ();
            local_addr() -> SocketAddr;
            peer_addr() -> SocketAddr;
            take_error() -> Option<io::Error>;
            set_ttl(ttl: u32) -> ();
            ttl() -> u32;
            set_read_timeout(time: Option<Duration>) -> ();
            read_timeout() -> Option<Duration>;
        })*
    };
}

datagrams!(
    std::net::UdpSocket: |_: &Self| std::thread::yield_now(), |socket: &Self| {
        let mut fds = [PollFd::new(socket, PollFlags::empty())];
        poll(&mut fds, Some(&Timespec::default())).unwrap();
        fds[0].revents().contains(PollFlags::ERR).into()
    };
    exos::net::UdpSocket: |socket: &Self| socket.net().turn().unwrap(),
        |socket: &Self| socket.net().with(|exos| exos.stack.counters().icmp_errors_received);
);

#[derive(Copy, Clone, Debug)]
enum State {
    Fresh,
    /// A datagram has come.
    Unread,
    /// One without bytes has.
    EmptyUnread,
    Connected,
    ConnectedUnread,
    /// Nobody was at the peer's port, which the program has not heard.
    Refused,
    UnreadAndRefused,
}

const STATES: [State; 7] = [
    State::Fresh,
    State::Unread,
    State::EmptyUnread,
    State::Connected,
    State::ConnectedUnread,
    State::Refused,
    State::UnreadAndRefused,
];

#[derive(Copy, Clone, Debug)]
enum Call {
    Recv,
    RecvFrom,
    RecvByAClone,
    RecvNothing,
    Peek,
    PeekFrom,
    Send,
    SendTo,
    SendNothing,
    SendTooMuch,
    Connect,
    LocalAddr,
    PeerAddr,
    TakeError,
    Ttl,
    Timeout,
}

const CALLS: [Call; 16] = [
    Call::Recv,
    Call::RecvFrom,
    Call::RecvByAClone,
    Call::RecvNothing,
    Call::Peek,
    Call::PeekFrom,
    Call::Send,
    Call::SendTo,
    Call::SendNothing,
    Call::SendTooMuch,
    Call::Connect,
    Call::LocalAddr,
    Call::PeerAddr,
    Call::TakeError,
    Call::Ttl,
    Call::Timeout,
];

const WORD: &[u8] = b"hello";

/// The result as text. Of two errors std has no kind: ours have the ones that their calls say.
fn told<T: std::fmt::Debug>(result: io::Result<T>) -> String {
    let number = result.as_ref().err().and_then(io::Error::raw_os_error);
    match number {
        Some(libc::EMSGSIZE) => "InvalidInput".to_owned(),
        Some(libc::EDESTADDRREQ) => "NotConnected".to_owned(),
        _ => said(result),
    }
}

/// What a call gives; of addresses whether they are the peer's, or of all.
fn call(call: Call, socket: &impl Datagrams, peer: SocketAddr) -> String {
    let mut bytes = [0; 3];
    match call {
        Call::Recv => told(socket.recv(&mut bytes)) + &format!("{bytes:?}"),
        Call::RecvFrom => told(
            socket
                .recv_from(&mut bytes)
                .map(|(n, from)| (n, from == peer)),
        ),
        Call::RecvByAClone => told(socket.clone_and_recv(&mut bytes)),
        Call::RecvNothing => told(socket.recv(&mut [])),
        Call::Peek => told(socket.peek(&mut bytes)) + &format!("{bytes:?}"),
        Call::PeekFrom => told(
            socket
                .peek_from(&mut bytes)
                .map(|(n, from)| (n, from == peer)),
        ),
        Call::Send => told(socket.send(b"word")),
        Call::SendTo => told(socket.send_to(b"word", peer)),
        Call::SendNothing => told(socket.send_to(&[], peer)),
        Call::SendTooMuch => told(socket.send_to(&[0; 65_508], peer)),
        Call::Connect => told(socket.connect(peer)),
        Call::LocalAddr => told(socket.local_addr().map(|at| at.port() != 0)),
        Call::PeerAddr => told(socket.peer_addr().map(|at| at == peer)),
        Call::TakeError => told(socket.take_error().map(|error| error.map(|e| e.kind()))),
        Call::Ttl => told(socket.set_ttl(0)) + &told(socket.set_ttl(9)) + &told(socket.ttl()),
        Call::Timeout => {
            let none = told(socket.set_read_timeout(Some(Duration::ZERO)));
            let set = told(socket.set_read_timeout(Some(Duration::from_millis(80))));
            none + &set + &told(socket.read_timeout())
        }
    }
}

/// Brings a socket, which others reach at this address, into the state.
fn reach<S: Datagrams>(state: State, socket: &S, at: IpAddr, peer: &mut Option<Peer>) {
    let until = |seen: &dyn Fn(&S) -> bool| {
        let began = Instant::now();
        while !seen(socket) {
            assert!(
                began.elapsed() < PATIENCE,
                "{state:?} does not come about, {} refusals",
                socket.refusals()
            );
            socket.turn();
        }
    };
    let peer_at = peer.as_ref().unwrap().local_addr().unwrap();
    if !matches!(state, State::Fresh | State::Unread | State::EmptyUnread) {
        socket.connect(peer_at).unwrap();
    }
    let sent = match state {
        State::Fresh | State::Connected | State::Refused => None,
        State::Unread | State::ConnectedUnread | State::UnreadAndRefused => Some(WORD),
        State::EmptyUnread => Some(&b""[..]),
    };
    if let (Some(sent), Some(peer)) = (sent, &peer) {
        let to = SocketAddr::new(at, socket.local_addr().unwrap().port());
        peer.send_to(sent, to).unwrap();
        until(&|s| s.peek(&mut [0; 9]).ok() == Some(sent.len()));
    }
    if matches!(state, State::Refused | State::UnreadAndRefused) {
        *peer = None;
        let before = socket.refusals();
        socket.send(b"nobody").unwrap();
        until(&|s| s.refusals() > before);
    }
}

/// What every two calls give in every state, a line each.
fn table<S: Datagrams>(host: IpAddr, at: IpAddr, bind: impl Fn() -> S) -> Vec<String> {
    let mut lines = Vec::new();
    for state in STATES {
        for first in CALLS {
            for second in CALLS {
                let peer = Peer::bind((host, 0)).unwrap();
                let peer_at = peer.local_addr().unwrap();
                let socket = bind();
                let mut peer = Some(peer);
                reach(state, &socket, at, &mut peer);
                let results = [first, second].map(|one| call(one, &socket, peer_at));
                lines.push(format!("{state:?}: {first:?}, {second:?}: {results:?}"));
            }
        }
    }
    lines
}

#[test]
fn every_two_calls_on_datagrams_give_what_the_kernels_do() {
    let Some((net, host)) = attach("every_two_calls_on_datagrams_give_what_the_kernels_do") else {
        return;
    };
    // The peer's kernel says of each datagram that nobody is there, however many these are.
    std::fs::write("/proc/sys/net/ipv4/icmp_ratemask", "0").unwrap();
    let kernels = table(host, host, || {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    });
    let ours = table(host, ours(&net), || {
        let socket = exos::net::UdpSocket::bind(&net, "0.0.0.0:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    });
    expect_same(&kernels, &ours);
}
