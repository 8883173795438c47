//! One request of a link: what has come of its answer and was not taken, and how much may still come.

use super::kept::Kept;
use crate::limits::{
    BODY_ROOM, CONTENT_ROOM, GATHER_LEN_MAX, GATHERED_LEN_MAX, KEPT_LEN_MIN, SAID_LEN_MAX,
};
use crate::record::{Bytes, HEADER_LEN, Header, Kind};
use exos_iolite::{Error, Result};
use std::collections::VecDeque;
use std::rc::Rc;

/// What has come of an answer, in this order: any of it may be missing.
#[derive(Clone, Debug)]
pub struct Part {
    /// Bytes for the operator.
    pub said: Vec<u8>,
    /// Its head, whole.
    pub head: Option<Head>,
    /// A piece of its content.
    pub content: Option<Content>,
    /// It is whole with that.
    pub is_last: bool,
}

/// The head of an answer.
#[derive(Clone, Debug)]
pub struct Head {
    /// Header fields of CGI (RFC 3875 §6). What an application sends again is in the same place as before.
    pub bytes: Rc<[u8]>,
    /// It was sent before on its link.
    pub is_again: bool,
    /// How long the content is, where that is said beside the fields.
    pub length: Option<u32>,
}

/// A piece of an answer's content.
#[derive(Clone, Debug)]
pub enum Content {
    /// Bytes that are nobody else's.
    Bytes(Vec<u8>),
    /// A part of a buffer.
    Slice(exos_buf::Slice),
}

impl Content {
    fn len(&self) -> usize {
        match self {
            Content::Bytes(bytes) => bytes.len(),
            Content::Slice(slice) => slice.len(),
        }
    }
}

/// Pieces of content for which a request that is over keeps the memory.
const CONTENT_KEPT_MAX: usize = 4;

/// A request.
#[derive(Debug)]
pub(super) struct Asked {
    said: Vec<u8>,
    head: Option<Head>,
    content: VecDeque<Content>,
    /// The end has come, and was not taken.
    has_end: bool,
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

impl Default for Asked {
    fn default() -> Self {
        Self {
            said: Vec::new(),
            head: None,
            content: VecDeque::new(),
            has_end: false,
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
}

impl Asked {
    /// It is over, and its memory is for the next: of that no more is kept than a short page takes. Of most there is nothing left to be let go of, so
    /// each part is looked at where it is.
    pub fn reset(&mut self) {
        let Self {
            said,
            head,
            content,
            has_end,
            room,
            taken,
            body_room,
            has_head,
            is_over,
            is_broken,
            is_told,
            is_begun,
            unsent,
        } = self;
        content.clear();
        if content.capacity() > CONTENT_KEPT_MAX {
            content.shrink_to(CONTENT_KEPT_MAX);
        }
        if said.capacity() > 0 {
            *said = Vec::new();
        }
        if unsent.capacity() > 0 {
            *unsent = VecDeque::new();
        }
        *head = None;
        (*room, *taken, *body_room) = (CONTENT_ROOM, 0, BODY_ROOM);
        for flag in [has_end, has_head, is_over, is_broken, is_told, is_begun] {
            *flag = false;
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

    pub fn head(&mut self, head: Head) -> Result<()> {
        if self.has_head {
            return Err(Error::PeerFault("it sends a second head"));
        }
        self.has_head = true;
        self.head = Some(head);
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

    /// A part of the content; `ends` where that is the last.
    pub fn content(
        &mut self,
        header: &Header,
        bytes: Bytes<'_>,
        ends: bool,
        kept: &mut Kept,
    ) -> Result<()> {
        self.take_room(bytes.len(), ends)?;
        match bytes {
            Bytes::Passed(slice) if header.is_kept && slice.len() >= KEPT_LEN_MIN => {
                self.content.push_back(Content::Slice(kept.local(&slice)));
            }
            Bytes::Passed(slice) if slice.len() >= GATHERED_LEN_MAX => {
                self.content.push_back(Content::Slice(slice.to_local()));
            }
            few => self.gather(&few),
        }
        Ok(())
    }

    /// A piece of the content that has a number; `ends` where that is the last.
    pub fn piece(&mut self, known: exos_buf::Slice, ends: bool) -> Result<()> {
        self.take_room(known.len(), ends)?;
        self.content.push_back(Content::Slice(known));
        Ok(())
    }

    fn take_room(&mut self, len: usize, ends: bool) -> Result<()> {
        if !self.has_head || self.is_over {
            return Err(Error::PeerFault(
                "it sends content that belongs to no answer",
            ));
        }
        let Some(room) = self.room.checked_sub(len) else {
            return Err(Error::PeerFault("it sends more than it was given room for"));
        };
        self.room = room;
        self.is_over = ends;
        self.has_end = ends;
        Ok(())
    }

    /// Short pieces are put together.
    fn gather(&mut self, few: &Bytes<'_>) {
        match self.content.back_mut() {
            _ if few.is_empty() => {}
            Some(Content::Bytes(bytes)) if bytes.len() < GATHER_LEN_MAX => {
                few.append_to(bytes, usize::MAX);
            }
            _ => {
                let mut bytes = Vec::with_capacity(few.len());
                few.append_to(&mut bytes, usize::MAX);
                self.content.push_back(Content::Bytes(bytes));
            }
        }
    }

    // What is taken.

    /// What has come, up to the first piece of content, and how much room the application is to be given for that.
    pub fn take(&mut self) -> Option<(Part, usize)> {
        let content = self.content.pop_front();
        let is_last = self.has_end && self.content.is_empty();
        self.has_end &= !is_last;
        let (said, head) = (std::mem::take(&mut self.said), self.head.take());
        if said.is_empty() && head.is_none() && content.is_none() && !is_last {
            return None;
        }
        self.taken += content.as_ref().map_or(0, Content::len);
        let part = Part {
            said,
            head,
            content,
            is_last,
        };
        if self.taken < CONTENT_ROOM / 2 || self.is_over {
            return Some((part, 0));
        }
        let more = std::mem::take(&mut self.taken);
        self.room += more;
        Some((part, more))
    }
}
