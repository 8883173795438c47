//! One connection: bytes from the socket to HTTP, slices of documents back.
//!
//! What was read and makes no whole request yet is kept here, where the other way leaves it in TCP's receive queue;
//! slices that the kernel has no room for wait in a queue.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use exos_buf::Slice;
use exos_inet::Instant;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::http::{Attempt, Next, Server, ServerConnection, Status, Tail, Wanted};
use crate::limits::QUEUE_LEN_MAX;
use crate::log::Unfinished;
use crate::serve::{Bounds, Pace, Wait};

/// Slices in one call: a response is two or three, a batch of pipelined ones more.
const PIECES_MAX: usize = 64;

/// A connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) socket: OwnedFd,
    pub(super) peer: IpAddr,
    pub(super) http: ServerConnection,
    /// Bytes received that are no whole request yet.
    received: Vec<u8>,
    /// Slices of responses, the first from `written` on.
    queue: VecDeque<Slice>,
    written: usize,
    /// What follows the slices, from a file.
    pub(super) tail: Option<Tail>,
    /// Bytes of both.
    pub(super) queued: usize,
    pub(super) unfinished: Unfinished,
    pub(super) begun: Instant,
    pub(super) wait: Wait,
    pub(super) deadline: Instant,
    /// What epoll tells of.
    pub(super) interest: EventFlags,
    /// Bytes queued so far, and how fast the client takes them.
    given: u64,
    pace: Pace,
    /// Requests wait in `received` for room in the queue.
    held: bool,
    /// The first request in `received` waits for its document.
    fetching: bool,
    /// The client has finished.
    client_finished: bool,
    /// No request is answered any more.
    closing: bool,
    /// Our side is shut.
    shut: bool,
}

/// What a turn of a connection shares with all.
pub(super) struct Shared<'a> {
    pub(super) server: &'a mut Server,
    pub(super) out: &'a mut Vec<Slice>,
    /// Where bytes are read into.
    pub(super) buffer: &'a mut [u8],
    pub(super) now: Instant,
    /// No further requests are wanted.
    pub(super) stopping: bool,
    pub(super) bounds: &'a Bounds,
    pub(super) slow_readers: &'a mut u64,
    /// What a request waits for from now on.
    pub(super) wanted: &'a mut Option<Wanted>,
}

impl Client {
    pub(super) fn new(socket: OwnedFd, peer: IpAddr, now: Instant) -> Client {
        let wait = Wait::Request;
        let deadline = now + wait.time();
        Client {
            socket,
            peer,
            http: ServerConnection::new(),
            received: Vec::new(),
            queue: VecDeque::new(),
            written: 0,
            tail: None,
            queued: 0,
            unfinished: Unfinished::default(),
            begun: now,
            wait,
            deadline,
            interest: EventFlags::IN,
            given: 0,
            pace: Pace::new(now, 0),
            held: false,
            fetching: false,
            client_finished: false,
            closing: false,
            shut: false,
        }
    }

    /// Reads, answers and writes as far as it goes. False when the connection is over.
    pub(super) fn go_on(&mut self, shared: &mut Shared<'_>) -> bool {
        let went = self
            .read(shared)
            .and_then(|()| self.answer_and_write(shared));
        went.is_ok() && !(self.shut && self.client_finished)
    }

    /// Takes what the socket has, up to one buffer: there is more only of who sends without reading.
    fn read(&mut self, shared: &mut Shared<'_>) -> io::Result<()> {
        if self.waits_to_serve() || self.client_finished {
            return Ok(());
        }
        let count = match rustix::io::read(&self.socket, &mut *shared.buffer) {
            Ok(0) => {
                self.client_finished = true;
                return Ok(());
            }
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        if self.closing {
            return Ok(()); // Thrown away, so that no reset overtakes the response (RFC 9112 §9.6).
        }
        if self.received.is_empty() {
            if self.http.is_between_requests() {
                self.begun = shared.now;
            }
            let bytes = std::mem::take(&mut shared.buffer);
            let consumed = self.answer(&bytes[..count], Attempt::default(), shared);
            self.received.extend_from_slice(&bytes[consumed..count]);
            shared.buffer = bytes;
        } else {
            self.received.extend_from_slice(&shared.buffer[..count]);
            self.answer_received(Attempt::default(), shared);
        }
        Ok(())
    }

    /// Writes what is queued; where that makes room, requests that wait are answered.
    fn answer_and_write(&mut self, shared: &mut Shared<'_>) -> io::Result<()> {
        loop {
            let is_all_written = self.write(shared)?;
            if !(is_all_written && self.held) {
                break;
            }
            self.answer_received(Attempt::default(), shared);
        }
        let is_served = !self.waits_to_serve();
        let no_more_comes = self.client_finished || (shared.stopping && self.is_all_sent());
        if is_served && no_more_comes {
            self.closing = true;
        }
        if self.closing && self.is_all_sent() && !self.shut {
            self.shut = true;
            rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write)?;
        }
        self.choose_wait(shared);
        Ok(())
    }

