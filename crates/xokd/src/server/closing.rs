//! Closing connections whose peers may have sent descriptors that nobody has received.
//!
//! The kernel lets go of such descriptors in the thread that closes the connection, and for some it waits as long as their
//! sender has said: a TCP socket with `SO_LINGER`, a file of FUSE or NFS. Where the kernel refuses descriptors
//! ([`take_descriptors`](exos_host::peer::take_descriptors)) there are none, and a connection is closed at once. Elsewhere
//! each is closed on a thread of its own, of which there are at most [`CLOSERS_MAX`]; more connections wait for one.
//!
//! Invariant: no thread but a closer receives a message that has descriptors with it, or closes a connection on which one
//! may wait.

use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;

use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, Shutdown};

use crate::limits::CLOSERS_MAX;

/// Connections that are being closed.
#[derive(Debug)]
pub(super) struct Closing {
    may_hold_descriptors: bool,
    closers: Vec<(u32, JoinHandle<()>)>,
    waiting: Vec<(u32, OwnedFd)>,
}

impl Closing {
    /// For connections that may hold descriptors, or that the kernel keeps from it.
    pub(super) fn new(may_hold_descriptors: bool) -> Self {
        Self {
            may_hold_descriptors,
            closers: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// True when the next message has descriptors with it. It stays where it is, and so do they.
    pub(super) fn has_descriptors(&self, socket: impl AsFd) -> bool {
        if !self.may_hold_descriptors {
            return false;
        }
        let mut byte = [0];
        let mut parts = [std::io::IoSliceMut::new(&mut byte)];
        let mut ancillary = RecvAncillaryBuffer::new(&mut []);
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = rustix::net::recvmsg(socket, &mut parts, &mut ancillary, flags);
        // There is no room for any, which the kernel says when there are some.
        peeked.is_ok_and(|message| message.flags.contains(ReturnFlags::CTRUNC))
    }

    /// Closes a connection of this user; its peer sees that at once.
    pub(super) fn close(&mut self, uid: u32, socket: OwnedFd) {
        if self.may_hold_descriptors {
            let _ = rustix::net::shutdown(&socket, Shutdown::Both);
            self.waiting.push((uid, socket));
            self.go_on();
        }
    }

    /// Connections of this user that are not closed yet.
    pub(super) fn of(&self, uid: u32) -> usize {
        let closers = self.closers.iter().map(|(user, _)| user);
        let waiting = self.waiting.iter().map(|(user, _)| user);
        closers.chain(waiting).filter(|user| **user == uid).count()
    }

    /// Gives those that wait to closers, as far as there are any.
    pub(super) fn go_on(&mut self) {
        self.closers.retain(|(_, closer)| !closer.is_finished());
        while self.closers.len() < CLOSERS_MAX
            && let Some((uid, socket)) = self.waiting.pop()
        {
            let closer = std::thread::Builder::new().name("closer".to_owned());
            // Not by the closure, which would be closed here if there is no thread for it.
            let (hand, take) = std::sync::mpsc::sync_channel(1);
            match closer.spawn(move || drop(take.recv())) {
                Ok(thread) => {
                    let _ = hand.send(socket);
                    self.closers.push((uid, thread));
                }
                Err(_) => {
                    self.waiting.push((uid, socket));
                    return;
                }
            }
        }
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
