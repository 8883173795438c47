//! A server's end of a link: it asks, by number, and takes what comes.
//!
//! In each turn of a loop [`look`](Link::look), then [`poll`](Link::poll) until there is none, and [`flush`](Link::flush) behind the last that
//! was asked or taken. A link that has failed has what came before; nothing more comes, and it is to be dropped with its last request.

use super::asked::{Asked, Part};
use super::kept::Kept;
use super::sending::Sending;
use crate::limits::{
    HEAD_LEN_MAX, LOOK_LEN_MAX, LOOK_RECORDS_MAX, REQUEST_BUFFERS, REQUEST_SLOTS, SAID_LEN_MAX,
};
use crate::record::{Decoder, Header, Kind, Piece};
use crate::socket::connect_to;
use exos_iolite::{Aggregate, Error, Options, Pool, Read, Receiver, Result, Sender, Shape, Trust};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

const SENDER: u64 = 0;
const ANSWERS: u64 = 1;

/// How the pipe of answers is.
#[derive(Debug)]
enum Answers {
    /// The application has not made it.
    Awaited(OwnedFd),
    Here(Receiver),
    Gone,
}

/// A link to an application.
#[derive(Debug)]
pub struct Link {
    epoll: OwnedFd,
    sending: Sending,
    answers: Answers,
    /// What was read and not looked at.
    rest: Aggregate,
    decoder: Decoder,
    /// What has come of a head or of what is said.
    begun: Vec<u8>,
    kept: Kept,
    asked: HashMap<u32, Asked>,
    next: u32,
    news: VecDeque<u32>,
    /// The application takes nothing any more.
    is_deaf: bool,
    failure: Option<Error>,
    answered: u64,
}

impl Link {
    /// Connects to the application at a Unix socket. Never waits.
    ///
    /// # Errors
    ///
    /// Nobody listens there, as many as may wait to be accepted do so (`EAGAIN`), or memory or descriptors are missing.
    pub fn connect(path: &Path) -> Result<Link, Errno> {
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
        watch(&epoll, sending.as_fd(), SENDER)?;
        watch(&epoll, answers.as_fd(), ANSWERS)?;
        Ok(Link {
            epoll,
            sending,
            answers: Answers::Awaited(answers),
            rest: Aggregate::new(),
            decoder: Decoder::default(),
            begun: Vec::new(),
            kept: Kept::default(),
            asked: HashMap::new(),
            next: 1,
            news: VecDeque::new(),
            is_deaf: false,
            failure: None,
            answered: 0,
        })
    }

    // Requests.

    /// A number for a request, of which news are told by this token.
    pub fn reserve(&mut self, token: u64) -> u32 {
        while self.asked.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let request = self.next;
        self.next = self.next.wrapping_add(1);
        self.asked.insert(request, Asked::new(token));
        request
    }

    /// Asks: variables in FastCGI's form; `has_body` when [`send_body`](Self::send_body) follows.
    pub fn ask(&mut self, request: u32, variables: &[u8], has_body: bool) {
        if let Some(asked) = self.asked.get_mut(&request) {
            let header = Header::new(Kind::Request, request, variables.len());
            asked.queue(header.last(!has_body), variables);
            self.sending.wait_in_line(request);
        }
    }

    /// Sends a part of a request's body, for which there is [room](Self::body_room).
    pub fn send_body(&mut self, request: u32, bytes: &[u8], is_last: bool) {
        if let Some(asked) = self.asked.get_mut(&request) {
            asked.sends_body(bytes.len());
            let header = Header::new(Kind::Body, request, bytes.len());
            asked.queue(header.last(is_last), bytes);
            self.sending.wait_in_line(request);
        }
    }

    /// How much of its body the application takes.
    pub fn body_room(&self, request: u32) -> usize {
        self.asked.get(&request).map_or(0, Asked::body_room)
    }

    /// The next part of an answer.
    pub fn take(&mut self, request: u32) -> Option<Part> {
        let (part, more) = self.asked.get_mut(&request)?.take()?;
        if more > 0 {
            self.sending.push(Header::room(request, more));
        }
        Some(part)
    }

    /// Nothing of an answer is left but its end, which has come.
    pub fn is_at_end(&self, request: u32) -> bool {
        self.asked.get(&request).is_some_and(Asked::is_at_end)
    }

    /// Nobody wants a request's answer, or it was taken whole.
    pub fn leave(&mut self, request: u32) {
        let Some(asked) = self.asked.remove(&request) else {
            return;
        };
        if asked.has_unsent() {
            self.sending.forget(request);
        }
        if asked.is_begun && !asked.is_over() && self.failure.is_none() {
            let header = Header::new(Kind::Leave, request, 0);
            self.sending.push(header);
        }
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
        let Answers::Here(receiver) = &mut self.answers else {
            return match self.is_deaf {
                true => Err(Error::PeerGone),
                false => Ok(()),
            };
        };
        if self.rest.is_empty() {
            match receiver.read(LOOK_LEN_MAX)? {
                Read::Data(data) => self.rest = data,
                Read::Nothing if !self.is_deaf => return Ok(()),
                Read::Nothing | Read::End => return Err(Error::PeerGone),
            }
        }
        self.hear_records()
    }

    /// Takes in what was read, as far as one look goes.
    fn hear_records(&mut self) -> Result<()> {
        for _ in 0..LOOK_RECORDS_MAX {
            let Some(piece) = self.decoder.next(&mut self.rest)? else {
                break;
            };
            self.hear(piece)?;
        }
        Ok(())
    }