    fn answer_received(&mut self, attempt: Attempt, shared: &mut Shared<'_>) {
        let bytes = std::mem::take(&mut self.received);
        let consumed = self.answer(&bytes, attempt, shared);
        self.received = bytes;
        self.received.drain(..consumed);
        if self.received.is_empty() {
            // An idle connection keeps no buffer.
            self.received = Vec::new();
        }
    }

    /// Hands bytes to HTTP and queues its responses; returns how many were consumed.
    fn answer(&mut self, bytes: &[u8], attempt: Attempt, shared: &mut Shared<'_>) -> usize {
        if shared.server.wants_peer() {
            shared.server.begin(self.peer, self.begun);
        }
        let room = QUEUE_LEN_MAX.saturating_sub(self.queued);
        let out = &mut *shared.out;
        let http = &mut self.http;
        let mut handled = http.handle_again(shared.server, bytes, room, attempt, out);
        while let Next::Wait(missing) = &handled.next
            && let Some(long) = &missing.unopened
        {
            let (long, rest) = (long.clone(), &bytes[handled.consumed..]);
            self.go_on_with_file(&long, rest, room, &mut handled, shared);
        }
        if handled.responses > 0 {
            self.begun = shared.now;
            self.wait = Wait::Sending;
            self.deadline = shared.now + self.wait.time();
            if let Some(log) = shared.server.log_mut() {
                log.given(&mut self.unfinished);
            }
        }
        self.closing |=
            matches!(handled.next, Next::Close) || (shared.stopping && handled.responses > 0);
        self.held = matches!(handled.next, Next::Send | Next::Tail(_));
        self.fetching = false;
        let mut tail = None;
        match handled.next {
            Next::Wait(missing) => {
                self.fetching = true;
                *shared.wanted = Some(missing.document);
            }
            Next::Tail(rest) => tail = Some(*rest),
            Next::Receive | Next::Send | Next::Close => {}
        }
        self.give(tail, shared);
        handled.consumed
    }

    /// Queues what HTTP has given out, and what follows that.
    fn give(&mut self, tail: Option<Tail>, shared: &mut Shared<'_>) {
        if self.is_all_sent() {
            // Nothing was asked of the client until now.
            self.pace = Pace::new(shared.now, self.given);
        }
        let before = self.queued;
        self.queue(shared.out);
        if let Some(tail) = tail {
            self.queued += tail.len() as usize;
            self.tail = Some(tail);
        }
        self.given += (self.queued - before) as u64;
    }

    pub(super) fn queue(&mut self, out: &mut Vec<Slice>) {
        for slice in out.drain(..) {
            self.queued += slice.len();
            if !slice.is_empty() {
                self.queue.push_back(slice);
            }
        }
    }

