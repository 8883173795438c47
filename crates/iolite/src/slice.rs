//! A part of a buffer: of this process's pool, of another's, or of memory of its own.

use crate::limits::{BLOCK_LEN, INLINE_LEN_MAX};
use crate::pool::member::HeldBuffer;
use crate::pool::owner::OwnBuffer;
use exos_buf::Buffer;
use exos_wire::checksum::Sum;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

/// Bytes that do not change, by reference. `clone` and parts cost a reference count.
#[derive(Clone)]
pub struct Slice {
    pub(crate) source: Source,
    start: u32,
    len: u32,
}

/// Where bytes are.
#[derive(Clone)]
pub(crate) enum Source {
    /// In a pool of this process.
    Own(Rc<OwnBuffer>),
    /// In a pool of another process, which promises not to change them.
    Held(Rc<HeldBuffer>),
    /// In memory of this process alone.
    Local(Buffer),
    /// Here, from the first on: there are few. Behind them are zeros, or what a peer wrote there.
    Inline([u8; INLINE_LEN_MAX]),
}

/// The bytes of a slice, by who could change them.
#[derive(Debug)]
pub enum Bytes<'a> {
    /// Nobody can.
    Immutable(&'a [u8]),
    /// The process that made them can, and promises not to ([`Trust::Trusted`](crate::Trust)): they are copied out, or looked at in
    /// blocks that are.
    Trusted(&'a Slice),
}

/// Which bytes these are, among all that this process ever saw: while one is remembered, the buffer may be used for others, which are of
/// another generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Identity {
    pool: u64,
    generation: u64,
    buffer: u32,
    start: u32,
    len: u32,
}

impl Identity {
    /// A number of these bytes for a table with one entry in each place. A process that makes slices can make them of one place.
    #[inline]
    pub fn place(&self) -> usize {
        (self.buffer as usize) ^ (self.start as usize >> 9) ^ (self.generation as usize)
    }
}

impl Slice {
    pub(crate) fn own(buffer: Rc<OwnBuffer>, start: u32, len: u32) -> Self {
        let source = Source::Own(buffer);
        Self { source, start, len }
    }

    /// Bytes of a buffer of another process; they lie within it.
    pub(crate) fn held(buffer: HeldBuffer, start: u32, len: u32) -> Self {
        let source = Source::Held(Rc::new(buffer));
        Self { source, start, len }
    }

    /// The first of these bytes; the others are zeros, or a peer's.
    #[inline]
    pub(crate) fn inline(bytes: [u8; INLINE_LEN_MAX], len: u32) -> Self {
        let source = Source::Inline(bytes);
        let start = 0;
        Self { source, start, len }
    }

    /// Bytes that travel in a descriptor, in no pool; nothing where they are more than fit into one ([`INLINE_LEN_MAX`]).
    #[inline]
    pub fn of_few(bytes: &[u8]) -> Option<Self> {
        let mut all = [0; INLINE_LEN_MAX];
        all.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self::inline(all, bytes.len() as u32))
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True when there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn range(&self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }

    /// A part of this slice.
    ///
    /// # Panics
    ///
    /// When the range does not lie within it.
    #[inline]
    pub fn sub(&self, range: Range<usize>) -> Self {
        let len = self.len();
        let is_within = range.start <= range.end && range.end <= len;
        assert!(is_within, "part {range:?} of {len} bytes");
        if let Source::Inline(bytes) = &self.source {
            return Self::of_few(&bytes[range]).expect("a part of few is few");
        }
        Self {
            source: self.source.clone(),
            start: self.start + range.start as u32,
            len: range.len() as u32,
        }
    }

