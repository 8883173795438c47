//! The process that has the memory: one thread, which waits for programs and answers them.
//!
//! A file is read by a call that waits for the disk, and all programs with it; the kernel is told ahead what is read in order.

use crate::error::{Error, Refused as _, Result};
use crate::extents::Extents;
use crate::limits::{BUFFER_LEN, MEMORY_MAX, MEMORY_MIN, SESSIONS_MAX, STUCK_LOOK};
use crate::open_file::Audience;
use crate::place;
use crate::protocol::Statistics;
use crate::session::{Over, Session};
use crate::users::{Owner, User, Users};
use exos_host::peer::Peer;
use exos_iolite::{Pool, Shape, Share};
use exos_replacement::Policy;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, Mode, OFlags, chmod, flock, open};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use rustix::process::geteuid;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// How a service is made.
#[derive(Debug)]
pub struct Options {
    /// Bytes of memory for files.
    pub memory: u64,
    /// What goes when there is no room.
    pub policy: Box<dyn Policy>,
    /// Who may connect; the user of this process alone where there are none. What several users share is only what all may read.
    pub users: Vec<User>,
}

/// See the module.
#[derive(Debug)]
pub struct Service {
    listener: OwnedFd,
    extents: Extents,
    users: Users,
    sessions: Vec<Session>,
    path: PathBuf,
    /// As long as it is there, no other service takes the socket.
    _lock: OwnedFd,
}

impl Service {
    /// A service at a socket, to which only those that it is for can connect. The socket of one that has ended is taken over.
    ///
    /// # Errors
    ///
    /// Another runs there, this is not root and has other users, the memory is too little or too much, or the kernel refuses something.
    pub fn new(path: &Path, options: Options) -> Result<Self> {
        let Options {
            memory,
            policy,
            users,
        } = options;
        if !(MEMORY_MIN..=MEMORY_MAX).contains(&memory) {
            return Err(Error::Memory(memory));
        }
        if !users.is_empty() && !geteuid().is_root() {
            return Err(Error::NotRoot);
        }
        let buffers = (memory / BUFFER_LEN as u64) as u32;
        let users = Users::new(users, buffers);
        let audience = match users.is_host() {
            true => Audience::Host,
            false => Audience::User,
        };
        place::make_folder(path, audience)?;
        let lock = lock(path)?;
        let buffer_len = BUFFER_LEN as u32;
        let pool = Pool::new(
            "exos-file-cache",
            Shape {
                buffer_len,
                buffers,
                share: users.program_limit(),
            },
        )?;
        exos_host::lease::ignore_breaks();
        Ok(Self {
            listener: listener(path, audience)?,
            extents: Extents::new(audience, pool, policy),
            users,
            sessions: Vec::new(),
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// How it is used.
    pub fn statistics(&self) -> Statistics {
        self.extents.statistics
    }

    /// Serves until the kernel refuses to tell of programs.
    ///
    /// # Errors
    ///
    /// Why it does.
    pub fn run(&mut self) -> Result<()> {
        loop {
            let ready = self.wait()?;
            self.turn(&ready);
        }
    }

    /// Waits until there is something to do; whose turn it is, session after session.
    fn wait(&mut self) -> Result<Vec<bool>> {
        let is_something = self
            .sessions
            .iter_mut()
            .fold(false, |is, session| session.arm() | is);
        let is_stuck = self.sessions.iter().any(|session| session.is_stuck);
        let time = match (is_something, is_stuck) {
            (true, _) => Some(Timespec::default()),
            (false, true) => Timespec::try_from(STUCK_LOOK).ok(),
            (false, false) => None,
        };
        let waiting = self.sessions.iter().map(Session::waits_for);
        let all = waiting.chain([self.listener.as_fd()]);
        let mut all: Vec<PollFd<'_>> = all
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        match poll(&mut all, time.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).refused("cannot wait for programs"),
        }
        let is_ready = |(session, fd): (&Session, &PollFd<'_>)| {
            session.has_answers() || !fd.revents().is_empty()
        };
        Ok(self.sessions.iter().zip(&all).map(is_ready).collect())
    }

    /// One turn of those for whom there is something to do.
    fn turn(&mut self, ready: &[bool]) {
        // From the last on: where one has ended, the last takes its place.
        for at in (0..ready.len()).rev().filter(|at| ready[*at]) {
            if let Err(over) = self.turn_of(at) {
                self.extents.statistics.faults += u64::from(over == Over::Fault);
                let ended = self.sessions.swap_remove(at);
                ended.end(&mut self.extents);
            }
        }
        while let Ok(socket) = accept_with(&self.listener, SocketFlags::CLOEXEC) {
            self.begin(socket);
        }
        self.extents.statistics.programs = self.sessions.len() as u64;
    }

    fn begin(&mut self, socket: OwnedFd) {
        let owner = Peer::of(&socket).ok().map(|peer| Owner::of(&peer));
        let owner = owner.filter(|owner| {
            let connected = self.sessions.iter().map(|session| session.owner);
            self.sessions.len() < SESSIONS_MAX && self.users.may_connect(owner.uid, connected)
        });
        let session = owner.and_then(|owner| {
            let share = share_of(&mut self.users, &self.sessions, owner);
            Session::new(socket, &self.extents, owner, share).ok()
        });
        match session {
            Some(session) => self.sessions.push(session),
            None => self.extents.statistics.turned_away += 1,
        }
    }

    fn turn_of(&mut self, at: usize) -> Result<(), Over> {
        self.sessions[at].turn(&mut self.extents)?;
        if let Some(owner) = self.sessions[at].renamed.take() {
            let share = share_of(&mut self.users, &self.sessions, owner);
            self.sessions[at].join(owner, share);
        }
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn share_of(users: &mut Users, sessions: &[Session], owner: Owner) -> Share {
    users.share(owner, |known| {
        sessions.iter().any(|session| session.owner == *known)
    })
}

/// Says that this process serves there, until it ends.
fn lock(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = open(path.with_extension("lock"), flags, Mode::RUSR | Mode::WUSR);
    let lock = lock.refused("cannot make the lock of the socket")?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(_) => Err(Error::Taken(path.to_owned())),
    }
}

fn listener(path: &Path, audience: Audience) -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let listener = listener.refused("cannot make a socket")?;
    let address = SocketAddrUnix::new(path).refused("cannot name the socket so")?;
    // What is there is of one that has ended: the lock is ours.
    let _ = std::fs::remove_file(path);
    bind(&listener, &address).refused("cannot make the socket's name")?;
    // Nobody connects before it listens.
    let mode = match audience {
        Audience::User => 0o600,
        // It looks who connects.
        Audience::Host => 0o666,
    };
    chmod(path, Mode::from_raw_mode(mode)).refused("cannot say who may connect to the socket")?;
    listen(&listener, 16).refused("cannot listen")?;
    Ok(listener)
}