    /// Writes as much as the kernel takes; true when nothing is left.
    fn write(&mut self, shared: &mut Shared<'_>) -> io::Result<bool> {
        let before = self.queued;
        let is_all = self.write_queue()? && self.send_tail()?;
        if self.queued < before {
            shared.server.count_taken((before - self.queued) as u64);
            self.deadline = shared.now + Wait::Sending.time();
            if let Some(log) = shared.server.log_mut() {
                log.acknowledged(&mut self.unfinished, self.queued);
            }
            if self.is_too_slow(shared) {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(is_all)
    }

    /// Writes slices as far as the kernel takes them; true when none is left.
    pub(super) fn write_queue(&mut self) -> io::Result<bool> {
        while !self.queue.is_empty() {
            let count = match self.write_some() {
                Ok(count) => count,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            };
            self.written_to(count);
        }
        Ok(true)
    }

    /// The client takes its responses too slowly, as far as can be seen: what the kernel has taken counts as taken.
    fn is_too_slow(&mut self, shared: &mut Shared<'_>) -> bool {
        let taken = self.given - self.queued as u64;
        let is_slow = self.queued > 0 && self.pace.is_too_slow(shared.bounds, shared.now, taken);
        if is_slow {
            *shared.slow_readers += 1;
            self.abort();
        }
        is_slow
    }

    fn write_some(&self) -> rustix::io::Result<usize> {
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        let mut count = 0;
        for (piece, slice) in pieces.iter_mut().zip(&self.queue) {
            let from = if count == 0 { self.written } else { 0 };
            *piece = IoSlice::new(&slice.as_bytes()[from..]);
            count += 1;
        }
        rustix::io::writev(&self.socket, &pieces[..count])
    }

    /// This many bytes more have been written.
    fn written_to(&mut self, count: usize) {
        self.queued -= count;
        self.written += count;
        while let Some(first) = self.queue.front() {
            if self.written < first.len() {
                break;
            }
            self.written -= first.len();
            self.queue.pop_front();
        }
    }

    /// What is waited for now, and until when.
    fn choose_wait(&mut self, shared: &Shared<'_>) {
        let now = shared.now;
        let wait = match (self.is_all_sent(), self.shut) {
            _ if self.fetching => Wait::Fetching,
            (false, _) => Wait::Sending,
            (true, true) => Wait::Lingering,
            (true, false) if !self.http.is_between_requests() => Wait::Request,
            (true, false) if self.wait == Wait::Request => Wait::Request,
            (true, false) => Wait::Idle,
        };
        if wait != self.wait {
            self.wait = wait;
            self.deadline = now + wait.time();
        }
        if wait == Wait::Request && shared.bounds.head_rate.is_some() && !self.received.is_empty() {
            self.deadline = self.begun + shared.bounds.head_time(self.received.len());
        }
    }

    /// Requests wait for room or for a document.
    fn waits_to_serve(&self) -> bool {
        self.held || self.fetching
    }

    /// What epoll has to tell of.
    pub(super) fn wanted(&self) -> EventFlags {
        let mut wanted = EventFlags::empty();
        if !self.waits_to_serve() && !self.client_finished {
            wanted |= EventFlags::IN;
        }
        if !self.is_all_sent() {
            wanted |= EventFlags::OUT;
        }
        wanted
    }

    fn is_all_sent(&self) -> bool {
        self.queue.is_empty() && self.tail.is_none()
    }

    /// True while a response is under way, or being fetched.
    pub(super) fn is_busy(&self) -> bool {
        !self.is_all_sent() || self.fetching
    }

    /// True while a request waits for its document.
    pub(super) fn is_fetching(&self) -> bool {
        self.fetching
    }

    /// Answers a request that waited, and those behind it; `failed` is what could not be read. False when the connection is over.
    pub(super) fn resume(&mut self, failed: Option<&Wanted>, shared: &mut Shared<'_>) -> bool {
        self.fetching = false;
        self.wait = Wait::Sending;
        self.answer_received(Attempt::after_waiting(failed), shared);
        self.answer_and_write(shared).is_ok() && !(self.shut && self.client_finished)
    }

    /// Answers a request that is not whole, or whose document does not come, and takes no further ones. False when the
    /// connection is over.
    pub(super) fn give_up(&mut self, status: Status, shared: &mut Shared<'_>) -> bool {
        if shared.server.wants_peer() {
            shared.server.begin(self.peer, self.begun);
        }
        shared.server.refuse(status, &self.received, shared.out);
        if let Some(log) = shared.server.log_mut() {
            log.given(&mut self.unfinished);
        }
        self.give(None, shared);
        self.finish(shared)
    }

    /// Has the kernel reset the connection rather than end it in order.
    pub(super) fn abort(&self) {
        // Without it, it ends in order.
        let _ = rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
    }

    /// True when no part of a request has arrived since the last response.
    pub(super) fn is_between_requests(&self) -> bool {
        self.http.is_between_requests()
    }

    /// Takes no further requests, and sends what is queued. False when the connection is over.
    pub(super) fn finish(&mut self, shared: &mut Shared<'_>) -> bool {
        self.closing = true;
        self.held = false;
        self.fetching = false;
        self.answer_and_write(shared).is_ok() && !(self.shut && self.client_finished)
    }
}
