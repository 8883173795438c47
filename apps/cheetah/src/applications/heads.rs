//! Heads of answers over shared buffers that come again and again: parsed once, and ready for clients of HTTP/1 where their content is as long as before.
//!
//! What an application sends again is in the same place as before ([`Rc::ptr_eq`]), and stays there while it is remembered here. With it belong the
//! fields that a rule sets, which leave out the application's own of these names. What is ready depends on nothing else: it goes to all clients.

use std::rc::Rc;

use exos_application::asking;
use exos_buf::{Buffer, Slice};

use super::head::{Head, HeadError, is_among};
use super::reply::push_length;
use crate::limits::{HEADS_REMEMBERED, LENGTHS_ALIKE};
use crate::message::Status;

/// A head as it is told to clients.
#[derive(Clone, Debug)]
pub struct Known {
    /// What it says.
    pub head: Rc<Head>,
    /// The length of the content, if that is said in its fields or beside them.
    pub length: Option<u64>,
    /// Its status, and all behind the opening of a response to a client of HTTP/1: where it has come again and again with this length.
    pub ready: Option<(Status, Slice)>,
}

impl From<Head> for Known {
    /// One that is not remembered.
    fn from(head: Head) -> Known {
        Known {
            length: head.length,
            head: Rc::new(head),
            ready: None,
        }
    }
}

/// Those that came again lately.
#[derive(Debug, Default)]
pub struct Heads {
    all: Vec<Remembered>,
    /// Which is looked at next for a place, where all are taken.
    at: usize,
}

#[derive(Debug)]
struct Remembered {
    bytes: Rc<[u8]>,
    set: Option<Slice>,
    head: Rc<Head>,
    /// The length that came last, and how often one behind the other.
    alike: (u64, u32),
    /// What is ready, of which length.
    ready: Option<(u64, Status, Slice)>,
    /// It came since it was looked at, and before.
    is_used: bool,
}

impl Remembered {
    fn is(&self, bytes: &Rc<[u8]>, set: Option<&Slice>) -> bool {
        let is_set_alike = match (&self.set, set) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                one.buffer().same(other.buffer()) && one.range() == other.range()
            }
            _ => false,
        };
        Rc::ptr_eq(&self.bytes, bytes) && is_set_alike
    }

    /// What is ready where content is as long; made when that has been so for a while.
    fn ready(&mut self, length: u64) -> Option<(Status, Slice)> {
        let is_ready = |ready: &(u64, Status, Slice)| ready.0 == length;
        if !self.ready.as_ref().is_some_and(is_ready) {
            let (last, times) = self.alike;
            let times = if last == length {
                times.saturating_add(1)
            } else {
                1
            };
            self.alike = (length, times);
            if times < LENGTHS_ALIKE {
                return None;
            }
            let (code, reason) = (self.head.code, &self.head.reason);
            let mut all = Status::ALL.into_iter();
            let status = all.find(|it| it.code() == code && it.reason() == reason)?;
            let mut lines = self.set.as_ref().map_or(&b""[..], Slice::as_bytes).to_vec();
            lines.extend_from_slice(&self.head.fields);
            push_length(code, length, &mut lines);
            lines.extend_from_slice(b"\r\n");
            self.ready = Some((length, status, Buffer::from(lines).into()));
        }
        let (_, status, lines) = self.ready.as_ref()?;
        Some((*status, lines.clone()))
    }
}

impl Heads {
    /// Parses a head, of which a rule sets these lines.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn parse(&mut self, said: &asking::Head, set: Option<&Slice>) -> Result<Known, HeadError> {
        if !said.is_again {
            let head = parse(said, set)?;
            let length = length(&head, said)?;
            return Ok(Known {
                length,
                ..Known::from(head)
            });
        }
        let place = match self.all.iter().position(|it| it.is(&said.bytes, set)) {
            Some(place) => {
                self.all[place].is_used = true;
                place
            }
            None => self.remember(said, set)?,
        };
        let known = &mut self.all[place];
        let length = length(&known.head, said)?;
        Ok(Known {
            head: Rc::clone(&known.head),
            length,
            ready: length.and_then(|length| known.ready(length)),
        })
    }

    /// Remembers one, in place of one that did not come again: where.
    fn remember(&mut self, said: &asking::Head, set: Option<&Slice>) -> Result<usize, HeadError> {
        let remembered = Remembered {
            bytes: Rc::clone(&said.bytes),
            set: set.cloned(),
            head: Rc::new(parse(said, set)?),
            alike: (0, 0),
            ready: None,
            is_used: false,
        };
        if self.all.len() < HEADS_REMEMBERED {
            self.all.push(remembered);
            return Ok(self.all.len() - 1);
        }
        loop {
            let place = self.at;
            self.at = (place + 1) % HEADS_REMEMBERED;
            if !std::mem::take(&mut self.all[place].is_used) {
                self.all[place] = remembered;
                return Ok(place);
            }
        }
    }
}

fn parse(said: &asking::Head, set: Option<&Slice>) -> Result<Head, HeadError> {
    let is_set = |name: &str| set.is_some_and(|lines| is_among(lines.as_bytes(), name));
    let parsed = Head::parse(&said.bytes, is_set)?;
    let whole = parsed.filter(|(_, len)| *len == said.bytes.len());
    whole.map(|(head, _)| head).ok_or(HeadError::Syntax)
}

/// The length that a head says in its fields, or beside them.
fn length(head: &Head, said: &asking::Head) -> Result<Option<u64>, HeadError> {
    match (head.length, said.length) {
        (Some(_), Some(_)) => Err(HeadError::Length),
        (of_fields, said) => Ok(of_fields.or(said.map(u64::from))),
    }
}

#[cfg(test)]
#[path = "heads/tests.rs"]
mod tests;
