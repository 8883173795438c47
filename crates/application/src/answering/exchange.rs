//! One request at an application: its body as it comes, and of its answer what was not sent yet.

use super::answer::Head;
use super::request::Request;
use crate::limits::{BODY_ROOM, CONTENT_ROOM, HEAD_LEN_MAX};
use crate::outgoing::Outgoing;
use crate::record::{Header, Kind};
use exos_iolite::Aggregate;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Exchange {
    pub request: Request,
    /// What has come of the body and was not read.
    body: Vec<u8>,
    body_is_whole: bool,
    /// It was handed over with all of its body.
    is_handed_over: bool,
    /// What was read since the server was told.
    body_read: usize,
    head: Option<Vec<u8>>,
    has_head: bool,
    /// Content that was not sent, and whether it is kept.
    content: VecDeque<(Aggregate, bool)>,
    content_len: usize,
    is_ended: bool,
    /// What the server takes.
    room: usize,
    /// There was content since it was told that all has gone.
    had_content: bool,
    /// There is something to be sent.
    pub is_dirty: bool,
}

impl Exchange {
    pub fn new(request: Request) -> Self {
        Self {
            body_is_whole: !request.has_body(),
            request,
            is_handed_over: false,
            body: Vec::new(),
            body_read: 0,
            head: None,
            has_head: false,
            content: VecDeque::new(),
            content_len: 0,
            is_ended: false,
            room: CONTENT_ROOM,
            had_content: false,
            is_dirty: false,
        }
    }

    // What the server sends.

    /// A part of the body; false when that is more than there was room for.
    pub fn take_body(&mut self, bytes: &[u8]) -> bool {
        self.body.extend_from_slice(bytes);
        self.body.len() + self.body_read <= BODY_ROOM && !self.body_is_whole
    }

    pub fn end_body(&mut self) {
        self.body_is_whole = true;
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
        let bytes = std::mem::take(&mut self.body);
        self.body_read += bytes.len();
        self.is_dirty |= self.body_read >= BODY_ROOM / 2;
        bytes
    }

    /// Keeps what has come of the body beside the request; true when it is whole and the request is to be answered, which is once.
    pub fn keep_body(&mut self) -> bool {
        let bytes = self.read_body();
        self.request.add_body(&bytes);
        self.body_is_whole && !std::mem::replace(&mut self.is_handed_over, true)
    }

    pub fn body_is_whole(&self) -> bool {
        self.body_is_whole
    }

    /// One that no server takes is 500.
    pub fn begin(&mut self, head: &Head) {
        if !self.has_head {
            let bytes = head.bytes();
            let is_too_long = bytes.len() > HEAD_LEN_MAX;
            self.head = Some(if is_too_long {
                Head::new(500).bytes()
            } else {
                bytes
            });
            self.has_head = true;
            self.is_dirty = true;
        }
    }

    pub fn send(&mut self, content: Aggregate, is_kept: bool) {
        if !self.is_ended && !content.is_empty() {
            self.content_len += content.len();
            self.had_content = true;
            self.content.push_back((content, is_kept));
            self.is_dirty = true;
        }
    }

    pub fn end(&mut self) {
        self.is_ended = true;
        self.is_dirty = true;
    }

    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Bytes of content that were not sent, since the server has given no room for them.
    pub fn queued(&self) -> usize {
        self.content_len
    }

    /// There was content, and all has gone: there is room for more.
    pub fn has_become_empty(&mut self) -> bool {
        self.content.is_empty() && !self.is_ended && std::mem::take(&mut self.had_content)
    }

    /// Puts into the pipe what may go; true when that was the end.
    pub fn go_on(&mut self, number: u32, outgoing: &mut Outgoing) -> bool {
        self.is_dirty = false;
        if self.body_read >= BODY_ROOM / 2 && !self.body_is_whole {
            let more = std::mem::take(&mut self.body_read);
            outgoing.push(Header::room(number, more), &[]);
        }
        if self.is_ended && !self.has_head {
            // The server answers that for us.
            self.begin(&Head::new(500));
        }
        if !self.has_head {
            return false;
        }
        if let Some(head) = self.head.take() {
            outgoing.push(Header::new(Kind::Head, number, head.len()), &head);
        }
        while let Some((part, is_kept)) = self.next_part() {
            let is_last = self.is_ended && self.content.is_empty();
            let header = Header::new(Kind::Content, number, part.len());
            outgoing.pass(header.kept(is_kept).last(is_last), part);
            if is_last {
                return true;
            }
        }
        let is_over = self.is_ended && self.content.is_empty();
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
