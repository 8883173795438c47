//! Every call in every state of a socket, and every two calls in a row, on the kernel's sockets and on ours: the results are the same.
//!
//! The peer is the kernel's in both cases. A state is reached by a script, and seen to be reached before the calls; calls do not wait.

use std::io::{self, IoSliceMut, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use exos::inet::tcp::State as TcpState;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_linger;

use super::attach;
use crate::common::PATIENCE;

/// What both kinds of stream can do.
trait Stream: Sized {
    fn read(&self, into: &mut [u8]) -> io::Result<usize>;
    fn read_vectored(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    fn peek(&self, into: &mut [u8]) -> io::Result<usize>;
    fn shutdown(&self, how: Shutdown) -> io::Result<()>;
    fn take_error(&self) -> io::Result<Option<io::Error>>;
    fn peer_addr(&self) -> io::Result<SocketAddr>;
    fn set_nodelay(&self, nodelay: bool) -> io::Result<()>;
    fn nodelay(&self) -> io::Result<bool>;
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()>;
    fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()>;
    fn read_timeout(&self) -> io::Result<Option<Duration>>;
    fn clone_and_read(&self, into: &mut [u8]) -> io::Result<usize>;
    /// Lets time pass in which packets move.
    fn turn(&self);
    /// The peer has finished, which is seen without reading.
    fn peer_has_finished(&self) -> bool;
    /// The connection has ended, which is seen without asking for the error.
    fn is_over(&self) -> bool;
}

macro_rules! stream {
    ($kind:ty, $turn:expr, $is_over:expr, $peer_has_finished:expr) => {
        impl Stream for $kind {
            fn read(&self, into: &mut [u8]) -> io::Result<usize> {
                (&mut &*self).read(into)
            }
            fn read_vectored(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                (&mut &*self).read_vectored(into)
            }
            fn write(&self, bytes: &[u8]) -> io::Result<usize> {
                (&mut &*self).write(bytes)
            }
            fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
                self.peek(into)
            }
            fn shutdown(&self, how: Shutdown) -> io::Result<()> {
                self.shutdown(how)
            }
            fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.take_error()
            }
            fn peer_addr(&self) -> io::Result<SocketAddr> {
                self.peer_addr()
            }
            fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
                self.set_nodelay(nodelay)
            }
            fn nodelay(&self) -> io::Result<bool> {
                self.nodelay()
            }
            fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
                self.set_read_timeout(time)
            }
            fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
                self.set_write_timeout(time)
            }
            fn read_timeout(&self) -> io::Result<Option<Duration>> {
                self.read_timeout()
            }
            fn clone_and_read(&self, into: &mut [u8]) -> io::Result<usize> {
                (&mut &self.try_clone()?).read(into)
            }
            fn turn(&self) {
                #[allow(clippy::redundant_closure_call)]
                ($turn)(self);
            }
            fn is_over(&self) -> bool {
                #[allow(clippy::redundant_closure_call)]
                ($is_over)(self)
            }
            fn peer_has_finished(&self) -> bool {
                #[allow(clippy::redundant_closure_call)]
                ($peer_has_finished)(self)
            }
        }
    };
}

stream!(
    std::net::TcpStream,
    |_: &Self| std::thread::yield_now(),
    |stream: &Self| {
        let mut fds = [PollFd::new(stream, PollFlags::empty())];
        poll(&mut fds, Some(&Timespec::default())).unwrap();
        fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    },
    |stream: &Self| tcp_state(stream) == CLOSE_WAIT
);
stream!(
    exos::net::TcpStream,
    |stream: &Self| {
        stream.net().turn().unwrap();
    },
    |stream: &Self| stream.info().is_none(),
    |stream: &Self| stream
        .info()
        .is_some_and(|info| info.state == TcpState::CloseWait)
);

/// A state of a connection, and how it comes about.
#[derive(Copy, Clone, Debug)]
enum State {
    Fresh,
    Unread,
    Finished,
    UnreadAndFinished,
    Reset,
    UnreadAndReset,
    WriteShut,
    ReadShut,
    BothShut,
    UnreadAndReadShut,
    /// Both sides have finished.
    Over,
    OverAndUnread,
}

