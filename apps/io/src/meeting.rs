//! How the two ends of a pipe of the shell's find each other, where both are tools of ours.
//!
//! The one that writes listens at an abstract socket that is called after the pipe, and writes bytes into the pipe until somebody connects; from
//! then on it passes references by a pipe of ours. The one that reads tries to connect before it reads. When it is let in, what is in the
//! kernel's pipe came before; when the other has closed ours, it reads on from the kernel's: another process may write there, as in
//! `(exos io cat a; echo b) | exos io wc`. Nobody waits for one who may not be there, and the name goes with the process.
//!
//! The other end has to be of the same user: others can listen and connect there too, and are not believed. Neither end waits for them: where
//! they take the name or its room, bytes go by the kernel's pipe.

use crate::limits::{BUFFERS, SLOTS, VISITORS};
use exos_host::peer::Peer;
use exos_iolite::{Options, Pool, Receiver, Sender, Shape, Trust};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::ioctl_fionbio;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with,
};
use rustix::process::geteuid;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The address of the meeting for a pipe; nothing where it is no pipe.
fn address(pipe: impl AsFd) -> Option<SocketAddrUnix> {
    let found = fstat(pipe).ok()?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Fifo {
        return None;
    }
    let (uid, device, inode) = (geteuid().as_raw(), found.st_dev, found.st_ino);
    SocketAddrUnix::new_abstract_name(format!("exos-io-{uid}-{device}-{inode}").as_bytes()).ok()
}

fn socket(flags: SocketFlags) -> Option<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).ok()
}

fn is_ours(socket: &OwnedFd) -> bool {
    Peer::of(socket).is_ok_and(|peer| peer.uid == geteuid().as_raw())
}

/// Where the end that writes waits for the other.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

impl Listener {
    /// For a pipe, unless somebody listens there already.
    pub fn new(pipe: impl AsFd) -> Option<Self> {
        let address = address(pipe)?;
        let listener = socket(SocketFlags::NONBLOCK)?;
        bind(&listener, &address).ok()?;
        listen(&listener, VISITORS).ok()?;
        Some(Self(listener))
    }

    /// The other end, if it is there. It waits, and reads what comes by the kernel's pipe meanwhile.
    pub fn accept(&self) -> Option<OwnedFd> {
        // Strangers are turned away, as many as can be waiting.
        let mut waiting =
            (0..=VISITORS).map_while(|_| accept_with(&self.0, SocketFlags::CLOEXEC).ok());
        waiting.find(is_ours)
    }
}

/// Lets the other end in; and a socket that is at its end when that has closed it. From here on nothing more is written into the kernel's pipe:
/// what is in it comes first.
pub(crate) fn let_in(socket: OwnedFd, pool: &Pool) -> Option<(Sender, OwnedFd)> {
    let beside = socket.try_clone().ok()?;
    let options = Options {
        slots: SLOTS,
        ..Options::default()
    };
    Some((Sender::connect(socket, pool, options).ok()?, beside))
}

/// A pool for what a tool writes.
pub(crate) fn pool() -> exos_iolite::Result<Pool> {
    Pool::new(
        "exos-io",
        Shape {
            share: BUFFERS,
            ..Shape::of(BUFFERS)
        },
    )
}

/// The end that reads, when it has connected and was not let in yet.
#[derive(Debug)]
pub(crate) struct Visitor(OwnedFd);

/// What is there first.
pub(crate) enum First {
    /// The other end has let us in.
    Ours(Box<Receiver>),
    /// Bytes, or their end, in the kernel's pipe.
    Bytes,
    /// The other end will not.
    Nobody,
}

impl Visitor {
    /// Connects to the end that writes into a pipe, if it is one of ours.
    pub fn connect(pipe: impl AsFd) -> Option<Self> {
        let address = address(pipe)?;
        let socket = socket(SocketFlags::NONBLOCK)?;
        // Where there is no room (EAGAIN), nobody is there.
        connect(&socket, &address).ok()?;
        if !is_ours(&socket) {
            return None;
        }
        ioctl_fionbio(&socket, false).ok()?;
        Some(Self(socket))
    }

    /// Waits for whichever comes first: the other end may be writing into the kernel's pipe.
    pub fn wait(&self, pipe: BorrowedFd<'_>) -> First {
        let mut fds = [
            PollFd::new(&self.0, PollFlags::IN),
            PollFd::from_borrowed_fd(pipe, PollFlags::IN),
        ];
        if poll(&mut fds, None).is_err() || fds[0].revents().is_empty() {
            return First::Bytes;
        }
        let accepted = self.0.try_clone().ok();
        let accepted = accepted.and_then(|socket| Receiver::accept(socket, Trust::Trusted).ok());
        accepted.map_or(First::Nobody, |receiver| First::Ours(Box::new(receiver)))
    }
}

/// Waits until the other end of a socket is closed.
pub(crate) fn wait_for_end(socket: &OwnedFd) {
    while !is_at_end(socket, None) {}
}

/// Whether the other end of a socket is closed, after so long at most.
pub(crate) fn is_at_end(socket: &OwnedFd, at_most: Option<Duration>) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
    let time = at_most.and_then(|time| Timespec::try_from(time).ok());
    match poll(&mut fds, time.as_ref()) {
        Err(rustix::io::Errno::INTR) => false,
        Ok(ready) => ready > 0,
        Err(_) => true,
    }
}
