//! One request at an application: its body as it comes, and of its answer what was not sent yet.

use super::account::{Account, Share};
use super::answer::Head;
use super::body::Body;
use super::heads::Heads;
use super::request::Request;
use crate::limits::{CONTENT_ROOM, KEPT_BODY_LEN_MAX};
use crate::outgoing::Outgoing;
use crate::record::{Header, Kind};
use exos_iolite::Aggregate;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Exchange {
    pub request: Request,
    body: Body,
    /// What it holds of the application's memory.
    share: Share,
    /// It was handed over with all of its body.
    is_handed_over: bool,
    /// The application has no memory for it, and has nothing to do with it any more.
    is_refused: bool,
    /// It was not sent.
    head: Option<Head>,
    has_head: bool,
    /// Content that was not sent, and whether it is kept.
    content: VecDeque<(Aggregate, bool)>,
    content_len: usize,
    ending: Ending,
    /// What the server takes.
    room: usize,
    /// There was content since it was told that all has gone.
    had_content: bool,
    /// There is something to be sent.
    pub is_dirty: bool,
}

/// How far an answer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    /// More comes.
    Open,
    /// No more comes than is there.
    Whole,
    /// No more comes, and it is not whole.
    Broken,
}

/// What became of a part of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    Yes,
    /// There was no room for it: the server breaks the rules.
    BeyondRoom,
    /// The application has no memory for it: the request is refused.
    Refused,
}

impl Exchange {
    /// A request, which is refused at once where the application holds too much already.
    pub fn new(request: Request, account: &Account) -> Self {
        let mut share = account.open();
        let is_within_limit = share.add(request.variables_len());
        let mut exchange = Self {
            body: Body::new(request.has_body()),
            request,
            share,
            is_handed_over: false,
            is_refused: false,
            head: None,
            has_head: false,
            content: VecDeque::new(),
            content_len: 0,
            ending: Ending::Open,
            room: CONTENT_ROOM,
            had_content: false,
            is_dirty: false,
        };
        if !is_within_limit {
            exchange.refuse(503);
        }
        exchange
    }

    /// It is over, and keeps no more than memory for another.
    pub fn rest(&mut self) {
        self.request = Request::new(self.request.take_variables(), false);
        self.body = Body::new(false);
        self.content = VecDeque::new();
        self.share.release();
    }

    /// One that rests is another from now on, with these variables.
    pub fn begin_again(&mut self, variables: &mut Vec<u8>, has_body: bool, account: &Account) {
        let memory = self.request.take_variables();
        let variables = std::mem::replace(variables, memory);
        *self = Self::new(Request::new(variables, has_body), account);
    }