const STATES: [State; 12] = [
    State::Fresh,
    State::Unread,
    State::Finished,
    State::UnreadAndFinished,
    State::Reset,
    State::UnreadAndReset,
    State::WriteShut,
    State::ReadShut,
    State::BothShut,
    State::UnreadAndReadShut,
    State::Over,
    State::OverAndUnread,
];

const WORD: &[u8] = b"hello";

/// The first to be seen within patience.
fn until<S: Stream>(stream: &S, what: State, mut seen: impl FnMut(&S) -> bool) {
    let began = Instant::now();
    while !seen(stream) {
        assert!(began.elapsed() < PATIENCE, "{what:?} does not come about");
        stream.turn();
    }
}

/// Brings a connection into the state. The peer is given back, for as long as it is to live.
fn reach<S: Stream>(
    state: State,
    stream: &S,
    peer: std::net::TcpStream,
) -> Option<std::net::TcpStream> {
    let mut peer = peer;
    let unread = matches!(
        state,
        State::Unread
            | State::UnreadAndFinished
            | State::UnreadAndReset
            | State::UnreadAndReadShut
            | State::OverAndUnread
    );
    if unread {
        peer.write_all(WORD).unwrap();
        until(stream, state, |s| {
            s.peek(&mut [0; 9]).is_ok_and(|count| count == WORD.len())
        });
    }
    let finished = |s: &S| s.peek(&mut [0; 9]).is_ok_and(|count| count == 0);
    match state {
        State::Fresh | State::Unread => {}
        State::WriteShut => stream.shutdown(Shutdown::Write).unwrap(),
        State::ReadShut | State::UnreadAndReadShut => stream.shutdown(Shutdown::Read).unwrap(),
        State::BothShut => stream.shutdown(Shutdown::Both).unwrap(),
        State::Finished => {
            peer.shutdown(Shutdown::Write).unwrap();
            until(stream, state, finished);
        }
        State::UnreadAndFinished => {
            peer.shutdown(Shutdown::Write).unwrap();
            until(stream, state, S::peer_has_finished);
        }
        State::Reset | State::UnreadAndReset => {
            set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
            drop(peer);
            until(stream, state, S::is_over);
            return None;
        }
        State::Over | State::OverAndUnread => {
            stream.shutdown(Shutdown::Write).unwrap();
            until(stream, state, |s| {
                s.turn();
                peer.set_nonblocking(true).unwrap();
                peer.read(&mut [0]).is_ok_and(|count| count == 0)
            });
            peer.shutdown(Shutdown::Write).unwrap();
            if matches!(state, State::Over) {
                until(stream, state, finished);
            }
            until(stream, state, |_| tcp_state(&peer) == CLOSED);
            until(stream, state, |s| {
                s.is_over() || matches!(state, State::OverAndUnread)
            });
        }
    }
    Some(peer)
}

/// States of the kernel's (include/net/tcp_states.h).
const CLOSE_WAIT: u8 = 8;
const CLOSED: u8 = 7;

/// In which state the kernel's end is.
fn tcp_state(socket: &std::net::TcpStream) -> u8 {
    tcp_info(socket).state
}

/// What the kernel knows of a socket of its own (`struct tcp_info`).
pub struct TcpInfo {
    state: u8,
    /// Segments; of a listener connections that wait.
    pub unacknowledged: u32,
}

pub fn tcp_info(socket: &impl AsRawFd) -> TcpInfo {
    let mut info = [0_u8; 256];
    let mut len = info.len() as libc::socklen_t;
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the kernel writes at most `len` bytes.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            info.as_mut_ptr().cast(),
            &mut len,
        )
    };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
    TcpInfo {
        state: info[0],
        unacknowledged: u32::from_ne_bytes(info[24..28].try_into().unwrap()),
    }
}

/// A call, on a socket that does not wait.
#[derive(Copy, Clone, Debug)]
enum Call {
    Read,
    ReadNothing,
    ReadMany,
    ReadByAClone,
    Peek,
    Write,
    WriteNothing,
    ShutdownRead,
    ShutdownWrite,
    ShutdownBoth,
    TakeError,
    PeerAddr,
    Nodelay,
    Timeouts,
}

