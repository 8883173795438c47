//! Closing connections whose peers may have sent descriptors that nobody has received.
//!
//! The kernel lets go of such descriptors in the thread that closes the connection, and for some it waits as long as their
//! sender has said: a TCP socket with `SO_LINGER`, a file of FUSE or NFS. Where the kernel refuses descriptors
//! ([`take_descriptors`](exos_host::peer::take_descriptors)) there are none, and a connection is closed at once. Elsewhere
//! a connection is shut down first, so that nothing more comes, and then the kernel says whether descriptors are left on it
//! (`scm_fds` in /proc/self/fdinfo, unix sockets since Linux 5.6). Without any it is closed at once. One with descriptors is
//! closed on a thread of its own, the oldest first. There are few such threads ([`CLOSERS`]), and of these a user has a few
//! ([`CLOSERS_PER_USER_MAX`]): more of its connections wait for one, and nobody else's wait for them.
//!
//! Invariant: no thread but a closer receives a message that has descriptors with it, or closes a connection on which one
//! may wait.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::thread::JoinHandle;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, Shutdown};

use super::User;
use crate::limits::{CLOSERS, CLOSERS_PER_USER_MAX};
use crate::policy::Standing;

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

/// Whose connection is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Owner {
    user: User,
    /// It was one of those that users of a standing have together ([`CONNECTIONS`](crate::limits::CONNECTIONS)), and is
    /// until it is closed.
    let_in: bool,
}

/// Connections that are being closed.
#[derive(Debug)]
pub(super) struct Closing {
    may_hold_descriptors: bool,
    closers: Vec<(Owner, JoinHandle<()>)>,
    /// The oldest first.
    waiting: VecDeque<(Owner, OwnedFd)>,
}

