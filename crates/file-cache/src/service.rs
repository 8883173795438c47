//! The process that has the memory: one thread, which waits for programs and answers them.
//!
//! A file is read by a call that waits for the disk, and all programs with it; the kernel is told ahead what is read in order.

use crate::error::{Error, Refused as _, Result};
use crate::extents::Extents;
use crate::limits::{BACKLOG, BUFFER_LEN, DESCRIPTORS, MEMORY_MAX, MEMORY_MIN, Room, STUCK_LOOK};
use crate::open_file::Audience;
use crate::passed::{Closer, Passed};
use crate::place;
use crate::protocol::Statistics;
use crate::session::{Over, Session};
use crate::users::{User, Users};
use exos_host::caps::{self, CapabilitySet};
use exos_host::lease::{ReadLease, Refusal};
use exos_iolite::{Pool, Shape};
use exos_replacement::Policy;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, Mode, OFlags, chmod, flock, open};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use rustix::process::{Resource, Rlimit, Uid, geteuid, getrlimit, setrlimit};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A user who is not root.
const ANOTHER: u32 = 1;

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

/// What there is to do for a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ready {
    No,
    Turn,
    Ended,
}

/// See the module.
#[derive(Debug)]
pub struct Service {
    listener: OwnedFd,
    extents: Extents,
    users: Users,
    sessions: Vec<Session>,
    /// When those that wait for room in their shares are looked at again, and which of them has the share looked at.
    next_look: Instant,
    looks: usize,
    path: PathBuf,
    /// As long as it is there, no other service takes the socket.
    _lock: OwnedFd,
}

impl Service {
    /// A service at a socket, to which only those that it is for can connect. The socket of one that has ended is taken over.
    ///
    /// # Errors
    ///
    /// Another runs there; the memory is too little or too much; this process may have too few descriptors; it is to serve several users and is not
    /// root, or has no `CAP_LEASE`; or the kernel refuses something.
    pub fn new(path: &Path, options: Options) -> Result<Self> {
        let Options {
            memory,
            policy,
            users,
        } = options;
        if !(MEMORY_MIN..=MEMORY_MAX).contains(&memory) {
            return Err(Error::Memory(memory));
        }
        if !users.is_empty() {
            check_privilege()?;
        }
        let room = raise_descriptors()?;
        let buffers = (memory / BUFFER_LEN as u64) as u32;
        let users = Users::new(users, buffers, room);
        let audience = match users.is_host() {
            true => Audience::Host,
            false => Audience::User,
        };
        place::make_folder(path, audience)?;
        let lock = lock(path)?;
        if audience == Audience::Host {
            check_leases(path)?;
        }
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
            next_look: Instant::now(),
            looks: 1,
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// How it is used.
    pub fn statistics(&self) -> Statistics {
        self.extents.statistics
    }

    /// Serves until the kernel refuses to tell of programs. It starts a thread, which has the privilege of the calling one.
    ///
    /// # Errors
    ///
    /// Why it does.
    pub fn run(&mut self) -> Result<()> {
        let closer = Closer::start().refused("cannot close what programs pass")?;
        let closer = Rc::new(closer);
        loop {
            let ready = self.wait()?;
            self.turn(&ready, &closer);
        }
    }

    /// Waits until there is something to do, and says what that is, session after session.
    fn wait(&mut self) -> Result<Vec<Ready>> {
        let sessions = &mut self.sessions;
        let has_room: Vec<bool> = sessions.iter_mut().map(Session::arm).collect();
        let time = match sessions.iter().any(Session::is_stuck) {
            _ if has_room.contains(&true) => Some(Duration::ZERO),
            true => Some(self.next_look.saturating_duration_since(Instant::now())),
            false => None,
        };
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        let mut all: Vec<PollFd<'_>> = self.sessions.iter().flat_map(Session::waits_for).collect();
        all.push(PollFd::new(&self.listener, PollFlags::IN));
        match poll(&mut all, time.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).refused("cannot wait for programs"),
        }
        let (of_sessions, _) = all.as_chunks::<2>();
        let ready = |(has_room, of): (bool, &[PollFd<'_>; 2])| {
            let found = of[0].revents() | of[1].revents();
            match found.contains(PollFlags::IN) || has_room {
                _ if found.intersects(PollFlags::HUP | PollFlags::ERR) => Ready::Ended,
                true => Ready::Turn,
                false => Ready::No,
            }
        };
        Ok(has_room.into_iter().zip(of_sessions).map(ready).collect())
    }

    /// One turn of those for whom there is something to do.
    fn turn(&mut self, ready: &[Ready], closer: &Rc<Closer>) {
        let now = Instant::now();
        let looks = now >= self.next_look && self.sessions.iter().any(Session::is_stuck);
        let mut stuck = 0;
        // From the last on: where one has ended, the last takes its place.
        for at in (0..ready.len()).rev() {
            let session = &mut self.sessions[at];
            let done = match ready[at] {
                Ready::Ended => Err(Over::Gone),
                Ready::Turn => self.turn_of(at),
                Ready::No if looks && session.is_stuck() => {
                    stuck += 1;
                    session.look(&mut self.extents, stuck == self.looks)
                }
                Ready::No => Ok(()),
            };
            if let Err(over) = done {
                self.extents.statistics.faults += u64::from(over == Over::Fault);
                let ended = self.sessions.swap_remove(at);
                ended.end(&mut self.extents);
            }
        }
        if looks {
            // Of those that wait for room in their shares one each time has the share looked at.
            self.looks = if self.looks < stuck {
                self.looks + 1
            } else {
                1
            };
            self.next_look = now + STUCK_LOOK;
        }
        for _ in 0..BACKLOG {
            match accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(socket) => self.begin(socket, closer),
                Err(_) => break,
            }
        }
        self.extents.statistics.programs = self.sessions.len() as u64;
    }

