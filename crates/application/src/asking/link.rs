//! A server's end of a link: it asks, by number, and takes what comes.
//!
//! In each turn of a loop [`look`](Link::look), then [`poll`](Link::poll) until there is none, and [`flush`](Link::flush) behind the last that
//! was asked or taken. A link that has failed has what came before; nothing more comes, and it is to be dropped with its last request.

use super::asked::{Asked, Part};
use super::hearing::{Heard, Hearing, watch};
use super::requests::Requests;
use super::sending::Sending;
use crate::limits::{LOOK_RECORDS_MAX, REQUEST_BUFFERS, REQUEST_SLOTS};
use crate::record::{Header, Kind};
use crate::socket::connect_to;
use exos_iolite::{Error, Options, Pool, Result, Sender, Shape};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

const SENDER: u64 = 0;
const ANSWERS: u64 = 1;

/// A link to an application. Its caller knows each request by a `T`.
#[derive(Debug)]
pub struct Link<T = u64> {
    epoll: OwnedFd,
    /// What is sent; nothing any more when the link has failed.
    sending: Option<Sending>,
    /// What is heard; nothing any more when the link has failed.
    hearing: Option<Hearing>,
    requests: Requests<T>,
    /// The application takes nothing any more.
    is_deaf: bool,
    /// The application is to be asked nothing more.
    is_stopping: bool,
    failure: Option<Error>,
    answered: u64,
}

impl<T: Copy> Link<T> {
    /// Connects to the application at a Unix socket. Never waits.
    ///
    /// # Errors
    ///
    /// Nobody listens there, as many as may wait to be accepted do so (`EAGAIN`), or memory or descriptors are missing.
    pub fn connect(path: &Path) -> Result<Self, Errno> {
        let (requests, answers) = connect_to(path)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let begin = || {
            let pool = Pool::new("exos-requests", Shape::of(REQUEST_BUFFERS))?;
            let options = Options {
                slots: REQUEST_SLOTS,
                ..Options::default()
            };
            let sender = Sender::connect(requests, &pool, options)?;
            Ok(Sending::new(sender, pool))
        };
        let sending = begin().map_err(errno)?;
        watch(&epoll, sending.as_fd(), SENDER).map_err(errno)?;
        watch(&epoll, answers.as_fd(), ANSWERS).map_err(errno)?;
        Ok(Link {
            epoll,
            sending: Some(sending),
            hearing: Some(Hearing::new(answers)),
            requests: Requests::new(),
            is_deaf: false,
            is_stopping: false,
            failure: None,
            answered: 0,
        })
    }

    // Requests.

    /// A number for a request, of which news are told by this token; nothing where the link carries as many as it can.
    pub fn reserve(&mut self, token: T) -> Option<u32> {
        self.requests.begin(token)
    }

    /// Asks: variables in FastCGI's form; `has_body` when [`send_body`](Self::send_body) follows.
    pub fn ask(&mut self, request: u32, variables: &[u8], has_body: bool) {
        let header = Header::new(Kind::Request, request, variables.len());
        self.send_or_queue(request, header.last(!has_body), variables);
    }

    /// Sends a part of a request's body, for which there is [room](Self::body_room).
    pub fn send_body(&mut self, request: u32, bytes: &[u8], is_last: bool) {
        if let Some(asked) = self.requests.get_mut(request) {
            asked.sends_body(bytes.len());
            let header = Header::new(Kind::Body, request, bytes.len());
            self.send_or_queue(request, header.last(is_last), bytes);
        }
    }

    /// A record of a request goes with what is put together now, or waits in line with it.
    fn send_or_queue(&mut self, request: u32, header: Header, bytes: &[u8]) {
        let (Some(asked), Some(sending)) = (self.requests.get_mut(request), &mut self.sending)
        else {
            return; // A link that has failed sends nothing.
        };
        if sending.push_now(header, bytes) {
            asked.goes(&header);
        } else {
            asked.queue(header, bytes);
            sending.wait_in_line(request);
        }
    }

    /// A record without bytes goes before all that wait.
    fn push(&mut self, header: Header) {
        if let Some(sending) = &mut self.sending {
            sending.push(header);
        }
    }

    /// How much of its body the application takes.
    pub fn body_room(&self, request: u32) -> usize {
        self.requests.get(request).map_or(0, Asked::body_room)
    }

    /// What has come of an answer, up to the first piece of its content.
    pub fn take(&mut self, request: u32) -> Option<Part> {
        let (part, more) = self.requests.get_mut(request)?.take()?;
        if more > 0 {
            self.push(Header::room(request, more));
        }
        Some(part)
    }

    /// The application has given an answer up: nothing more comes than what is there.
    pub fn is_broken(&self, request: u32) -> bool {
        self.requests.get(request).is_some_and(Asked::is_broken)
    }

