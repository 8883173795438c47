//! The program's network sockets. Each has a Unix socket in the program and its other end here.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};

use exos::inet::tcp::Keepalive;
use exos::net::{Interest, TcpStream, Token, Trigger};
use exos::watch::{Holder, Holders, Protocol};
use exos_host::intercept::Call;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use slab::Slab;

use super::datagrams::DatagramFlow;
use super::epoll_sets::EpollSets;
use super::flow::Flow;
use crate::context::Context;
use crate::counters::{Moved, SocketCounters};
use crate::limits::{BOUND_MAX, PIECE};
use crate::listener::Listener;
use crate::loopback::Waiting;
use crate::target::{Descriptor, inode};
use crate::waiting::Waiters;

/// A network socket of the program's.
pub(super) struct Socket {
    /// By which a descriptor of the program's is known.
    pub inode: u64,
    /// The program's socket was of that family.
    pub family: AddressFamily,
    pub local: SocketAddr,
    pub peer: Option<SocketAddr>,
    /// Our end.
    pub end: OwnedFd,
    /// The kernel tells when the program has read of its end.
    hears_of_room: bool,
    pub kind: Kind,
    /// When a peer is asked whether it is still there, if it is at all.
    pub keepalive: Keepalive,
    /// An error that the program has not heard of.
    pub error: Option<io::Error>,
}

