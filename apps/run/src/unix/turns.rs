//! What goes on with a socket that goes by a Unix socket, when the stack or the program is ready.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::task::{Context as TaskContext, Poll as Ready, Waker};

use exos_host::intercept::Call;
use rustix::net::{AddressFamily, RecvFlags, SocketType, recv};

use super::calls::accept_flags;
use super::flow::{Flow, Goes, cut, is_hung_up};
use super::sockets::{Kind, Made, UnixSockets, pair};
use crate::answer::{errno, fails};
use crate::context::Context;
use crate::limits::PIECE;
use crate::listener::Accepted;
use crate::target::{Descriptor, copy_timeouts, write_address};

impl UnixSockets {
    /// An event of one of the sockets.
    pub fn handle(&mut self, cx: &Context, token: usize) {
        // It may have been removed by an event before.
        if self.all.contains(token / 2) {
            self.turn_after(cx, token / 2, token % 2 == 1);
        }
    }

    pub fn turn_all(&mut self, cx: &Context) {
        let all: Vec<usize> = self.all.iter().map(|(key, _)| key).collect();
        all.into_iter().for_each(|key| self.turn(cx, key));
    }

    /// Goes on with a socket, until its program has closed it.
    pub fn turn(&mut self, cx: &Context, key: usize) {
        self.turn_after(cx, key, true);
    }

    /// As above, where the program may have done something to it, or the stack alone has.
    fn turn_after(&mut self, cx: &Context, key: usize, by_program: bool) {
        // What the program has written to others was left there.
        let by_program = by_program || !matches!(self.all[key].kind, Kind::Flowing(_));
        match self.all[key].kind {
            Kind::Listening(_) => self.turn_of_listener(cx, key),
            Kind::Connecting(_) => self.turn_of_attempt(cx, key),
            Kind::Flowing(_) | Kind::Datagrams(_) | Kind::Failed => {}
        }
        let socket = &mut self.all[key];
        let closed = match &mut socket.kind {
            Kind::Flowing(flow) => {
                let goes = flow.turn(&socket.end, &mut self.buffer, by_program);
                socket.error = socket.error.take().or(flow.error.take());
                goes.is_ok_and(|goes| goes == Goes::Closed)
            }
            Kind::Datagrams(flow) => {
                let goes = flow.turn(cx, &socket.end, &mut self.buffer);
                socket.error = flow.error.take().or(socket.error.take());
                goes.is_ok_and(|goes| goes == Goes::Closed)
            }
            _ => is_hung_up(&socket.end).unwrap_or(false),
        };
        if closed {
            let (waiting, number) = self.remove(key);
            waiting.answer(cx, Err(number));
        } else {
            socket.hear_of_room(cx, key);
        }
    }

    /// Has one that listens go on with connections that were made before, which are the program's to accept.
    pub fn turn_with_made(&mut self, cx: &Context, key: usize) {
        let socket = &self.all[key];
        if matches!(&socket.kind, Kind::Listening(l) if !l.made.is_empty()) {
            socket.say_readable();
        }
        self.turn(cx, key);
    }