    /// The application has nothing to do with it any more, and was told so, or never of it.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    fn refuse(&mut self, status: u16) {
        self.give_up(status);
        self.is_refused = true;
    }

    // What the server sends.

    /// A part of the body.
    pub fn take_body(&mut self, bytes: &[u8]) -> Taken {
        let before = self.body.len();
        if !self.body.take(bytes) {
            return Taken::BeyondRoom;
        }
        if self.is_ended() {
            // It holds nothing of that.
            return Taken::Yes;
        }
        self.is_dirty |= self.body.has_room_to_tell();
        if self.share.add(self.body.len() - before) {
            return Taken::Yes;
        }
        self.refuse(503);
        Taken::Refused
    }

    pub fn end_body(&mut self) {
        self.body.end();
    }

    /// The server takes more.
    pub fn more_room(&mut self, more: usize) {
        // There never is more than at the beginning, whatever the server says.
        self.room = self.room.saturating_add(more).min(CONTENT_ROOM);
        self.is_dirty = true;
    }

    // What the application says.

    /// What has come of the body.
    pub fn read_body(&mut self) -> Vec<u8> {
        let bytes = self.body.read_all();
        self.share.remove(bytes.len());
        self.is_dirty |= self.body.has_room_to_tell();
        bytes
    }

    /// The next bytes of the body, as many as fit.
    pub fn read_body_into(&mut self, out: &mut [u8]) -> usize {
        let len = self.body.read(out);
        self.share.remove(len);
        self.is_dirty |= self.body.has_room_to_tell();
        len
    }

    /// Keeps what has come of the body beside the request; true when it is whole and the request is to be answered, which is once.
    pub fn keep_body(&mut self) -> bool {
        let bytes = self.read_body();
        let is_within_limit = self.share.add(bytes.len());
        self.request.add_body(&bytes);
        if self.request.body().len() > KEPT_BODY_LEN_MAX {
            self.give_up(413);
        } else if !is_within_limit {
            self.give_up(503);
        }
        self.body.is_whole()
            && !self.is_ended()
            && !std::mem::replace(&mut self.is_handed_over, true)
    }

    pub fn body_is_whole(&self) -> bool {
        self.body.is_whole()
    }

    /// One that no server takes is 500.
    pub fn begin(&mut self, head: Head) {
        if !self.has_head && !self.is_ended() {
            self.head = Some(match head.is_too_long() {
                true => Head::new(500),
                false => head,
            });
            self.has_head = true;
            self.is_dirty = true;
        }
    }

    /// Its answer has begun.
    pub fn has_head(&self) -> bool {
        self.has_head
    }

    pub fn send(&mut self, content: Aggregate, is_kept: bool) {
        if !self.is_ended() && !content.is_empty() {
            self.content_len += content.len();
            self.had_content = true;
            self.content.push_back((content, is_kept));
            self.is_dirty = true;
        }
    }

    /// Sends these parts, whose list becomes its own.
    pub fn send_all(&mut self, parts: VecDeque<(Aggregate, bool)>) {
        if !self.content.is_empty() {
            parts
                .into_iter()
                .for_each(|(part, is_kept)| self.send(part, is_kept));
        } else if !self.is_ended() {
            self.content = parts;
            self.content.retain(|(part, _)| !part.is_empty());
            self.content_len = self.content.iter().map(|(part, _)| part.len()).sum();
            self.had_content |= !self.content.is_empty();
            self.is_dirty = true;
        }
    }

    /// The answer is whole. One without a head is 500.
    pub fn end(&mut self) {
        if !self.has_head {
            self.begin(Head::new(500));
        }
        self.finish(Ending::Whole);
    }

    /// It is answered with this status; an answer whose head was sent is cut off behind what went.
    pub fn give_up(&mut self, status: u16) {
        if self.is_ended() {
            return;
        }
        self.content.clear();
        self.content_len = 0;
        if self.has_head && self.head.is_none() {
            return self.finish(Ending::Broken);
        }
        self.has_head = false;
        self.begin(Head::new(status).length(0));
        self.end();
    }

    fn finish(&mut self, ending: Ending) {
        if self.is_ended() {
            return;
        }
        self.ending = ending;
        self.is_dirty = true;
        // Nobody reads more of what is asked.
        self.share.remove(self.body.len());
        self.body.ignore();
    }

    pub fn is_ended(&self) -> bool {
        self.ending != Ending::Open
    }

    /// Bytes of content that were not sent, since the server has given no room for them.
    pub fn queued(&self) -> usize {
        self.content_len
    }

    /// There was content, and all has gone: there is room for more.
    pub fn has_become_empty(&mut self) -> bool {
        self.content.is_empty() && !self.is_ended() && std::mem::take(&mut self.had_content)
    }

    /// Puts into the pipe what may go; true when that was the end.
    pub fn go_on(&mut self, number: u32, heads: &mut Heads, outgoing: &mut Outgoing) -> bool {
        self.is_dirty = false;
        if self.body.has_room_to_tell() && !self.is_ended() {
            outgoing.push(Header::room(number, self.body.tell_room()), &[]);
        }
        if !self.has_head {
            return false;
        }
        if let Some(head) = self.head.take() {
            heads.push(&head, number, outgoing);
        }
        if self.ending == Ending::Broken {
            outgoing.push(Header::new(Kind::Leave, number, 0), &[]);
            return true;
        }
        while let Some((part, is_kept)) = self.next_part() {
            let is_last = self.is_ended() && self.content.is_empty();
            let header = Header::new(Kind::Content, number, part.len());
            outgoing.pass(header.kept(is_kept).last(is_last), part);
            if is_last {
                return true;
            }
        }
        let is_over = self.is_ended() && self.content.is_empty();
        if is_over {
            let header = Header::new(Kind::Content, number, 0);
            outgoing.push(header.last(true), &[]);
        }
        is_over
    }

    /// The next content for which there is room. It is cut between slices, so that what is kept is the same when it comes again; one that is
    /// longer than there is ever room for is cut where the room ends.
    fn next_part(&mut self) -> Option<(Aggregate, bool)> {
        let (mut part, is_kept) = self.content.pop_front()?;
        let mut len = 0;
        for slice in part.slices() {
            if len + slice.len() > self.room {
                break;
            }
            len += slice.len();
        }
        if len == 0
            && part
                .first()
                .is_some_and(|first| first.len() > CONTENT_ROOM / 2)
        {
            len = self.room.min(part.len());
        }
        if len < part.len() {
            let rest = part.split(len);
            self.content.push_front((rest, is_kept));
        }
        self.room -= len;
        self.content_len -= len;
        (len > 0).then_some((part, is_kept))
    }
}

#[cfg(test)]
#[path = "exchange/tests.rs"]
mod tests;
