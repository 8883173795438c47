//! Closing connections whose peers may have sent descriptors that nobody has received.
//!
//! The kernel lets go of such descriptors in the thread that closes the connection, and for some it waits as long as their
//! sender has said: a TCP socket with `SO_LINGER`, for one. Where the kernel refuses descriptors
//! ([`take_descriptors`](exos_host::peer::take_descriptors)) there are none, and a connection is closed at once. Elsewhere
//! a connection is shut down first, so that nothing more comes, and then the kernel says whether descriptors are left on it
//! (`scm_fds` in /proc/self/fdinfo, Unix sockets since Linux 5.6). Without any it is closed at once. One with descriptors is
//! closed by the end of a thread ([`exos_host::background`]), which lingers for nobody.
//!
//! Invariant: the daemon's thread neither receives a message that has descriptors with it, nor is the last to close a
//! connection on which one may wait.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use exos_host::background;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, Shutdown};

/// What is the next to be received on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Nothing yet.
    Nothing,
    /// A message, or the end.
    Plain,
    /// A message with descriptors.
    Descriptors,
}

/// Connections that are being closed.
#[derive(Debug)]
pub(super) struct Closing {
    may_hold_descriptors: bool,
    /// For which there was no thread.
    waiting: VecDeque<OwnedFd>,
}

impl Closing {
    /// For connections that may hold descriptors, or that the kernel keeps from it.
    pub(super) fn new(may_hold_descriptors: bool) -> Self {
        Self {
            may_hold_descriptors,
            waiting: VecDeque::new(),
        }
    }

    /// What the next message is. It stays where it is, and so do its descriptors. What has not been looked at is not
    /// received: another may have come meanwhile.
    pub(super) fn next(&self, socket: impl AsFd) -> Next {
        if !self.may_hold_descriptors {
            return Next::Plain;
        }
        let mut byte = [0];
        let mut parts = [std::io::IoSliceMut::new(&mut byte)];
        let mut ancillary = RecvAncillaryBuffer::new(&mut []);
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = rustix::net::recvmsg(socket, &mut parts, &mut ancillary, flags);
        match peeked {
            Err(Errno::AGAIN | Errno::INTR) => Next::Nothing,
            // There is no room for any, which the kernel says when there are some.
            Ok(message) if message.flags.contains(ReturnFlags::CTRUNC) => Next::Descriptors,
            Ok(_) | Err(_) => Next::Plain,
        }
    }

    /// Closes a connection; its peer sees that at once.
    pub(super) fn close(&mut self, socket: OwnedFd) {
        if self.may_hold_descriptors {
            let _ = rustix::net::shutdown(&socket, Shutdown::Both);
            if holds_descriptors(&socket) {
                self.close_in_background(socket);
            }
        }
    }

    /// Closes what others may send to until then.
    pub(super) fn close_listener(&mut self, listener: OwnedFd) {
        if self.may_hold_descriptors {
            self.close_in_background(listener);
        }
    }

    fn close_in_background(&mut self, socket: OwnedFd) {
        self.waiting.extend(background::close(socket).err());
    }

    /// Closes those that wait, if there are threads by now.
    pub(super) fn go_on(&mut self) {
        while let Some(socket) = self.waiting.pop_front() {
            if let Err(socket) = background::close(socket) {
                return self.waiting.push_front(socket);
            }
        }
    }
}

/// Whether a connection that is shut down has descriptors to be received. Where that cannot be told it may have some.
fn holds_descriptors(socket: &OwnedFd) -> bool {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", socket.as_raw_fd()));
    !info.is_ok_and(|info| says_none(&info))
}

fn says_none(info: &str) -> bool {
    let mut lines = info.lines();
    lines.any(|line| line.split_ascii_whitespace().eq(["scm_fds:", "0"]))
}

impl Drop for Closing {
    /// The kernel closes those that wait still with the process, and waits for nothing then.
    fn drop(&mut self) {
        self.waiting.drain(..).for_each(std::mem::forget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_left_unless_the_kernel_says_that_none_are() {
        for (info, none) in [
            ("flags:\t04002\nscm_fds: 0\n", true),
            ("scm_fds: 10\n", false),
            ("flags:\t0\n", false),
            ("", false),
        ] {
            assert_eq!(says_none(info), none, "{info}");
        }
    }
}
