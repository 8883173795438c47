//! One request of a link: what has come of its answer and was not taken, and how much may still come.

use super::kept::Kept;
use crate::limits::{
    BODY_ROOM, CONTENT_ROOM, GATHER_LEN_MAX, GATHERED_LEN_MAX, KEPT_LEN_MIN, SAID_LEN_MAX,
};
use crate::record::{HEADER_LEN, Header, Kind};
use exos_iolite::{Error, Result, Slice};
use std::collections::VecDeque;

/// A part of an answer.
#[derive(Clone, Debug)]
pub enum Part {
    /// Its head: header fields of CGI (RFC 3875 §6), whole.
    Head(Vec<u8>),
    /// Bytes of its content.
    Bytes(Vec<u8>),
    /// A piece of its content.
    Slice(exos_buf::Slice),
    /// Bytes for the operator.
    Said(Vec<u8>),
    /// It is whole.
    End,
}

impl Part {
    fn content_len(&self) -> usize {
        match self {
            Part::Bytes(bytes) => bytes.len(),
            Part::Slice(slice) => slice.len(),
            Part::Head(_) | Part::Said(_) | Part::End => 0,
        }
    }
}

/// A request.
#[derive(Debug)]
pub(super) struct Asked {
    /// What its caller knows it by.
    pub token: u64,
    parts: VecDeque<Part>,
    said: Vec<u8>,
    /// What the application may still send.
    room: usize,
    /// What was taken since it was told.
    taken: usize,
    /// What it takes of the body.
    body_room: usize,
    has_head: bool,
    is_over: bool,
    /// The application has given it up.
    is_broken: bool,
    /// Its caller is about to be told of news.
    pub is_told: bool,
    /// It was sent.
    pub is_begun: bool,
    /// Records of it that the pipe had no room for.
    unsent: VecDeque<(Header, Vec<u8>)>,
}

impl Asked {
    pub fn new(token: u64) -> Self {
        Self {
            token,
            parts: VecDeque::new(),
            said: Vec::new(),
            room: CONTENT_ROOM,
            taken: 0,
            body_room: BODY_ROOM,
            has_head: false,
            is_over: false,
            is_broken: false,
            is_told: false,
            is_begun: false,
            unsent: VecDeque::new(),
        }
    }

    /// Nothing more of the answer comes, whether what is there was taken or not.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// No more comes than what is there, and that is not all.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    pub fn body_room(&self) -> usize {
        self.body_room
    }

    /// A part of the body is sent.
    pub fn sends_body(&mut self, len: usize) {
        self.body_room = self.body_room.saturating_sub(len);
    }

    /// A record of it waits until there is room in the pipe.
    pub fn queue(&mut self, header: Header, bytes: &[u8]) {
        self.unsent.push_back((header, bytes.to_vec()));
    }

    /// The next record of it that waits, which goes now.
    pub fn next_unsent(&mut self) -> Option<(Header, Vec<u8>)> {
        let next = self.unsent.pop_front()?;
        self.goes(&next.0);
        Some(next)
    }

    /// A record of it goes.
    pub fn goes(&mut self, header: &Header) {
        self.is_begun |= header.kind == Kind::Request;
    }

    /// Bytes of it that were not sent.
    pub fn unsent_len(&self) -> usize {
        (self
            .unsent
            .iter()
            .map(|(_, bytes)| HEADER_LEN + bytes.len()))
        .sum()
    }

    /// Nothing is sent any more.
    pub fn forget_unsent(&mut self) {
        self.unsent.clear();
    }

    /// Some records of it wait.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    // What comes.

    pub fn more_body(&mut self, more: usize) -> Result<()> {
        self.body_room = self.body_room.saturating_add(more);
        match self.body_room <= BODY_ROOM {
            true => Ok(()),
            false => Err(Error::PeerFault(
                "it gives more room for a body than was taken",
            )),
        }
    }

    pub fn head(&mut self, bytes: Vec<u8>) -> Result<()> {
        if self.has_head {
            return Err(Error::PeerFault("it sends a second head"));
        }
        self.has_head = true;
        self.parts.push_back(Part::Head(bytes));
        Ok(())
    }

    /// The application does not make the answer whole.
    pub fn break_off(&mut self) -> Result<()> {
        if !self.has_head || self.is_over {
            return Err(Error::PeerFault("it gives up what is no answer"));
        }
        self.is_over = true;
        self.is_broken = true;
        Ok(())
    }

    /// What is beyond the limit is left out.
    pub fn say(&mut self, bytes: &[u8]) {
        let room = SAID_LEN_MAX - self.said.len();
        self.said.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    pub fn content(
        &mut self,
        header: Header,
        bytes: Option<Slice>,
        is_end: bool,
        kept: &mut Kept,
    ) -> Result<()> {
        if !self.has_head || self.is_over {
            return Err(Error::PeerFault(
                "it sends content that belongs to no answer",
            ));
        }
        if let Some(slice) = bytes {
            let Some(room) = self.room.checked_sub(slice.len()) else {
                return Err(Error::PeerFault("it sends more than it was given room for"));
            };
            self.room = room;
            let is_kept = header.is_kept && slice.len() >= KEPT_LEN_MIN;
            if is_kept {
                self.parts.push_back(Part::Slice(kept.local(&slice)));
            } else if slice.len() < GATHERED_LEN_MAX {
                self.gather(&slice);
            } else {
                self.parts.push_back(Part::Slice(slice.to_local()));
            }
        }
        if is_end && header.is_last {
            self.is_over = true;
            self.parts.push_back(Part::End);
        }
        Ok(())
    }

    /// Short pieces are put together.
    fn gather(&mut self, slice: &Slice) {
        if !matches!(self.parts.back(), Some(Part::Bytes(bytes)) if bytes.len() < GATHER_LEN_MAX) {
            self.parts.push_back(Part::Bytes(Vec::new()));
        }
        if let Some(Part::Bytes(bytes)) = self.parts.back_mut() {
            let before = bytes.len();
            bytes.resize(before + slice.len(), 0);
            slice.copy_to(0, &mut bytes[before..]);
        }
    }

    // What is taken.

    pub fn is_at_end(&self) -> bool {
        self.said.is_empty() && matches!(self.parts.front(), Some(Part::End))
    }

    /// The next part, and how much room the application is to be given for that.
    pub fn take(&mut self) -> Option<(Part, usize)> {
        if !self.said.is_empty() {
            return Some((Part::Said(std::mem::take(&mut self.said)), 0));
        }
        let part = self.parts.pop_front()?;
        self.taken += part.content_len();
        if self.taken < CONTENT_ROOM / 2 || self.is_over {
            return Some((part, 0));
        }
        let more = std::mem::take(&mut self.taken);
        self.room += more;
        Some((part, more))
    }
}
