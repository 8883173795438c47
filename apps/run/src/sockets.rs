//! The program's network sockets. Each has a Unix socket in the program and its other end here.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use exos::net::{TcpListener, TcpStream};
use exos_host::intercept::Call;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use slab::Slab;

use crate::counters::Moved;
use crate::datagrams::DatagramFlow;
use crate::flow::Flow;
use crate::limits::BOUND_MAX;

/// A network socket of the program's.
pub(crate) struct Socket {
    /// By which a descriptor of the program's is known.
    pub inode: u64,
    /// The program's socket was of that family.
    pub family: AddressFamily,
    pub local: SocketAddr,
    pub peer: Option<SocketAddr>,
    /// Our end.
    pub end: OwnedFd,
    pub kind: Kind,
    /// An error that the program has not heard of.
    pub error: Option<io::Error>,
}

impl Socket {
    /// What has passed.
    pub fn moved(&self) -> Moved {
        match &self.kind {
            Kind::Flowing(flow) => flow.moved,
            _ => Moved::default(),
        }
    }

    /// Of one that listens: the program's socket is readable, for a connection waits.
    pub fn say_readable(&self) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // One that has a byte is readable.
        let _ = send(&self.end, &[0], flags);
    }
}

/// What it does.
pub(crate) enum Kind {
    Listening(Listening),
    Connecting(Connecting),
    Flowing(Flow),
    Datagrams(DatagramFlow),
    /// It could not be connected.
    Failed,
}

pub(crate) struct Listening {
    pub listener: TcpListener,
    /// Connections that the program has not accepted. While there are any a byte waits in the program's socket, so that it is
    /// readable.
    pub made: VecDeque<(Flow, SocketAddr)>,
    /// How many these may be; more wait in the listener.
    pub backlog: usize,
    /// Calls that wait for one.
    pub waiting: VecDeque<Call>,
    /// Whose socket it is.
    pub user: u32,
}

pub(crate) struct Connecting {
    pub stream: TcpStream,
    /// Bytes that fill the program's socket, so that it is not writable until the connection stands.
    pub filled: usize,
    /// The calls that wait for the end of it.
    pub waiting: Vec<Call>,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Sockets {
    pub all: Slab<Socket>,
    /// How many there were.
    pub made: u64,
    /// What has passed by those that are over.
    pub moved: Moved,
    by_inode: HashMap<u64, usize>,
    /// Sockets of the kernel's that were bound to an address of the stack's, with the oldest first.
    bound: VecDeque<(u64, SocketAddr)>,
    /// Errors of connections that are over, which the program has not heard of; the oldest first.
    errors: VecDeque<(u64, io::Error)>,
}

impl Sockets {
    /// The number of the socket that a descriptor refers to.
    pub fn find(&self, inode: u64) -> Option<usize> {
        self.by_inode.get(&inode).copied()
    }

    pub fn insert(&mut self, socket: Socket) -> usize {
        self.made += 1;
        let inode = socket.inode;
        let key = self.all.insert(socket);
        self.by_inode.insert(inode, key);
        key
    }

    /// Nothing more comes of a socket. Its error can be asked for as long as the program has it. Gives the calls that wait for it, and
    /// the number of the error that they end with.
    pub fn remove(&mut self, key: usize) -> (Vec<Call>, i32) {
        let socket = self.all.remove(key);
        self.moved.add(socket.moved());
        self.by_inode.remove(&socket.inode);
        if let Some(error) = socket.error {
            if self.errors.len() >= BOUND_MAX {
                self.errors.pop_front();
            }
            self.errors.push_back((socket.inode, error));
        }
        match socket.kind {
            Kind::Listening(listening) => (listening.waiting.into(), libc::EINVAL),
            Kind::Connecting(connecting) => (connecting.waiting, libc::ECONNABORTED),
            Kind::Flowing(_) | Kind::Datagrams(_) | Kind::Failed => (Vec::new(), 0),
        }
    }

    /// The error of a connection that is over, once.
    pub fn take_error(&mut self, inode: u64) -> Option<io::Error> {
        let at = self.errors.iter().position(|(of, _)| *of == inode)?;
        self.errors.remove(at).map(|(_, error)| error)
    }

    /// A socket of the kernel's is bound to this, for when it listens or connects.
    pub fn bind(&mut self, inode: u64, to: SocketAddr) {
        self.take_bound(inode);
        if self.bound.len() >= BOUND_MAX {
            self.bound.pop_front();
        }
        self.bound.push_back((inode, to));
    }

    pub fn bound(&self, inode: u64) -> Option<SocketAddr> {
        let bound = self.bound.iter().find(|(of, _)| *of == inode);
        bound.map(|(_, to)| *to)
    }

    /// The users of sockets that listen there.
    pub fn listeners_at(&self, at: SocketAddr) -> impl Iterator<Item = u32> {
        self.all
            .iter()
            .filter_map(move |(_, socket)| match &socket.kind {
                Kind::Listening(listening) if socket.local == at => Some(listening.user),
                _ => None,
            })
    }

    /// The number of a socket for datagrams, if it is one; its inode is asked for if there are any.
    pub fn of_datagrams(&self, inode: impl FnOnce() -> Option<u64>) -> Option<usize> {
        let is_it = |socket: &Socket| matches!(socket.kind, Kind::Datagrams(_));
        let has_any = self.all.iter().any(|(_, socket)| is_it(socket));
        let key = self.find(if has_any { inode()? } else { return None })?;
        is_it(&self.all[key]).then_some(key)
    }

    /// Whether a socket has this port, or is to have it.
    pub fn has_port(&self, port: u16) -> bool {
        self.bound.iter().any(|(_, to)| to.port() == port)
            || self
                .all
                .iter()
                .any(|(_, socket)| socket.local.port() == port)
    }

    pub fn take_bound(&mut self, inode: u64) -> Option<SocketAddr> {
        let at = self.bound.iter().position(|(of, _)| *of == inode)?;
        self.bound.remove(at).map(|(_, to)| to)
    }
}

/// A pair of Unix sockets: the program's, as it wants it, and ours.
pub(crate) fn pair(kind: SocketType, nonblocking: bool) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (theirs, ours) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
    if !nonblocking {
        rustix::io::ioctl_fionbio(&theirs, false)?;
    }
    Ok((theirs, ours))
}
