//! One connection of a client's, joined with one to a server: how it begins, goes on and ends. All system calls on its
//! sockets are here and in `pipe`.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use exos_inet::Instant;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sockopt};

use super::pipe::{Direction, Pool, Ready};
use crate::limits::{CONNECT_TIME, ESTABLISHED_TIME, HALF_CLOSED_TIME};

/// Which of the two sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The server has not answered yet; nothing of the client's is read before.
    Connecting,
    /// Bytes go both ways.
    Joined,
    /// One side has ended.
    HalfClosed,
    /// Both have.
    Over,
}

/// Why it ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The server could not be reached.
    Connect(Errno),
    /// A socket broke while bytes went through.
    Broken(Errno),
}

/// A client's connection and its server's.
pub(super) struct Connection {
    client: OwnedFd,
    server: OwnedFd,
    ready: [Ready; 2],
    /// To the server, and to the client.
    ways: [Direction; 2],
    pub state: State,
    /// What the server is to be told first of all.
    preface: Vec<u8>,
    /// When something happened last.
    pub seen: Instant,
    /// Where it is listed by its deadline.
    pub listed: Instant,
    /// It has something to do in this turn, or the next.
    pub is_to_go_on: bool,
    /// The listener's place, and the server's.
    pub to: (usize, usize),
}

impl Connection {
    /// Of a client, and of a server that has not answered yet.
    pub fn new(now: Instant, sockets: [OwnedFd; 2], to: (usize, usize), preface: Vec<u8>) -> Self {
        let [client, server] = sockets;
        Self {
            client,
            server,
            ready: Default::default(),
            ways: Default::default(),
            state: State::Connecting,
            preface,
            seen: now,
            listed: now,
            is_to_go_on: false,
            to,
        }
    }

    pub fn socket(&self, side: Side) -> &OwnedFd {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    /// Bytes that went to the server, and to the client.
    pub fn bytes(&self) -> [u64; 2] {
        [self.ways[0].bytes, self.ways[1].bytes]
    }

    /// When it ends if nothing happens.
    pub fn deadline(&self) -> Instant {
        self.seen + self.patience()
    }

    fn patience(&self) -> Duration {
        match self.state {
            State::Connecting => CONNECT_TIME,
            State::Joined => ESTABLISHED_TIME,
            State::HalfClosed | State::Over => HALF_CLOSED_TIME,
        }
    }

    /// There may be more to do, of which epoll does not tell again.
    pub fn is_unfinished(&self) -> bool {
        self.ways.iter().any(|way| way.unfinished)
    }

    /// What epoll tells of one of its sockets.
    pub fn hear(&mut self, side: Side, flags: EventFlags) {
        let any = |wanted: EventFlags| flags.intersects(wanted);
        let ready = &mut self.ready[side as usize];
        let broken = EventFlags::ERR | EventFlags::HUP;
        ready.readable |= any(EventFlags::IN | EventFlags::RDHUP | broken);
        ready.writable |= any(EventFlags::OUT | broken);
    }

    /// Does what can be done now, after what was heard.
    ///
    /// # Errors
    ///
    /// It is over, and not in order.
    pub fn go_on(&mut self, now: Instant, pool: &mut Pool) -> Result<(), Fault> {
        if self.state == State::Connecting {
            // Nothing that the client says meanwhile is a sign of the server's.
            if !self.ready[Side::Server as usize].writable {
                return Ok(());
            }
            self.connected()?;
        }
        self.seen = now;
        self.pump(pool).map_err(Fault::Broken)
    }

    /// The server has answered, one way or the other.
    fn connected(&mut self) -> Result<(), Fault> {
        let said = sockopt::socket_error(&self.server).and_then(|said| said);
        said.map_err(Fault::Connect)?;
        self.state = State::Joined;
        Ok(())
    }

    fn pump(&mut self, pool: &mut Pool) -> rustix::io::Result<()> {
        if !self.say_preface()? {
            return Ok(());
        }
        let [client, server] = &mut self.ready;
        let [there, back] = &mut self.ways;
        there.pump((&self.client, client), (&self.server, server), pool)?;
        back.pump((&self.server, server), (&self.client, client), pool)?;
        self.state = match (there.done, back.done) {
            (false, false) => State::Joined,
            (true, true) => State::Over,
            _ => State::HalfClosed,
        };
        Ok(())
    }

    /// True when the server has been told all that comes first.
    fn say_preface(&mut self) -> rustix::io::Result<bool> {
        while !self.preface.is_empty() {
            match rustix::net::send(&self.server, &self.preface, SendFlags::NOSIGNAL) {
                Ok(count) => drop(self.preface.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.ready[Side::Server as usize].writable = false;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Its pipes are others' again, as far as they are empty.
    pub fn give_back(&mut self, pool: &mut Pool) {
        self.ways.iter_mut().for_each(|way| way.give_back(pool));
    }

    /// Ends it such that both sides see that it did not end in order: by resets.
    pub fn abort(self) {
        reset(&self.client);
        reset(&self.server);
    }
}

/// Begins a connection to a server.
///
/// # Errors
///
/// There is no descriptor, or no way to the server.
pub(super) fn connect(client: &OwnedFd, at: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = if at.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let server = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    // The sender decides what goes together; we hold nothing back.
    sockopt::set_tcp_nodelay(client, true)?;
    sockopt::set_tcp_nodelay(&server, true)?;
    match rustix::net::connect(&server, &at) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(server),
        Err(error) => Err(error),
    }
}

/// Has a socket end with a reset when it is closed.
pub(super) fn reset(socket: &OwnedFd) {
    // If not, it is closed as if in order, and anyone who still sends is told then.
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}
