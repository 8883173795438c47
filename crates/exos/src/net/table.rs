//! What is known of each socket, and who waits for it.
//!
//! A connection is here from the moment it is opened or accepted until it is over for the stack and let go by the program,
//! whichever is later. Its number here is the token that the stack's events carry, plus one: zero is that of a connection
//! nobody has accepted.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::task::Waker;

use exos_inet::limits::HOP_LIMIT;
use exos_inet::tcp::{ConnectionId, Flow, ListenerId, Reason, Share, Tcp};
use exos_inet::udp::{UdpHandle, UdpTable};

use super::errors;
use super::handover::message::Settings;
use crate::limits::{SEND_BUFFER_LEAST, SEND_BUFFER_MOST};
use crate::via::GrantId;

/// What a socket is ready for.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Readiness {
    /// A call that reads or accepts returns at once, be it with the end or an error.
    pub reading: bool,
    /// A call that writes returns at once.
    pub writing: bool,
}

impl Readiness {
    /// What is in both.
    pub fn and(self, other: Self) -> Self {
        Self {
            reading: self.reading && other.reading,
            writing: self.writing && other.writing,
        }
    }

    /// True when there is nothing.
    pub fn is_none(self) -> bool {
        !self.reading && !self.writing
    }
}

/// Who waits for a socket.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// Tasks.
    pub reader: Option<Waker>,
    pub writer: Option<Waker>,
    /// Its registration with a [`Poll`](super::Poll).
    pub watch: Option<usize>,
}

/// A connection of the program's.
#[derive(Debug)]
pub(super) struct Connection {
    pub id: ConnectionId,
    /// The handshake is complete.
    stands: bool,
    /// The peer has finished.
    finished: bool,
    /// Why it is over, once it is.
    over: Option<Reason>,
    /// The program has heard of an unhappy end.
    told: bool,
    /// Of one that is over: what was not read, and how much of it has been read since.
    rest: Box<[u8]>,
    rest_read: u32,
    /// The program awaits nothing more to read, or writes no more.
    pub reads: bool,
    pub writes: bool,
    /// The program has the socket, or will accept it.
    pub held: bool,
    /// What a daemon lends for it alone.
    pub source: Option<usize>,
    pub waiters: Waiters,
}

impl Connection {
    pub fn new(id: ConnectionId, stands: bool) -> Self {
        Self {
            id,
            stands,
            finished: false,
            over: None,
            told: false,
            rest: Box::default(),
            rest_read: 0,
            reads: true,
            writes: true,
            held: true,
            source: None,
            waiters: Waiters::default(),
        }
    }

    /// One that was another process's.
    pub fn resumed(id: ConnectionId, settings: Settings) -> Self {
        Self {
            finished: settings.finished,
            reads: settings.reads,
            writes: settings.writes,
            ..Self::new(id, true)
        }
    }

    /// What another process is to know of it.
    pub fn settings(&self, nodelay: bool) -> Settings {
        Settings {
            reads: self.reads,
            writes: self.writes,
            finished: self.finished,
            nodelay,
        }
    }

    /// The handshake is complete.
    pub fn connected(&mut self) {
        self.stands = true;
    }

    /// The peer has finished.
    pub fn peer_finished(&mut self) {
        self.finished = true;
    }

    /// It is over; `rest` has not been read.
    pub fn closed(&mut self, reason: Reason, rest: &[u8]) {
        self.over = Some(reason);
        self.rest = rest.into();
    }

    pub fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Whether opening it has succeeded; `None` while it is being opened.
    pub fn opened(&mut self) -> Option<io::Result<()>> {
        if self.stands {
            return Some(Ok(()));
        }
        self.over.map(|_| {
            Err(self
                .take_error()
                .unwrap_or_else(|| ErrorKind::NotConnected.into()))
        })
    }

    /// What has come and was not read.
    pub fn unread<'a>(&'a self, tcp: &'a Tcp) -> &'a [u8] {
        match self.over {
            Some(_) => &self.rest[self.rest_read as usize..],
            None => tcp.readable(self.id),
        }
    }

    /// The program has read `count` bytes of it.
    pub fn consume(&mut self, tcp: &mut Tcp, count: usize) {
        match self.over {
            Some(_) => self.rest_read += count as u32,
            None => tcp.consume(self.id, count),
        }
    }

    /// What a read gives when nothing is unread: the end, an error, or `None` while more may come.
    pub fn end(&mut self) -> Option<io::Result<()>> {
        if let Some(error) = self.take_error() {
            return Some(Err(error));
        }
        self.is_whole().then_some(Ok(()))
    }