    /// Takes connections that were made, as many as the program wants to wait.
    fn take_made(&mut self, cx: &Context, key: usize) {
        let socket = &mut self.all[key];
        let Kind::Listening(listening) = &mut socket.kind else {
            return;
        };
        let had_none = listening.made.is_empty();
        while listening.made.len() < listening.of.backlog {
            let made = match listening.of.accept() {
                Ok((Accepted::Ours(stream), peer)) => (Made::Ours(Flow::new(stream)), peer),
                Ok((Accepted::Kernels(waiting), peer)) => (Made::Kernels(waiting), peer),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    cx.later().add(2 * key);
                    break;
                }
            };
            listening.made.push_back(made);
        }
        if had_none && !listening.made.is_empty() {
            socket.say_readable();
        }
    }

    /// Takes the connections that were made, and gives them to the calls that wait.
    fn turn_of_listener(&mut self, cx: &Context, key: usize) {
        self.take_made(cx, key);
        while let Kind::Listening(listening) = &mut self.all[key].kind
            && !listening.made.is_empty()
            // One that was interrupted meanwhile leaves the connection to the next.
            && let Some(call) = listening.waiting.pop(cx)
        {
            let descriptor = Descriptor::of(&call, call.args[0] as i32);
            let given = descriptor.and_then(|descriptor| self.give(cx, &call, key, &descriptor));
            if let Err(error) = given {
                cx.respond(&call, Err(error));
            }
        }
        if let Kind::Listening(listening) = &mut self.all[key].kind {
            listening.waiting.end(cx, 2 * key);
        }
    }

    /// Gives the program a connection that waits.
    pub(super) fn give(
        &mut self,
        cx: &Context,
        call: &Call,
        key: usize,
        descriptor: &Descriptor,
    ) -> io::Result<()> {
        let socket = &mut self.all[key];
        let family = socket.family;
        let Kind::Listening(listening) = &mut socket.kind else {
            return fails(libc::EINVAL);
        };
        if socket.inode != descriptor.inode {
            return fails(libc::EBADF);
        }
        let made = &mut listening.made;
        if let Some((flow, peer, (theirs, ours))) = hand_over(cx, call, made, descriptor, family)? {
            let local = flow.stream.local_addr()?;
            let flow = Kind::Flowing(flow);
            let made = self.add(cx, (&theirs, ours), family, (local, Some(peer)), flow)?;
            self.turn(cx, made);
        }
        self.take_made(cx, key);
        Ok(())
    }

    /// Sees whether a connection that is being opened stands.
    fn turn_of_attempt(&mut self, cx: &Context, key: usize) {
        let socket = &mut self.all[key];
        let Kind::Connecting(connecting) = &mut socket.kind else {
            return;
        };
        let mut task = TaskContext::from_waker(Waker::noop());
        let Ready::Ready(opened) = connecting.stream.poll_opened(&mut task) else {
            connecting.waiting.end(cx, 2 * key);
            return;
        };
        drain(&socket.end, connecting.filled);
        let waiting = std::mem::take(&mut connecting.waiting);
        let Kind::Connecting(connecting) = std::mem::replace(&mut socket.kind, Kind::Failed) else {
            unreachable!("it was just looked at");
        };
        let result = match opened {
            Ok(()) => {
                socket.kind = Kind::Flowing(Flow::new(connecting.stream));
                Ok(0)
            }
            Err(error) => {
                let number = errno(&error);
                if !waiting.is_any(cx) {
                    socket.error = Some(error);
                }
                cut(&socket.end);
                Err(number)
            }
        };
        waiting.answer(cx, result);
    }
}

/// A connection of the stack's that a program has accepted, with its peer and both ends of its Unix socket.
type Given = (Flow, SocketAddr, (OwnedFd, OwnedFd));

/// Answers a call that accepts with the connection that waits first: with a Unix socket for it, or with one of the kernel's as it is.
fn hand_over(
    cx: &Context,
    call: &Call,
    made: &mut VecDeque<(Made, SocketAddr)>,
    listener: &Descriptor,
    family: AddressFamily,
) -> io::Result<Option<Given>> {
    let flags = accept_flags(call);
    let nonblocking = flags & libc::SOCK_NONBLOCK != 0;
    let (theirs, ours, peer) = match made.front() {
        Some((Made::Ours(_), peer)) => {
            let (theirs, ours) = pair(SocketType::STREAM, nonblocking)?;
            copy_timeouts(&listener.fd, &theirs)?;
            (theirs, Some(ours), *peer)
        }
        Some((Made::Kernels(waiting), peer)) => {
            rustix::io::ioctl_fionbio(&waiting.connection, nonblocking)?;
            (waiting.connection.try_clone()?, None, *peer)
        }
        None => return fails(libc::EAGAIN),
    };
    let to = [call.args[1], call.args[2]];
    write_address(&cx.calls, call, to, peer, family)?;
    let close_on_exec = flags & libc::SOCK_CLOEXEC != 0;
    let accepted = cx.traced(call, false);
    let given = cx.calls.give(call, theirs.as_fd(), close_on_exec)?;
    let (first, _) = made.pop_front().expect("it was just looked at");
    if made.is_empty() {
        // The program's socket is not readable any more.
        let _ = recv(&listener.fd, &mut [0][..], RecvFlags::DONTWAIT);
    }
    cx.trace(call, accepted, &Ok(i64::from(given)));
    Ok(match (first, ours) {
        (Made::Ours(flow), Some(ours)) => Some((flow, peer, (theirs, ours))),
        _ => None,
    })
}

/// Takes out what a socket was filled with.
fn drain(end: &OwnedFd, mut count: usize) {
    let mut bytes = vec![0; PIECE.min(count)];
    while count > 0 {
        let wanted = bytes.len().min(count);
        match recv(end, &mut bytes[..wanted], RecvFlags::DONTWAIT) {
            Ok((taken @ 1.., _)) => count -= taken,
            _ => return,
        }
    }
}