    fn begin(&mut self, socket: OwnedFd, closer: &Rc<Closer>) {
        let peer = socket_peercred(&socket).ok();
        let owner = peer.and_then(|peer| {
            let pid = peer.pid.as_raw_nonzero().get().cast_unsigned();
            self.users.owner(peer.uid.as_raw(), pid)
        });
        let socket = Passed::new(socket, owner.map(|owner| owner.user), closer);
        let owner =
            owner.filter(|owner| !closer.has_too_many(owner.user) && self.has_place(owner.user));
        let session = owner.and_then(|owner| {
            let place = self.users.place(owner);
            Session::new(socket, closer, &self.extents, owner, place).ok()
        });
        match session {
            Some(session) => self.sessions.push(session),
            None => self.extents.statistics.turned_away += 1,
        }
    }

    /// Whether there is a place for a user: those of members that have ended are free.
    fn has_place(&mut self, user: u32) -> bool {
        self.users.has_place(user) || {
            self.extents.pool().look_at_members();
            self.users.has_place(user)
        }
    }

    fn turn_of(&mut self, at: usize) -> Result<(), Over> {
        self.sessions[at].turn(&mut self.extents)?;
        if let Some(owner) = self.sessions[at].renamed.take() {
            let place = self.users.place(owner);
            self.sessions[at].join(owner, place);
        }
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Those of several users are taken with a right to lease files that are theirs.
fn check_privilege() -> Result<()> {
    match geteuid().is_root() && caps::has(CapabilitySet::LEASE) {
        true => Ok(()),
        false => Err(Error::Privilege),
    }
}

/// Whether files of others can be leased: the right to that is of the first user namespace, whatever another one's root has in its own.
fn check_leases(path: &Path) -> Result<()> {
    let path = path.with_extension("lease");
    let flags = OFlags::CREATE | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = open(&path, flags, Mode::RUSR).refused("cannot make a file beside the socket")?;
    let _ = std::fs::remove_file(&path);
    // Where there is no other user's number the namespace is not the first one.
    rustix::fs::fchown(&file, Some(Uid::from_raw(ANOTHER)), None).map_err(|_| Error::Privilege)?;
    match ReadLease::take(file.as_fd()) {
        Err(Refusal::NotOwner) => Err(Error::Privilege),
        // The folder may be of a kind that has none.
        Ok(_) | Err(Refusal::Unsupported | Refusal::Writing) => Ok(()),
    }
}

/// Has this process open as many files as the limits of this crate sum up to, or as it may.
fn raise_descriptors() -> Result<Room> {
    let wanted = DESCRIPTORS as u64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            maximum: limit.maximum.map(|maximum| maximum.max(wanted)),
        };
        let allowed = Rlimit {
            current: limit.maximum.map(|maximum| maximum.min(wanted)),
            ..limit
        };
        // What cannot be had is found below.
        let _ =
            setrlimit(Resource::Nofile, raised).or_else(|_| setrlimit(Resource::Nofile, allowed));
    }
    let has = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    Room::of(usize::try_from(has).unwrap_or(usize::MAX)).ok_or(Error::Descriptors)
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
    listen(&listener, BACKLOG).refused("cannot listen")?;
    Ok(listener)
}
