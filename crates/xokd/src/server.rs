//! The socket: who is connected, what they say, what waits to be said to them.
//!
//! A Unix socket of type SEQPACKET, so that a message is whole or not there. Nothing here waits: the daemon's one
//! loop polls ([`Server::interest`]), takes what there is ([`Server::receive`]), and says what it has to say
//! ([`Server::say`], which keeps what does not go at once).
//!
//! A connection is the world. It is cut off, with a counter that says why ([`Cut`]), when it says what cannot be
//! read, asks without taking its answers, stays silent at the beginning, or sends descriptors' worth of nothing; it
//! is not let in when its user has too many, or users like them have ([`newcomers`]). Descriptors that it sends are refused
//! by the kernel where it can ([`closing`]), and end the connection elsewhere: none are asked for.

mod closing;
mod ids;
pub mod newcomers;
mod turns;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use exos_host::error::{Context as _, Error, Result};
use exos_host::peer::{Peer, take_descriptors};
use exos_xok::Request;
use exos_xok::limits::{MESSAGE_BYTES_MAX, MESSAGE_DESCRIPTORS_MAX};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};

use crate::clock::Now;
use crate::limits::{ANSWERS_WAITING_MAX, HELLO_TIME, NEWCOMERS_WAITING_MAX};
use crate::policy::Who;
use crate::pool::Standing;

use closing::{Closing, Next};
pub use ids::{ConnectionId, User};
pub use turns::{Turn, Turns, goes_on};

/// Why a connection was ended, by us or by its program. The names are those of the counters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cut {
    /// It hung up.
    HungUp,
    /// Its process ended.
    ProcessEnded,
    /// It sent what is no message.
    BadMessage,
    /// It asks, and does not take the answers.
    Slow,
    /// It connected and said nothing.
    Silent,
    /// There were too many connections of its user, or of users like them.
    TooMany,
    /// It held nothing, and somebody else wanted to come in.
    MadeRoom,
    /// It had a slot, or was shown packets, which policy does not allow any more.
    NotAllowed,
}

impl Cut {
    /// All of them with their names.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::HungUp, "connections_hung_up"),
        (Self::ProcessEnded, "connections_process_ended"),
        (Self::BadMessage, "connections_cut_bad_message"),
        (Self::Slow, "connections_cut_slow"),
        (Self::Silent, "connections_cut_silent"),
        (Self::TooMany, "connections_refused_too_many"),
        (Self::MadeRoom, "connections_cut_made_room"),
        (Self::NotAllowed, "connections_cut_not_allowed"),
    ];
}

/// A connected program.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    /// Who it is.
    pub peer: Peer,
    waiting: VecDeque<(Vec<u8>, Vec<Rc<OwnedFd>>)>,
    since: Now,
    /// When it last said something.
    heard: Now,
    greeted: bool,
    /// An answer is owed to it that takes time.
    held: bool,
    /// How well the policy knows its user.
    pub standing: Standing,
}

impl Connection {
    fn new(socket: OwnedFd, peer: Peer, now: Now) -> Self {
        Self {
            socket,
            peer,
            waiting: VecDeque::new(),
            since: now,
            heard: now,
            greeted: false,
            held: false,
            standing: Standing::Unnamed,
        }
    }

    /// Who it is, for policy.
    pub fn who(&self) -> Who {
        Who {
            uid: self.peer.uid,
            groups: self.peer.groups.clone(),
        }
    }

    /// Who it is, for turns and shares.
    pub fn user(&self) -> User {
        (self.standing, self.peer.uid)
    }