    fn hear_bells(&mut self) -> Result<()> {
        let mut events = Vec::with_capacity(2);
        let spare = rustix::buffer::spare_capacity(&mut events);
        // For no time.
        let _ = epoll::wait(&self.epoll, spare, Some(&Timespec::default()));
        for event in events {
            match (event.data.u64(), &mut self.answers) {
                (SENDER, _) => {
                    self.is_deaf |= self.sending.woken();
                }
                (_, Answers::Here(receiver)) => receiver.woken(),
                (_, Answers::Awaited(_)) => self.begin()?,
                (_, Answers::Gone) => {}
            }
        }
        Ok(())
    }

    /// The application has made its pipe.
    fn begin(&mut self) -> Result<()> {
        if let Answers::Awaited(socket) = std::mem::replace(&mut self.answers, Answers::Gone) {
            let _ = epoll::delete(&self.epoll, &socket);
            // What it sends is copied before anybody looks at it, by us.
            let receiver = Receiver::accept(socket, Trust::Trusted)?.of_one_pool();
            watch(&self.epoll, receiver.as_fd(), ANSWERS)
                .map_err(|errno| Error::System("no memory is left", errno.into()))?;
            self.answers = Answers::Here(receiver);
        }
        Ok(())
    }

    fn hear(&mut self, piece: Piece) -> Result<()> {
        let (header, bytes, is_end) = (piece.header, piece.bytes, piece.is_end);
        let Some(asked) = self.asked.get_mut(&header.request) else {
            // One that was left: what was under way of it is nobody's.
            self.begun.clear();
            return Ok(());
        };
        match header.kind {
            Kind::Content => {
                asked.content(header, bytes, is_end, &mut self.kept)?;
                self.answered += u64::from(is_end && header.is_last);
            }
            Kind::Head | Kind::Said => {
                // A head that is cut off is none, which is its own request's matter; of what is said there is enough.
                let len_max = match header.kind {
                    Kind::Head => HEAD_LEN_MAX + 1,
                    _ => SAID_LEN_MAX,
                };
                if let Some(slice) = bytes {
                    let begun = &mut self.begun;
                    slice.for_each_block(|block| {
                        let len = block.len().min(len_max.saturating_sub(begun.len()));
                        begun.extend_from_slice(&block[..len]);
                    });
                }
                if is_end {
                    let whole = std::mem::take(&mut self.begun);
                    match header.kind {
                        Kind::Head => asked.head(whole)?,
                        _ => asked.say(&whole),
                    }
                }
            }
            Kind::Room => asked.more_body(header.value as usize)?,
            Kind::Request | Kind::Body | Kind::Leave => {
                return Err(Error::PeerFault("it sends what servers send"));
            }
        }
        if !std::mem::replace(&mut asked.is_told, true) {
            self.news.push_back(header.request);
        }
        Ok(())
    }

    /// The token of the next request with news; all have such when the link has failed.
    pub fn poll(&mut self) -> Option<u64> {
        while let Some(request) = self.news.pop_front() {
            if let Some(asked) = self.asked.get_mut(&request) {
                asked.is_told = false;
                return Some(asked.token);
            }
        }
        None
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
                !self.news.is_empty()
            }
        }
    }

    fn send(&mut self) -> Result<bool> {
        let mut has_more = false;
        let asked = &mut self.asked;
        let next_of = |request| asked.get_mut(&request).and_then(Asked::next_unsent);
        match self.sending.write(next_of) {
            Ok(has_room) => has_more |= has_room,
            // What it said before it went is heard first.
            Err(Error::PeerGone) => {
                has_more |= !self.is_deaf;
                self.is_deaf = true;
            }
            Err(error) => return Err(error),
        }
        if let Answers::Here(receiver) = &mut self.answers {
            has_more |= receiver.arm()? || !self.rest.is_empty();
        }
        Ok(has_more)
    }

    fn fail(&mut self, error: Error) {
        self.failure = Some(error);
        // What came for its requests is in memory of ours.
        self.answers = Answers::Gone;
        self.rest = Aggregate::new();
        self.kept = Kept::default();
        self.sending.clear();
        for (request, asked) in &mut self.asked {
            asked.forget_unsent();
            if !std::mem::replace(&mut asked.is_told, true) {
                self.news.push_back(*request);
            }
        }
    }

    // Getters.

    /// Why nothing more comes, if so.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Bytes that wait for the application, which has made room for [`written`](Self::written) bytes before.
    pub fn unsent_len(&self) -> usize {
        let waiting = self.asked.values().map(Asked::unsent_len);
        self.sending.len() + waiting.sum::<usize>()
    }

    /// Bytes that were written into the pipe.
    pub fn written(&self) -> u64 {
        self.sending.written()
    }

    /// What is to be sent waits for buffers that the application has: it is to be tried again after a moment.
    pub fn is_short(&self) -> bool {
        self.sending.is_short()
    }

    /// The application takes nothing: its requests are over, and another link may be made.
    pub fn give_up(&mut self) {
        if self.failure.is_none() {
            self.fail(Error::PeerFault("it takes no requests"));
        }
    }

    /// Requests that were not left.
    pub fn requests(&self) -> usize {
        self.asked.len()
    }

    /// Answers that have come whole.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Pieces of content that were known, and not copied.
    pub fn kept_hits(&self) -> u64 {
        self.kept.hits()
    }
}

impl AsFd for Link {
    /// Readable when there is something to hear.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn watch(epoll: &OwnedFd, fd: BorrowedFd<'_>, number: u64) -> Result<(), Errno> {
    let data = epoll::EventData::new_u64(number);
    epoll::add(epoll, fd, data, epoll::EventFlags::IN)
}

/// What the kernel said, of an error before there was a peer.
fn errno(error: Error) -> Errno {
    match error {
        Error::System(_, source) => Errno::from_io_error(&source).unwrap_or(Errno::IO),
        _ => Errno::CONNRESET,
    }
}