    /// The bytes, in place where nobody can change them.
    #[inline]
    pub fn bytes(&self) -> Bytes<'_> {
        match self.as_bytes() {
            Some(bytes) => Bytes::Immutable(bytes),
            None => Bytes::Trusted(self),
        }
    }

    /// The bytes in place, where nobody can change them.
    #[inline]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match &self.source {
            // SAFETY: a slice is made of a draft that is no more, and the room of no other draft overlaps.
            Source::Own(buffer) => Some(unsafe { buffer.bytes(self.range()) }),
            Source::Local(buffer) => Some(&buffer.as_slice()[self.range()]),
            Source::Inline(bytes) => Some(&bytes[self.range()]),
            Source::Held(_) => None,
        }
    }

    /// Copies bytes from this position on.
    ///
    /// # Panics
    ///
    /// When there are fewer.
    #[inline]
    pub fn copy_to(&self, start: usize, out: &mut [u8]) {
        let range = start..start.saturating_add(out.len());
        assert!(range.end <= self.len(), "{range:?} of {} bytes", self.len);
        match &self.source {
            Source::Held(held) => held
                .pool
                .copy_out(held.index, self.start as usize + start, out),
            _ => {
                let bytes = self.as_bytes().expect("they are ours");
                out.copy_from_slice(&bytes[range]);
            }
        }
    }

    /// Shows all bytes, block after block: in place where nobody can change them, otherwise copied out, so that what one look has found
    /// the next finds too.
    #[inline]
    pub fn for_each_block(&self, mut look: impl FnMut(&[u8])) {
        if let Some(bytes) = self.as_bytes() {
            return look(bytes);
        }
        let mut block = [0; BLOCK_LEN];
        let mut at = 0;
        while at < self.len() {
            let now = BLOCK_LEN.min(self.len() - at);
            self.copy_to(at, &mut block[..now]);
            look(&block[..now]);
            at += now;
        }
    }

    /// The ones' complement sum, as if the bytes began at an even offset of a packet.
    pub fn sum(&self) -> Sum {
        if let Source::Local(buffer) = &self.source {
            return buffer.sum(self.range());
        }
        let (mut sum, mut len) = (Sum::ZERO, 0);
        self.for_each_block(|block| {
            sum = sum.followed_by(len, Sum::of(block));
            len += block.len();
        });
        sum
    }

    /// Which bytes of which pool these are; `None` of those that are in no pool.
    pub fn identity(&self) -> Option<Identity> {
        let (pool, buffer, generation) = match &self.source {
            Source::Own(own) => (own.core.number, own.index, own.generation),
            Source::Held(held) => (held.pool.number, held.index, held.generation),
            Source::Local(_) | Source::Inline(_) => return None,
        };
        Some(Identity {
            pool,
            generation,
            buffer,
            start: self.start,
            len: self.len,
        })
    }

    /// Whether the buffer of these bytes stays in use without this slice: another process has it, or another slice of this one, as those that are under
    /// way; as far as can be seen now, and where it is of this process's pool.
    pub fn is_held_elsewhere(&self) -> bool {
        match &self.source {
            Source::Own(own) => Rc::strong_count(own) > 1 || own.core.is_held(own.index),
            _ => false,
        }
    }

    /// These bytes in memory of this process: a copy, unless they are there.
    pub fn to_local(&self) -> exos_buf::Slice {
        if let Source::Local(buffer) = &self.source {
            return buffer.slice(self.range());
        }
        let mut bytes = vec![0; self.len()];
        self.copy_to(0, &mut bytes);
        Buffer::from(bytes).whole()
    }

    /// These bytes, for good, whatever the process that made them does.
    #[must_use]
    pub fn settled(self) -> Self {
        match &self.source {
            Source::Held(_) => self.to_local().into(),
            _ => self,
        }
    }

    /// The bytes where they travel in a descriptor.
    #[inline]
    pub(crate) fn to_inline(&self) -> Option<[u8; INLINE_LEN_MAX]> {
        match &self.source {
            Source::Inline(bytes) => return Some(*bytes),
            _ if self.len() > INLINE_LEN_MAX => return None,
            _ => {}
        }
        let mut bytes = [0; INLINE_LEN_MAX];
        self.copy_to(0, &mut bytes[..self.len()]);
        Some(bytes)
    }
}

impl From<exos_buf::Slice> for Slice {
    /// Bytes of this process alone. In a pipe they are copied.
    fn from(slice: exos_buf::Slice) -> Self {
        let range = slice.range();
        Self {
            source: Source::Local(slice.buffer().clone()),
            start: range.start as u32,
            len: range.len() as u32,
        }
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match &self.source {
            Source::Own(_) => "own",
            Source::Held(_) => "another's",
            Source::Local(_) => "local",
            Source::Inline(_) => "inline",
        };
        write!(f, "Slice({:?}, {of})", self.range())
    }
}