impl Socket {
    /// What has passed.
    fn moved(&self) -> Moved {
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

    /// Has its news come as events of two tokens, the stack's and the program's. That the program has read is news only of one whose end was
    /// full: otherwise each answer that it reads would wake us.
    fn wait_for(&mut self, cx: &Context, key: usize) -> io::Result<()> {
        let (of_net, of_program) = (Token(2 * key), Token(2 * key + 1));
        let (both, edge) = (Interest::BOTH, Trigger::Edge);
        cx.poll
            .register_fd(self.end.as_fd(), of_program, Interest::READABLE, edge)?;
        match &mut self.kind {
            Kind::Listening(l) => l.of.register(cx, of_net),
            Kind::Connecting(c) => cx.poll.register(&c.stream, of_net, both, edge),
            Kind::Flowing(flow) => cx.poll.register(&flow.stream, of_net, both, edge),
            Kind::Datagrams(flow) => flow.socket.register(cx, [of_net; 2]),
            Kind::Failed => Ok(()),
        }
    }

    /// Has the kernel tell of room, once there was none.
    pub fn hear_of_room(&mut self, cx: &Context, key: usize) {
        let is_full = match &self.kind {
            Kind::Flowing(flow) => flow.is_full,
            Kind::Datagrams(flow) => flow.is_full,
            _ => false,
        };
        if !is_full || self.hears_of_room {
            return;
        }
        let (end, of_program) = (self.end.as_fd(), 2 * key + 1);
        let _ = cx.poll.deregister_fd(end);
        let told = cx
            .poll
            .register_fd(end, Token(of_program), Interest::BOTH, Trigger::Edge);
        self.hears_of_room = told.is_ok();
        if !self.hears_of_room {
            cx.later().add(of_program);
        }
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
    pub of: Listener,
    /// Connections that the program has not accepted. While there are any a byte waits in the program's socket, so that it is
    /// readable.
    pub made: VecDeque<(Made, SocketAddr)>,
    /// Calls that wait for one.
    pub waiting: Waiters,
}

/// A connection that the program has not accepted.
pub(crate) enum Made {
    Ours(Flow),
    Kernels(Waiting),
}

pub(crate) struct Connecting {
    pub stream: TcpStream,
    /// Bytes that fill the program's socket, so that it is not writable until the connection stands.
    pub filled: usize,
    /// The calls that wait for the end of it.
    pub waiting: Waiters,
}

/// All of them.
pub(crate) struct UnixSockets {
    pub(super) all: Slab<Socket>,
    by_inode: HashMap<u64, usize>,
    pub(crate) sets: EpollSets,
    /// Errors of connections that are over, which the program has not heard of; the oldest first.
    errors: VecDeque<(u64, io::Error)>,
    /// Through which bytes pass.
    pub(super) buffer: Box<[u8]>,
    /// How many there were.
    made: u64,
    /// What has passed by those that are over.
    moved: Moved,
}

impl Default for UnixSockets {
    fn default() -> Self {
        Self {
            all: Slab::new(),
            by_inode: HashMap::new(),
            sets: EpollSets::default(),
            errors: VecDeque::new(),
            buffer: vec![0; PIECE].into_boxed_slice(),
            made: 0,
            moved: Moved::default(),
        }
    }
}

impl UnixSockets {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn counters(&self) -> SocketCounters {
        let mut moved = self.moved;
        for (_, socket) in &self.all {
            moved.add(socket.moved());
        }
        SocketCounters {
            untouched: 0,
            made: self.made,
            open: self.all.len(),
            calls: 0,
            moved,
        }
    }

    /// The descriptor that a call is of, and the number of its socket where it is one of these.
    pub fn descriptor(&self, call: &Call) -> io::Result<(Descriptor, Option<usize>)> {
        let descriptor = Descriptor::of(call, call.args[0] as i32)?;
        let key = self.by_inode.get(&descriptor.inode).copied();
        Ok((descriptor, key))
    }

    /// One more, with the program's end of its Unix socket and ours; gives its number.
    pub fn add(
        &mut self,
        cx: &Context,
        (theirs, end): (&OwnedFd, OwnedFd),
        family: AddressFamily,
        (local, peer): (SocketAddr, Option<SocketAddr>),
        kind: Kind,
    ) -> io::Result<usize> {
        let inode = inode(theirs)?;
        let key = self.all.insert(Socket {
            inode,
            family,
            local,
            peer,
            end,
            hears_of_room: false,
            kind,
            keepalive: Keepalive::default(),
            error: None,
        });
        self.made += 1;
        self.by_inode.insert(inode, key);
        self.all[key].wait_for(cx, key)?;
        Ok(key)
    }

    /// What a program has said of when its peer is asked whether it is still there.
    pub fn set_keepalive(&mut self, key: usize, times: Keepalive) {
        self.all[key].keepalive = times;
    }

    /// Nothing more comes of a socket. Its error can be asked for as long as the program has it. Gives the calls that wait for it, and
    /// the number of the error that they end with.
    pub(super) fn remove(&mut self, key: usize) -> (Waiters, i32) {
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
            Kind::Listening(listening) => (listening.waiting, libc::EINVAL),
            Kind::Connecting(connecting) => (connecting.waiting, libc::ECONNABORTED),
            Kind::Flowing(_) | Kind::Datagrams(_) | Kind::Failed => (Waiters::default(), 0),
        }
    }

    /// The error of a connection that is over, once.
    pub(super) fn take_error(&mut self, inode: u64) -> Option<io::Error> {
        let at = self.errors.iter().position(|(of, _)| *of == inode)?;
        self.errors.remove(at).map(|(_, error)| error)
    }

    /// Says which Unix socket each is, so that those that have it are found.
    pub fn add_holders(&self, holders: &mut Holders) {
        for (_, socket) in &self.all {
            let protocol = match socket.kind {
                Kind::Datagrams(_) => Protocol::Udp,
                _ => Protocol::Tcp,
            };
            let holder = Holder::UnixSocket(socket.inode);
            holders.add(protocol, socket.local, socket.peer, holder);
        }
    }

    /// The users of sockets that listen there.
    pub fn listeners_at(&self, at: SocketAddr) -> impl Iterator<Item = u32> {
        self.all
            .iter()
            .filter_map(move |(_, socket)| match &socket.kind {
                Kind::Listening(listening) if socket.local == at => Some(listening.of.user),
                _ => None,
            })
    }

    /// Whether a socket has this port.
    pub fn has_port(&self, port: u16) -> bool {
        self.all
            .iter()
            .any(|(_, socket)| socket.local.port() == port)
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