impl Closing {
    /// For connections that may hold descriptors, or that the kernel keeps from it.
    pub(super) fn new(may_hold_descriptors: bool) -> Self {
        Self {
            may_hold_descriptors,
            closers: Vec::new(),
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

    /// Closes a connection of this user; its peer sees that at once.
    pub(super) fn close(&mut self, user: User, socket: OwnedFd) {
        self.shut(Owner { user, let_in: true }, socket);
    }

    /// Closes a connection of this user that was not let in.
    pub(super) fn turn_away(&mut self, user: User, socket: OwnedFd) {
        let let_in = false;
        self.shut(Owner { user, let_in }, socket);
    }

    fn shut(&mut self, owner: Owner, socket: OwnedFd) {
        if self.may_hold_descriptors {
            let _ = rustix::net::shutdown(&socket, Shutdown::Both);
            if holds_descriptors(&socket) {
                self.waiting.push_back((owner, socket));
                self.go_on();
            }
        }
    }

    /// Closes what others may still send to.
    pub(super) fn close_listener(&mut self, listener: OwnedFd) {
        if self.may_hold_descriptors {
            let user = (Standing::Own, u32::MAX);
            self.waiting.push_back((
                Owner {
                    user,
                    let_in: false,
                },
                listener,
            ));
            self.go_on();
        }
    }

    /// Connections of this user that are not closed yet.
    pub(super) fn of(&self, uid: u32) -> usize {
        self.owners().filter(|owner| owner.user.1 == uid).count()
    }

    /// How well the policy knew the users of those that were let in and are not closed yet.
    pub(super) fn standings(&self) -> impl Iterator<Item = Standing> {
        let let_in = self.owners().filter(|owner| owner.let_in);
        let_in.map(|owner| owner.user.0)
    }

    fn owners(&self) -> impl Iterator<Item = Owner> {
        let closers = self.closers.iter().map(|(owner, _)| *owner);
        closers.chain(self.waiting.iter().map(|(owner, _)| *owner))
    }

    /// Gives those that wait to closers, as far as there are any for their users.
    pub(super) fn go_on(&mut self) {
        self.closers.retain(|(_, closer)| !closer.is_finished());
        let mut at = 0;
        while let Some((owner, _)) = self.waiting.get(at) {
            if !self.has_closer_for(owner.user) {
                at += 1;
                continue;
            }
            let (owner, socket) = self.waiting.remove(at).expect("it was there just now");
            match start(socket) {
                Ok(thread) => self.closers.push((owner, thread)),
                Err(socket) => return self.waiting.insert(at, (owner, socket)),
            }
        }
    }

    fn has_closer_for(&self, (standing, uid): User) -> bool {
        let closers = || self.closers.iter().map(|(owner, _)| owner.user);
        let of_user = closers().filter(|(_, user)| *user == uid).count();
        let taken = closers().map(|(standing, _)| (standing, 1));
        of_user < CLOSERS_PER_USER_MAX && CLOSERS.room(standing, taken) > 0
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

/// Closes a socket on a thread of its own, or gives it back when there is none.
fn start(socket: OwnedFd) -> Result<JoinHandle<()>, OwnedFd> {
    let closer = std::thread::Builder::new().name("closer".to_owned());
    // Not by the closure, which would be closed here if there is no thread for it.
    let (hand, take) = std::sync::mpsc::sync_channel(1);
    match closer.spawn(move || drop(take.recv())) {
        Ok(thread) => {
            let _ = hand.send(socket);
            Ok(thread)
        }
        Err(_) => Err(socket),
    }
}

impl Drop for Closing {
    /// The kernel closes those that wait still with the process, and waits for nothing then.
    fn drop(&mut self) {
        for (_, socket) in self.waiting.drain(..) {
            std::mem::forget(socket);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::server::tests::{alone, lingering};

    /// Until those of this user are closed that can be.
    fn until_closed(closing: &mut Closing, uid: u32, left: usize) {
        while closing.of(uid) > left {
            std::thread::sleep(Duration::from_millis(1));
            closing.go_on();
        }
    }

    /// What is closed by a closer, since nothing is known of descriptors there, and at once.
    fn quick() -> OwnedFd {
        let file = std::fs::File::open("/dev/null");
        file.expect("it is there").into()
    }

    #[test]
    fn what_has_no_descriptors_is_closed_at_once() {
        let mut closing = Closing::new(true);
        let (socket, peer) = UnixStream::pair().expect("a pair");
        let many = [b'x'; 1000];
        std::io::Write::write_all(&mut &peer, &many).expect("room");
        closing.close((Standing::Named, 7), socket.into());
        assert_eq!((closing.of(7), closing.closers.len()), (0, 0));
        let sent = std::io::Write::write_all(&mut &peer, &many);
        assert!(sent.is_err(), "nobody is there any more");
        for (info, none) in [
            ("flags:\t04002\nscm_fds: 0\n", true),
            ("scm_fds: 10\n", false),
            ("flags:\t0\n", false),
            ("", false),
        ] {
            assert_eq!(says_none(info), none, "{info}");
        }
    }

    /// Sockets of which each takes an hour to be closed, of two users whom the policy names and of one whom it does not.
    #[test]
    fn one_user_holds_up_nobody_elses_closers() {
        alone(
            "server::closing::tests::one_user_holds_up_nobody_elses_closers",
            || {
                let mut closing = Closing::new(true);
                let users = [
                    (Standing::Named, 7),
                    (Standing::Named, 8),
                    (Standing::Unnamed, 9),
                ];
                let mut peers = Vec::new();
                for user in users {
                    for _ in 0..CLOSERS_PER_USER_MAX + 2 {
                        let (socket, peer) = lingering();
                        peers.push(peer);
                        closing.close(user, socket);
                    }
                }
                for standing in Standing::ALL {
                    closing.close((standing, 10), quick());
                    until_closed(&mut closing, 10, 0);
                }
                for (_, uid) in users {
                    assert_eq!(closing.of(uid), CLOSERS_PER_USER_MAX + 2);
                }
                // The oldest that waits is the next.
                let waiting = |closing: &Closing| -> Vec<i32> {
                    let of_first = closing.waiting.iter();
                    let of_first = of_first.filter(|(owner, _)| owner.user == users[0]);
                    of_first.map(|(_, socket)| socket.as_raw_fd()).collect()
                };
                let before = waiting(&closing);
                drop(peers.remove(0));
                until_closed(&mut closing, 7, CLOSERS_PER_USER_MAX + 1);
                assert_eq!(waiting(&closing), before[1..]);
                drop(peers);
                for (_, uid) in users {
                    until_closed(&mut closing, uid, 0);
                }
            },
        );
    }

    /// Many users whom nobody names, as one person may be.
    #[test]
    fn strangers_leave_closers_to_who_is_named() {
        alone(
            "server::closing::tests::strangers_leave_closers_to_who_is_named",
            || {
                let mut closing = Closing::new(true);
                let most = CLOSERS.most(Standing::Unnamed);
                let mut peers = Vec::new();
                for uid in 0..most as u32 + 1 {
                    let (socket, peer) = lingering();
                    peers.push(peer);
                    closing.close((Standing::Unnamed, 1000 + uid), socket);
                }
                assert_eq!((closing.closers.len(), closing.waiting.len()), (most, 1));
                closing.close((Standing::Member, 7), quick());
                until_closed(&mut closing, 7, 0);
                let standings = closing.standings();
                assert_eq!(
                    standings.filter(|s| *s == Standing::Unnamed).count(),
                    most + 1
                );
            },
        );
    }
}