const CALLS: [Call; 14] = [
    Call::Read,
    Call::ReadNothing,
    Call::ReadMany,
    Call::ReadByAClone,
    Call::Peek,
    Call::Write,
    Call::WriteNothing,
    Call::ShutdownRead,
    Call::ShutdownWrite,
    Call::ShutdownBoth,
    Call::TakeError,
    Call::PeerAddr,
    Call::Nodelay,
    Call::Timeouts,
];

/// What the kernel's sockets say, and what ours say to the same.
pub fn expect_same(kernels: &[String], ours: &[String]) {
    assert_eq!(kernels.len(), ours.len());
    let others: Vec<_> = kernels.iter().zip(ours).filter(|(k, o)| k != o).collect();
    for (kernel, ours) in &others {
        println!("kernel {kernel}\n  ours {ours}");
    }
    assert!(
        others.is_empty(),
        "{} of {} differ",
        others.len(),
        ours.len()
    );
}

/// The result as text, in which an error is its kind.
pub fn said<T: std::fmt::Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?}", error.kind()),
    }
}

fn call<S: Stream>(call: Call, stream: &S, peer_at: SocketAddr) -> String {
    let mut bytes = [0; 3];
    match call {
        Call::Read => said(stream.read(&mut bytes).map(|count| bytes[..count].to_vec())),
        Call::ReadNothing => said(stream.read(&mut [])),
        Call::ReadMany => {
            let (mut one, mut other) = ([0; 2], [0; 9]);
            let mut many = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)];
            said(
                stream
                    .read_vectored(&mut many)
                    .map(|count| (count, one, other)),
            )
        }
        Call::ReadByAClone => said(stream.clone_and_read(&mut bytes)),
        Call::Peek => said(stream.peek(&mut bytes).map(|count| bytes[..count].to_vec())),
        Call::Write => said(stream.write(b"word")),
        Call::WriteNothing => said(stream.write(&[])),
        Call::ShutdownRead => said(stream.shutdown(Shutdown::Read)),
        Call::ShutdownWrite => said(stream.shutdown(Shutdown::Write)),
        Call::ShutdownBoth => said(stream.shutdown(Shutdown::Both)),
        Call::TakeError => said(stream.take_error().map(|error| error.map(|e| e.kind()))),
        Call::PeerAddr => said(stream.peer_addr().map(|at| at == peer_at)),
        Call::Nodelay => {
            let set = said(stream.set_nodelay(false)) + &said(stream.nodelay());
            set + &said(stream.set_nodelay(true)) + &said(stream.nodelay())
        }
        Call::Timeouts => {
            let none = Some(Duration::ZERO);
            let set = said(stream.set_read_timeout(none)) + &said(stream.set_write_timeout(none));
            let time = Some(Duration::from_millis(80));
            let set = set + &said(stream.set_read_timeout(time)) + &said(stream.read_timeout());
            set + &said(stream.set_read_timeout(None)) + &said(stream.read_timeout())
        }
    }
}

/// What every two calls give in every state, a line each.
fn table<S: Stream>(listener: &TcpListener, connect: impl Fn(SocketAddr) -> S) -> Vec<String> {
    let at = listener.local_addr().unwrap();
    let mut lines = Vec::new();
    for state in STATES {
        for first in CALLS {
            for second in CALLS {
                let stream = connect(at);
                let (peer, _) = listener.accept().unwrap();
                let peer = reach(state, &stream, peer);
                let results = call(first, &stream, at);
                if matches!(state, State::Finished | State::UnreadAndFinished)
                    && matches!(first, Call::ShutdownWrite | Call::ShutdownBoth)
                {
                    // Both have finished: that the peer has heard of it comes back.
                    until(&stream, state, S::is_over);
                }
                let results = [results, call(second, &stream, at)];
                lines.push(format!("{state:?}: {first:?}, {second:?}: {results:?}"));
                drop(peer);
            }
        }
    }
    lines
}

#[test]
fn every_two_calls_in_every_state_give_what_the_kernels_do() {
    let Some((net, host)) = attach("every_two_calls_in_every_state_give_what_the_kernels_do")
    else {
        return;
    };
    let listener = TcpListener::bind((host, 0)).unwrap();
    let kernels = table(&listener, |at| {
        let stream = std::net::TcpStream::connect(at).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    });
    let ours = table(&listener, |at| {
        let stream = exos::net::TcpStream::connect(&net, at).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    });
    expect_same(&kernels, &ours);
}