    /// Nothing more comes for the program than what is unread.
    pub fn is_whole(&self) -> bool {
        !self.reads || self.finished || self.over.is_some()
    }

    /// The unhappy end of the connection, told once, as the kernel's sockets do.
    pub fn take_error(&mut self) -> Option<io::Error> {
        let kind = self.over.and_then(errors::of_end).filter(|_| !self.told)?;
        self.told = true;
        Some(kind.into())
    }

    /// How many bytes may be written now; `None` while one has to wait.
    ///
    /// # Errors
    ///
    /// Nothing can be written any more.
    pub fn room(&mut self, tcp: &Tcp) -> Option<io::Result<usize>> {
        if let Some(error) = self.take_error() {
            return Some(Err(error));
        }
        if !self.writes || self.is_over() {
            return Some(Err(ErrorKind::BrokenPipe.into()));
        }
        let room = self.free(tcp);
        (room > 0).then_some(Ok(room))
    }

    /// Bytes that the send buffer has room for: twice the congestion window is what keeps the path full.
    fn free(&self, tcp: &Tcp) -> usize {
        let Some(c) = tcp.connection(self.id).filter(|_| self.stands) else {
            return 0;
        };
        let wanted = 2 * c.congestion_window() as usize;
        wanted
            .clamp(SEND_BUFFER_LEAST, SEND_BUFFER_MOST)
            .saturating_sub(c.unacknowledged())
    }

    pub fn readiness(&self, tcp: &Tcp) -> Readiness {
        let ended = self.is_over() || !self.reads || self.finished;
        Readiness {
            reading: ended || !self.unread(tcp).is_empty(),
            writing: self.is_over() || !self.writes || self.free(tcp) > 0,
        }
    }

    /// The program has let it go: nobody is to hear of it, and what still comes is for nobody.
    pub fn is_orphan(&self) -> bool {
        !self.held
    }
}

/// A connection that a listener has made.
#[derive(Copy, Clone, Debug)]
pub(super) struct Made {
    /// Its number.
    pub key: usize,
    /// Between whom it is.
    pub flow: Flow,
    /// How many hops its packets may take, as its listener said then.
    pub hop_limit: u8,
}

impl Made {
    pub fn new(key: usize, flow: Flow) -> Self {
        Self {
            key,
            flow,
            hop_limit: HOP_LIMIT,
        }
    }
}

/// An address and port that is listened at, by one listener or by several that share it.
#[derive(Debug)]
pub(super) struct Place {
    /// What it was asked for, and the port.
    pub at: SocketAddr,
    pub is_shared: bool,
    /// Those of the stack: one for each address, or one for all.
    pub ids: Vec<ListenerId>,
    /// What the daemon lends for it.
    pub grants: Vec<GrantId>,
    /// The listeners; never none.
    pub members: Vec<usize>,
}

impl Place {
    /// The listener that takes a connection, by a keyed hash of its four-tuple.
    pub fn taker(&self, flow: &Flow, key: u64) -> usize {
        let of = self.members.len() as u32;
        let share = Share { index: 0, of, key };
        self.members[share.index_of(flow.local(), flow.remote()) as usize]
    }
}

/// A listener, and the connections that wait to be accepted.
#[derive(Debug)]
pub(super) struct Listener {
    /// Where it listens, by its number.
    pub place: usize,
    /// Connections that were made and not yet accepted.
    pub made: VecDeque<Made>,
    /// How many these may be.
    pub backlog: usize,
    /// How many hops their packets may take.
    pub hop_limit: u8,
    pub waiters: Waiters,
}

impl Listener {
    pub fn readiness(&self) -> Readiness {
        Readiness {
            reading: !self.made.is_empty(),
            writing: false,
        }
    }
}

/// A socket for datagrams.
#[derive(Debug)]
pub(super) struct Datagrams {
    pub handle: UdpHandle,
    /// It hears one peer alone, and what ICMP says of it (RFC 1122 §4.1.3.3, as the kernel does it).
    pub connected: bool,
    pub grants: Vec<GrantId>,
    pub waiters: Waiters,
}

impl Datagrams {
    pub fn readiness(&self, udp: &UdpTable) -> Readiness {
        Readiness {
            reading: matches!(udp.peek(self.handle), Ok(Some(_)))
                || (self.connected && udp.has_error(self.handle)),
            writing: true,
        }
    }
}
