//! What goes on with a shared socket, when the stack or the program has done something.

use std::io::{self, ErrorKind};
use std::sync::atomic::{Ordering, fence};
use std::task::{Context as TaskContext, Poll as Ready, Waker};
use std::time::Duration;

use exos_host::intercept::Call;
use exos_preload::memory::{options, state};

use super::entry::{Entry, Kind, numbers_in};
use super::flowing::Flowing;
use super::sockets::{SHARED, SharedSockets};
use super::unsharing::give_kernels_options;
use crate::answer::{Answer, errno, fails};
use crate::context::Context;
use crate::listener::Accepted;
use crate::waiting::Patience;

impl SharedSockets {
    /// Goes on with a shared socket.
    pub fn turn(&mut self, cx: &Context, number: u32) {
        let memory = &self.memory;
        let socket = memory.socket(number);
        let Some(entry) = self.table.get_mut(number) else {
            return;
        };
        match &mut entry.kind {
            Kind::Flowing(flowing) => {
                let has_options = socket.clear(state::OPTIONS);
                if has_options {
                    flowing.apply_options(memory, number);
                }
                let is_closed = socket.is_closed();
                socket.clear(state::HAS_MORE);
                // What comes for nobody is left to the stack.
                let reading = !is_closed && flowing.fill(memory, number);
                let writing = flowing.drain(memory, number);
                if is_closed && flowing.is_drained(memory, number) {
                    self.close(cx, number);
                } else {
                    // By another SO_RCVLOWAT what has come may be enough.
                    let reading = reading || has_options || socket.is(state::NO_READS);
                    self.news.tell(number, [reading, writing]);
                }
            }
            Kind::Datagrams(datagrams) => {
                // What was written before a close is there now.
                let is_closed = socket.is_closed();
                let sent = datagrams.drain(cx, memory, number);
                socket.clear(state::HAS_MORE);
                let reading = datagrams.fill(memory, number, entry.family);
                if sent.has_more {
                    memory.work().set(number);
                } else if is_closed {
                    return self.close(cx, number);
                }
                let ends = socket.is(state::NO_READS | state::NO_WRITES) || sent.has_failed;
                self.news
                    .tell(number, [reading || ends, sent.is_news || ends]);
            }
            _ if socket.is_closed() => self.close(cx, number),
            Kind::Listening(listener) => {
                let is_shut = socket.is(state::NO_READS);
                // One that the kernel does not have listen again has the stack's.
                let _ = listener.set_stopped(is_shut);
                match is_shut {
                    true => self.news.tell(number, [true, true]),
                    false => self.take_made(cx, number),
                }
            }
            Kind::Connecting(..) => self.turn_of_attempt(cx, number),
            Kind::Kernels(..) | Kind::Failed | Kind::Unshared(_) => {}
        }
    }

    /// No descriptor refers to a socket any more, and what was written is the stack's.
    fn close(&mut self, cx: &Context, number: u32) {
        let unread = self.memory.inward(number).take(usize::MAX);
        let Some(entry) = self.table.remove(number) else {
            return;
        };
        match entry.kind {
            // Something was not read: the peer is sent a reset (RFC 1122 §4.2.2.13).
            Kind::Flowing(_) if !unread.is_empty() => reset(&entry),
            Kind::Listening(_) => {
                for waiting in numbers_in(&unread) {
                    let offered = self.table.get(waiting);
                    if offered.is_some_and(|entry| entry.is_offered(&self.memory, waiting))
                        && let Some(entry) = self.table.remove(waiting)
                    {
                        reset(&entry);
                    }
                }
            }
            Kind::Kernels(_, listener) => {
                self.memory.work().set(listener);
            }
            Kind::Connecting(_, waiting) => {
                waiting.answer(cx, Err(libc::ECONNABORTED));
            }
            _ => {}
        }
    }

    /// Takes connections that were made, as many as the program wants to wait.
    fn take_made(&mut self, cx: &Context, number: u32) {
        let mut made = Vec::new();
        while let Some(taken) = self.take_one(cx, number) {
            made.push(taken);
        }
        if !made.is_empty() {
            self.news.tell(number, [true, false]);
        }
        for taken in made {
            // The set of sockets takes all that come.
            let _ = self.wait_for(cx, taken);
        }
    }

