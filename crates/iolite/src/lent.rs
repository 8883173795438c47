//! Bytes of another process's pool for several threads of this one.
//!
//! A membership is one thread's: it takes buffers and lets go of them. What it has it may lend ([`Aggregate::lend`](crate::Aggregate::lend)):
//! the bytes stay as long as what was lent, wherever that is dropped, and the thread lets go of their buffers the next time that it
//! [takes back](crate::Receiver::take_back). Where that thread has ended, all that it held stays until the last that it lent has gone: then the
//! membership is over, and the pool's owner sees that.

use crate::pool::member::{LentBuffer, MemberPool};
use crate::slice::{Slice, Source};
use std::fmt;
use std::rc::Rc;

/// Bytes that do not change, for any thread, as those of an [`Aggregate`](crate::Aggregate). They are copied out, as those of a producer that is believed.
pub struct Lent {
    parts: Box<[Part]>,
    len: usize,
    taken: u64,
}

struct Part {
    /// Where it ends in the whole.
    end: usize,
    len: usize,
    place: Place,
}

enum Place {
    /// From here on.
    Held(LentBuffer, usize),
    Own(Box<[u8]>),
}

impl Lent {
    pub(crate) fn of<'a>(slices: impl Iterator<Item = &'a Slice>) -> Self {
        let (mut end, mut taken) = (0, 0);
        let part = |slice: &Slice| {
            let len = slice.len();
            end += len;
            let place = match &slice.source {
                Source::Held(held) => {
                    let lent = held.lend();
                    taken += u64::from(lent.len());
                    Place::Held(lent, slice.range().start)
                }
                _ => Place::Own(slice.to_local().as_bytes().into()),
            };
            Part { end, len, place }
        };
        let parts = slices.map(part).collect();
        let len = end;
        Self { parts, len, taken }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the buffers that these are in.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Copies bytes from this position on.
    ///
    /// # Panics
    ///
    /// When there are fewer.
    pub fn copy_to(&self, start: usize, out: &mut [u8]) {
        let is_within = start.saturating_add(out.len()) <= self.len;
        assert!(is_within, "{start} and {} of {}", out.len(), self.len);
        let mut parts = self.parts[self.parts.partition_point(|it| it.end <= start)..].iter();
        let (mut at, mut out) = (start, out);
        while !out.is_empty() {
            let part = parts.next().expect("it is within the last");
            let from = at - (part.end - part.len);
            let now;
            (now, out) = out.split_at_mut(out.len().min(part.end - at));
            part.place.copy_to(from, now);
            at += now.len();
        }
    }
}

/// What a receiver had lent when it [retired](crate::Receiver::retire). Dropped earlier than what is lent, it leaves all holds until the last of that
/// has gone.
#[derive(Debug)]
pub struct Loans(pub(crate) Vec<Rc<MemberPool>>);

impl Loans {
    /// Lets go of what is not used any more.
    pub fn take_back(&self) {
        self.0.iter().for_each(|pool| pool.take_back());
    }

    /// Whether all was taken back.
    pub fn are_over(&self) -> bool {
        self.0.iter().all(|pool| pool.is_unused())
    }
}

impl Place {
    fn copy_to(&self, from: usize, out: &mut [u8]) {
        match self {
            Self::Held(lent, start) => lent.copy_out(start + from, out),
            Self::Own(bytes) => out.copy_from_slice(&bytes[from..from + out.len()]),
        }
    }
}

impl exos_buf::Foreign for Lent {
    fn len(&self) -> usize {
        self.len
    }

    fn copy_to(&self, start: usize, out: &mut [u8]) {
        Self::copy_to(self, start, out);
    }

    fn taken(&self) -> u64 {
        self.taken
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, parts) = (self.len, self.parts.len());
        write!(f, "Lent({len} bytes in {parts} parts)")
    }
}