    /// Nobody wants a request's answer, or it was taken whole: gives the token.
    pub fn leave(&mut self, request: u32) -> Option<T> {
        let asked = self.requests.get(request)?;
        let is_under_way = asked.is_begun && !asked.is_over();
        if asked.has_unsent()
            && let Some(sending) = &mut self.sending
        {
            sending.forget(request);
        }
        if is_under_way {
            self.push(Header::new(Kind::Leave, request, 0));
        }
        self.requests.end(request)
    }

    // The loop.

    /// Hears what has come. `has_rung` when the descriptor was readable.
    pub fn look(&mut self, has_rung: bool) {
        if self.failure.is_some() {
            return;
        }
        if let Err(error) = self.hear_all(has_rung) {
            self.fail(error);
        }
    }

    fn hear_all(&mut self, has_rung: bool) -> Result<()> {
        if has_rung {
            self.hear_bells()?;
        }
        let Some(hearing) = &mut self.hearing else {
            return Ok(());
        };
        hearing.read(self.is_deaf)?;
        for _ in 0..LOOK_RECORDS_MAX {
            match hearing.hear(&mut self.requests)? {
                None => break,
                Some(Heard::Something) => {}
                Some(Heard::Answer) => self.answered += 1,
                Some(Heard::Stop) => self.is_stopping = true,
            }
        }
        Ok(())
    }

    fn hear_bells(&mut self) -> Result<()> {
        let mut events = Vec::with_capacity(2);
        let spare = rustix::buffer::spare_capacity(&mut events);
        // For no time.
        let _ = epoll::wait(&self.epoll, spare, Some(&Timespec::default()));
        for event in events {
            if event.data.u64() == SENDER {
                let has_gone = self.sending.as_mut().is_some_and(Sending::woken);
                self.is_deaf |= has_gone;
            } else if let Some(hearing) = &mut self.hearing {
                hearing.woken(&self.epoll, ANSWERS)?;
            }
        }
        Ok(())
    }

    /// The token of the next request with news; all have such when the link has failed.
    pub fn poll(&mut self) -> Option<T> {
        self.requests.poll()
    }

    /// Sends what there is to be sent, and has the descriptor be readable when there is more to hear. True when there is already.
    pub fn flush(&mut self) -> bool {
        if self.failure.is_some() {
            return false;
        }
        match self.send() {
            Ok(has_more) => has_more,
            Err(error) => {
                self.fail(error);
                self.requests.has_news()
            }
        }
    }

    fn send(&mut self) -> Result<bool> {
        let mut has_more = false;
        let requests = &mut self.requests;
        let next_of = |request| requests.get_mut(request).and_then(Asked::next_unsent);
        let Some(sending) = &mut self.sending else {
            return Ok(false);
        };
        match sending.write(next_of) {
            Ok(has_room) => has_more |= has_room,
            // What it said before it went is heard first.
            Err(Error::PeerGone) => {
                has_more |= !self.is_deaf;
                self.is_deaf = true;
            }
            Err(error) => return Err(error),
        }
        if let Some(hearing) = &mut self.hearing {
            has_more |= hearing.arm()?;
        }
        Ok(has_more)
    }

    fn fail(&mut self, error: Error) {
        self.failure = Some(error);
        // What came for its requests is in memory of ours.
        self.hearing = None;
        if let Some(sending) = self.sending.take() {
            sending.abandon();
        }
        self.requests.tell_all(Asked::forget_unsent);
    }

    // Getters.

    /// Why nothing more comes, if so.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Bytes that wait for the application, which has made room for [`written`](Self::written) bytes before.
    pub fn unsent_len(&self) -> usize {
        let Some(sending) = &self.sending else {
            return 0;
        };
        let waiting = match sending.has_line() {
            true => self.requests.iter().map(Asked::unsent_len).sum(),
            false => 0,
        };
        sending.len() + waiting
    }

    /// Bytes that were written into the pipe.
    pub fn written(&self) -> u64 {
        self.sending.as_ref().map_or(0, Sending::written)
    }

    /// What is to be sent waits for buffers that the application has: it is to be tried again after a moment.
    pub fn is_short(&self) -> bool {
        self.sending.as_ref().is_some_and(Sending::is_short)
    }

    /// The application takes nothing: its requests are over, and another link may be made.
    pub fn give_up(&mut self) {
        if self.failure.is_none() {
            self.fail(Error::PeerFault("it takes no requests"));
        }
    }

    /// The application is to be asked nothing more: another link may be made, perhaps to one that follows it.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Requests that were not left.
    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    /// Answers that have come whole.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Pieces of content that were known, and not copied.
    pub fn kept_hits(&self) -> u64 {
        self.hearing.as_ref().map_or(0, Hearing::kept_hits)
    }
}

impl<T> AsFd for Link<T> {
    /// Readable when there is something to hear.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// What the kernel said, of an error before there was a peer.
fn errno(error: Error) -> Errno {
    match error {
        Error::System(_, source) => Errno::from_io_error(&source).unwrap_or(Errno::IO),
        _ => Errno::CONNRESET,
    }
}