    /// Takes a connection that was made, with what has come of it, where the program and the table have room; gives its number.
    fn take_one(&mut self, cx: &Context, number: u32) -> Option<u32> {
        if !self.table.has_room() {
            self.table.stall(number);
            return None;
        }
        let listening = self.table.get(number)?;
        let Kind::Listening(listener) = &listening.kind else {
            return None;
        };
        if !self.wants_more(number, listener.backlog) {
            return None;
        }
        let (accepted, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(_) => {
                cx.later().add(SHARED + number as usize);
                return None;
            }
        };
        let (local, kind, bits) = match accepted {
            Accepted::Ours(stream) => {
                let local = stream.local_addr().ok()?;
                (local, Kind::Flowing(Flowing::new(stream)), state::STANDS)
            }
            // The first call with it has it be the kernel's in the program too.
            Accepted::Kernels(waiting) => (
                listening.local,
                Kind::Kernels(waiting, number),
                state::STANDS | state::UNSHARED,
            ),
        };
        let entry = Entry {
            family: listening.family,
            local,
            peer: Some(peer),
            kind,
        };
        let taken = self.table.insert(entry, bits)?;
        self.begin(number, taken);
        self.memory.inward(number).push(&taken.to_ne_bytes());
        Some(taken)
    }

    /// Whether a listener's ring has room for another connection; otherwise its program tells when it has taken one.
    fn wants_more(&self, number: u32, backlog: usize) -> bool {
        let (ring, socket) = (self.memory.inward(number), self.memory.socket(number));
        if ring.len() / 4 >= backlog {
            socket.add(state::HAS_MORE);
            fence(Ordering::SeqCst);
            if ring.len() / 4 >= backlog {
                return false;
            }
        }
        socket.clear(state::HAS_MORE);
        true
    }

    /// A connection begins with the options of its listener, as by the kernel, and with what has come.
    fn begin(&mut self, listener: u32, taken: u32) {
        let memory = &self.memory;
        let differs = memory
            .socket(taken)
            .take_options_of(memory.socket(listener));
        match self.table.get_mut(taken).map(|entry| &mut entry.kind) {
            Some(Kind::Flowing(flowing)) => {
                if differs {
                    flowing.apply_options(memory, taken);
                }
                flowing.fill(memory, taken);
            }
            Some(Kind::Kernels(waiting, _)) => {
                give_kernels_options(memory.socket(taken), &waiting.connection);
            }
            _ => {}
        }
    }

    /// Sees whether a connection that is being opened stands.
    fn turn_of_attempt(&mut self, cx: &Context, number: u32) {
        let Some(entry) = self.table.get_mut(number) else {
            return;
        };
        let Kind::Connecting(stream, waiting) = &mut entry.kind else {
            return;
        };
        let mut task = TaskContext::from_waker(Waker::noop());
        let Ready::Ready(opened) = stream.poll_opened(&mut task) else {
            if waiting.end(cx, SHARED + number as usize) {
                // It goes on, and the program hears of its end as of one that it does not wait for.
                self.memory
                    .socket(number)
                    .set_option(options::UNHEARD, true);
            }
            return;
        };
        let kind = std::mem::replace(&mut entry.kind, Kind::Failed);
        let Kind::Connecting(stream, waiting) = kind else {
            return;
        };
        let socket = self.memory.socket(number);
        let result = match opened {
            Ok(()) => {
                entry.kind = Kind::Flowing(Flowing::new(stream));
                socket.add(state::STANDS | state::OPTIONS);
                Ok(0)
            }
            Err(error) => {
                if !waiting.is_any(cx) {
                    socket.error.store(errno(&error) as u32, Ordering::Release);
                }
                socket.add(state::OVER);
                Err(errno(&error))
            }
        };
        self.news.tell(number, [true, true]);
        waiting.answer(cx, result);
        if result.is_ok() {
            self.turn(cx, number);
        }
    }

    /// A `connect` that a signal has interrupted, or whose time was over, is made again, of what is a shared socket by now; none where it
    /// is not.
    pub fn connect_again(
        &mut self,
        cx: &Context,
        call: &Call,
        part: u32,
    ) -> Option<io::Result<Answer>> {
        let number = self.memory.assigned(part, call.args[0] as i32)?;
        let entry = self.table.get_mut(number)?;
        let socket = self.memory.socket(number);
        let error = &socket.error;
        Some(match &mut entry.kind {
            Kind::Connecting(_, waiting) => {
                let limit = match socket.send_timeout.load(Ordering::Relaxed) {
                    0 => None,
                    ms => Some(Duration::from_millis(ms.into())),
                };
                let patience = Patience::connecting(limit, true);
                waiting.push(cx, call, patience, SHARED + number as usize);
                Ok(Answer::Later)
            }
            Kind::Flowing(_) => fails(libc::EISCONN),
            _ => match error.swap(0, Ordering::AcqRel) {
                0 => fails(libc::ECONNABORTED),
                number => fails(number as i32),
            },
        })
    }
}

/// The connection of a socket is reset when that is dropped.
fn reset(entry: &Entry) {
    if let Some(stream) = entry.stream() {
        let _ = stream.set_linger(Some(Duration::ZERO));
    }
}