    /// True when answers wait because the program does not read. What has descriptors with it is not to be added to
    /// them: sixty-four for each connection would be all that a process may have.
    pub fn is_behind(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// True when nobody is at the other end any more, whatever can still be read. What was asked there is not to be done:
    /// a slot that is taken up for somebody who has gone goes with them.
    pub fn has_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let now = Timespec::default();
        rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|n| n > 0)
    }

    /// Sends one message; false when the socket is full.
    fn send(&self, message: &[u8], fds: &[Rc<OwnedFd>]) -> Result<bool, Errno> {
        let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(|fd| fd.as_fd()).collect();
        let mut space = [std::mem::MaybeUninit::uninit();
            rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !borrowed.is_empty() {
            let pushed = ancillary.push(SendAncillaryMessage::ScmRights(&borrowed));
            assert!(pushed, "{} descriptors with one message", borrowed.len());
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let parts = [std::io::IoSlice::new(message)];
        match rustix::net::sendmsg(&self.socket, &parts, &mut ancillary, flags) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// The socket and everybody on it.
#[derive(Debug)]
pub struct Server {
    listener: OwnedFd,
    path: PathBuf,
    is_open: bool,
    /// Until when nobody is let in, because there are no descriptors left for that.
    full_until: Now,
    connections: BTreeMap<ConnectionId, Connection>,
    closing: Closing,
    last: ConnectionId,
    /// Those that ended and were not asked about since.
    ended: Vec<ConnectionId>,
    cuts: BTreeMap<Cut, u64>,
    /// For one message, and a byte more by which a longer one is known.
    buffer: Box<[u8]>,
}

/// What a program said, or that it went.
#[derive(Debug)]
pub enum Heard {
    /// It asks this.
    Request(u32, Request),
    /// It is gone, and so is its connection.
    Gone(Cut),
}

impl Server {
    /// Listens at a path.
    pub fn listen(path: &Path) -> Result<Self> {
        let mut server = Self::prepare(path)?;
        server.open()?;
        Ok(server)
    }

    /// Sees that no living daemon listens at a path.
    pub fn prepare(path: &Path) -> Result<Self> {
        let what = || format!("cannot listen at {}", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).context(what)?;
        }
        if is_answered(&SocketAddrUnix::new(path).context(what)?) {
            return Err(
                Error::new(format!("a daemon is running already at {}", path.display()))
                    .mend("let this one take over with --replace, or give another --socket PATH"),
            );
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::SEQPACKET;
        let listener = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None);
        let listener = listener.context(what)?;
        let may_hold_descriptors = !take_descriptors(&listener, false);
        Ok(Self {
            listener,
            path: path.to_owned(),
            is_open: false,
            full_until: Now::ZERO,
            connections: BTreeMap::new(),
            closing: Closing::new(may_hold_descriptors),
            last: 0,
            ended: Vec::new(),
            cuts: BTreeMap::new(),
            buffer: vec![0; MESSAGE_BYTES_MAX + 1].into(),
        })
    }

    /// Lets programs connect: not before there is somebody who answers, because they wait for that only so long. What
    /// a daemon that died left at the path is replaced.
    pub fn open(&mut self) -> Result<()> {
        let what = || format!("cannot listen at {}", self.path.display());
        let address = SocketAddrUnix::new(&self.path).context(what)?;
        let _ = std::fs::remove_file(&self.path);
        rustix::net::bind(&self.listener, &address).context(what)?;
        self.is_open = true;
        // Everybody may ask; what is answered is policy.
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::chmod(&self.path, mode).context(what)?;
        rustix::net::listen(&self.listener, NEWCOMERS_WAITING_MAX).context(what)
    }

    /// A connection that is there.
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.get(&id)
    }

    /// How many ended in each way.
    pub fn cuts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Cut::ALL
            .iter()
            .map(|(cut, name)| (*name, self.cuts.get(cut).copied().unwrap_or(0)))
    }

    /// How many are connected.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// True when nobody is connected.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// What to poll: the listening socket first, without a name, then each connection and its process.
    pub fn interest(
        &self,
        now: Now,
    ) -> impl Iterator<Item = (Option<ConnectionId>, BorrowedFd<'_>, PollFlags)> {
        let mut awaited = PollFlags::IN;
        awaited.set(PollFlags::IN, now >= self.full_until);
        let listener = (None, self.listener.as_fd(), awaited);
        let each = self.connections.iter().flat_map(|(id, connection)| {
            // Of whom nothing is heard meanwhile it is heard that they go.
            let mut flags = match connection.held {
                true => PollFlags::RDHUP,
                false => PollFlags::IN,
            };
            flags.set(PollFlags::OUT, !connection.waiting.is_empty());
            [
                (Some(*id), connection.socket.as_fd(), flags),
                (Some(*id), connection.peer.process.as_fd(), PollFlags::IN),
            ]
        });
        std::iter::once(listener).chain(each)
    }

    /// Ends a connection whose process has ended. Others may have the socket and go on speaking: what policy knows is the
    /// process.
    pub fn end_with_process(&mut self, id: ConnectionId) {
        let connection = self.connections.get(&id);
        if connection.is_some_and(|c| has_ended(&c.peer.process)) {
            self.cut(id, Cut::ProcessEnded);
        }
    }

    /// Hears nothing of a connection until it is answered. So no more is begun for it than one thing that takes time, and
    /// answers go in the order in which they were asked for.
    pub fn hold(&mut self, id: ConnectionId) {
        self.set_held(id, true);
    }

    /// Hears a connection again.
    pub fn resume(&mut self, id: ConnectionId) {
        self.set_held(id, false);
    }

    fn set_held(&mut self, id: ConnectionId, held: bool) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.held = held;
        }
    }

    /// Takes the next of what a connection has to say; `None` when that is nothing now. After [`Heard::Gone`] nothing of
    /// it is left here.
    pub fn receive(&mut self, id: ConnectionId, now: Now) -> Option<Heard> {
        let connection = self.connections.get_mut(&id)?;
        if connection.held {
            if !connection.has_hung_up() {
                return None;
            }
            self.cut(id, Cut::HungUp);
            return Some(Heard::Gone(Cut::HungUp));
        }
        let flags = RecvFlags::DONTWAIT;
        match self.closing.next(&connection.socket) {
            Next::Plain => {}
            Next::Nothing => return None,
            Next::Descriptors => {
                self.cut(id, Cut::BadMessage);
                return Some(Heard::Gone(Cut::BadMessage));
            }
        }
        let cut = match rustix::net::recv(&connection.socket, &mut *self.buffer, flags) {
            Err(Errno::AGAIN | Errno::INTR) => return None,
            Ok((0, _)) | Err(_) => Cut::HungUp,
            Ok((len, _)) if len > MESSAGE_BYTES_MAX => Cut::BadMessage,
            Ok((len, _)) => match Request::decode(&self.buffer[..len]) {
                Ok((tag, request)) => {
                    connection.greeted = true;
                    connection.heard = now;
                    return Some(Heard::Request(tag, request));
                }
                Err(_) => Cut::BadMessage,
            },
        };
        self.cut(id, cut);
        Some(Heard::Gone(cut))
    }

    /// Says something to a program. False when it does not listen, and was cut off for it.
    pub fn say(&mut self, id: ConnectionId, message: Vec<u8>, fds: Vec<Rc<OwnedFd>>) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else {
            return false;
        };
        connection.waiting.push_back((message, fds));
        if connection.waiting.len() > ANSWERS_WAITING_MAX {
            self.cut(id, Cut::Slow);
            return false;
        }
        self.flush(id)
    }

    /// Says something that need not be heard: nothing is kept of it when the program is behind with its reading.
    pub fn mention(&mut self, id: ConnectionId, message: &[u8]) {
        if let Some(connection) = self.connections.get(&id)
            && connection.waiting.is_empty()
        {
            let _ = connection.send(message, &[]);
        }
    }

    /// Says what waited. False when the connection is gone.
    pub fn flush(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else {
            return false;
        };
        while let Some((message, fds)) = connection.waiting.front() {
            match connection.send(message, fds) {
                Ok(true) => drop(connection.waiting.pop_front()),
                Ok(false) => break,
                Err(_) => {
                    self.cut(id, Cut::HungUp);
                    return false;
                }
            }
        }
        true
    }

    /// Everybody who connected and said nothing since. What waits to be heard was said: it may be many others' turn before.
    pub fn silent(&self, now: Now) -> Vec<ConnectionId> {
        let late = |c: &Connection| !c.greeted && now.saturating_sub(c.since) > HELLO_TIME;
        let late = |c: &Connection| late(c) && !is_ready(&c.socket);
        let silent = self.connections.iter().filter(|(_, c)| late(c));
        silent.map(|(id, _)| *id).collect()
    }

    /// Everybody.
    pub fn ids(&self) -> Vec<ConnectionId> {
        self.connections.keys().copied().collect()
    }

    /// Ends a connection.
    pub fn cut(&mut self, id: ConnectionId, why: Cut) {
        if let Some(connection) = self.connections.remove(&id) {
            self.closing.close(connection.socket);
            self.ended.push(id);
            self.count(why);
        }
    }

    /// Those that ended since the last call, in whatever way: what they held is to be taken. To be called in each turn, also
    /// for those that wait to be closed.
    pub fn take_ended(&mut self) -> Vec<ConnectionId> {
        self.closing.go_on();
        std::mem::take(&mut self.ended)
    }

    fn count(&mut self, why: Cut) {
        *self.cuts.entry(why).or_default() += 1;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.is_open {
            let _ = std::fs::remove_file(&self.path);
        }
        for (_, connection) in std::mem::take(&mut self.connections) {
            self.closing.close(connection.socket);
        }
        // A connection that has not been let in may have sent something, too.
        if let Ok(listener) = self.listener.try_clone() {
            self.closing.close_listener(listener);
        }
    }
}

/// True when somebody accepts connections there.
fn is_answered(address: &SocketAddrUnix) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::SEQPACKET;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None);
    socket.is_ok_and(|socket| {
        // A full queue is somebody's too.
        matches!(
            rustix::net::connect(&socket, address),
            Ok(()) | Err(Errno::AGAIN)
        )
    })
}

/// True when a process has ended.
pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    is_ready(process)
}

/// True when there is something to be read.
fn is_ready(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    let now = Timespec::default();
    rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|n| n > 0)
}

#[cfg(test)]
pub(crate) mod tests;
