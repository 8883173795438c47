//! The process at the other end of a Unix socket, as the kernel knows it (unix(7)).
//!
//! Everything is of the moment at which the peer connected, and nothing that it does later changes it; the process
//! descriptor means that very process, also when its number has been given to another. Before Linux 6.5 the descriptor is of
//! the process that has the number when it is asked for: another one, if the peer has ended and its number is used again.

use crate::error::{Context as _, Result};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

/// linux/socket.h; the C library's bindings do not have it yet. Linux 6.5.
const SO_PEERPIDFD: i32 = 77;
/// linux/socket.h; the C library's bindings do not have it yet. Linux 6.16.
const SO_PASSRIGHTS: i32 = 83;

/// Supplementary groups that are looked at: more, and the peer counts as in none. `NGROUPS_MAX` is 65,536, but
/// nobody has that many.
const GROUPS_MAX: usize = 1024;

/// Anyone who connected.
#[derive(Debug)]
pub struct Peer {
    /// Its process, as this process numbers it.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
    /// Its groups, the effective one first.
    pub groups: Vec<u32>,
    /// The process itself: readable when it has ended.
    pub process: OwnedFd,
}

impl Peer {
    /// Who connected to this socket.
    pub fn of(socket: impl AsFd) -> Result<Self> {
        let socket = socket.as_fd();
        let what = || "cannot tell who connected";
        let credentials = socket_peercred(socket).context(what)?;
        let process = match process_at(&socket) {
            Err(e) if e.raw_os_error() == Some(libc::ENOPROTOOPT) => process_of(credentials.pid),
            process => process,
        };
        let process = process.context(what)?;
        let mut more = [0_u32; GROUPS_MAX];
        let len = option(&socket, libc::SO_PEERGROUPS, &mut more).unwrap_or(0);
        let mut groups = vec![credentials.gid.as_raw()];
        groups.extend(&more[..len]);
        Ok(Self {
            pid: credentials.pid.as_raw_nonzero().get().cast_unsigned(),
            uid: credentials.uid.as_raw(),
            groups,
            process,
        })
    }
}

/// The process at the other end.
fn process_at(socket: &impl AsFd) -> io::Result<OwnedFd> {
    let mut pidfd: i32 = -1;
    let len = option(socket, SO_PEERPIDFD, std::slice::from_mut(&mut pidfd))?;
    assert_eq!((len, pidfd >= 0), (1, true), "a descriptor was given");
    // SAFETY: the kernel has just given it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(pidfd) })
}

/// The process that has a number now.
fn process_of(pid: Pid) -> io::Result<OwnedFd> {
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Says whether a Unix socket takes descriptors. Sending one to a socket that does not fails (EPERM); what a listening socket
/// has been told holds for everybody who connects afterwards. False where the kernel cannot do that (before 6.16): then
/// descriptors arrive whatever was said.
pub fn take_descriptors(socket: impl AsFd, take: bool) -> bool {
    let value = i32::from(take);
    // SAFETY: the kernel reads an integer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const value).cast(),
            size_of::<i32>() as u32,
        )
    };
    result == 0
}

/// Reads an option of a socket; returns how many values there are.
fn option<T: Copy>(socket: &impl AsFd, option: i32, values: &mut [T]) -> io::Result<usize> {
    let mut len = u32::try_from(size_of_val(values)).expect("options are short");
    // SAFETY: the kernel writes at most `len` bytes to memory of that length, integers in all uses here.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            values.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(len as usize / size_of::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::os::unix::net::UnixStream;

    #[test]
    fn it_is_us_and_we_are_alive() {
        let (one, _two) = UnixStream::pair().expect("a pair");
        let peer = Peer::of(&one).expect("it is connected");
        assert_eq!(peer.pid, std::process::id());
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert_eq!(peer.groups[0], rustix::process::getegid().as_raw());
        let us = process_of(rustix::process::getpid()).expect("we are there");
        for process in [&peer.process, &us] {
            let mut fds = [PollFd::new(process, PollFlags::IN)];
            assert_eq!(poll(&mut fds, Some(&Timespec::default())), Ok(0));
        }
    }

    #[test]
    fn what_is_no_socket_has_no_peer() {
        let file = std::fs::File::open("/dev/null").expect("it is there");
        let error = Peer::of(&file).expect_err("a file");
        assert!(error.is(libc::ENOTSOCK), "{error}");
    }
}
