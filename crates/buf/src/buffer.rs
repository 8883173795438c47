//! An immutable run of bytes, shared by reference count, that knows its checksums.
//!
//! # The table of sums
//!
//! For a buffer of `n` bytes and blocks of `B = BLOCK_LEN` bytes the table holds, in order,
//!
//! ```text
//! entry   0        1           2           ...   ceil(n / B)
//! sum of  0..0     0..B        0..2B       ...   0..n
//! ```
//!
//! each a 16-bit ones' complement sum of the bytes from the start of the buffer. The sum of a
//! range is the sum up to its end without the sum up to its start; each of the two is the nearest
//! table entry plus or minus at most half a block, which is summed on the spot. A range that
//! starts at an odd position sees every byte in the other half of its 16-bit word, so its sum is
//! byte-swapped (RFC 1071 §2, "byte order independence").
//!
//! The table is made when a sum is first asked for: a buffer that is sent over a link that needs
//! no checksums never pays for it. [`Buffer::prepare_sums`] makes it at a time of the caller's
//! choosing.
//!
//! # Zero
//!
//! Ones' complement has two zeros. A sum taken from the table may be `0xffff` where summing the
//! bytes gives `0` or the reverse; every checksum made from it verifies all the same.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use exos_wire::checksum::Sum;

use crate::foreign::ForeignBytes;
use crate::limits::{BLOCK_LEN, BUFFER_LEN_MAX};
use crate::shared::SharedBytes;
use crate::sums::prefix_sums;

/// Immutable bytes, shared. `clone` costs a reference count; the last owner frees them.
#[derive(Clone)]
pub struct Buffer(Rc<Shared>);

struct Shared {
    bytes: Bytes,
    /// Prefix sums, see the module's documentation.
    sums: OnceCell<Box<[u16]>>,
    /// The end of the range that was summed last, and the sum up to there: a segment begins where the one
    /// before it ended.
    summed: Cell<(u32, Sum)>,
}

enum Bytes {
    Owned(Box<[u8]>),
    /// Without a table of sums.
    Once(Box<[u8]>),
    Static(&'static [u8]),
    Shared(SharedBytes),
    /// In memory that another process can write.
    Foreign(SharedBytes),
}

impl Buffer {
    /// A buffer over bytes that live as long as the program, such as an embedded file.
    ///
    /// # Panics
    ///
    /// When there are more than [`BUFFER_LEN_MAX`] bytes.
    pub fn from_static(bytes: &'static [u8]) -> Buffer {
        Buffer::new(Bytes::Static(bytes))
    }

    /// A buffer of bytes that are sent once, as what was encrypted for one client: it has no table of sums. A range is summed when
    /// that is asked for, which brings it into the cache for the copy that comes next; a table would be one more look at all of it.
    ///
    /// # Panics
    ///
    /// When there are more than [`BUFFER_LEN_MAX`] bytes.
    pub fn sent_once(bytes: Vec<u8>) -> Buffer {
        Buffer::new(Bytes::Once(bytes.into_boxed_slice()))
    }

    fn new(bytes: Bytes) -> Buffer {
        let buffer = Buffer(Rc::new(Shared {
            bytes,
            sums: OnceCell::new(),
            summed: Cell::new((0, Sum::ZERO)),
        }));
        assert!(
            buffer.len() <= BUFFER_LEN_MAX,
            "a buffer of {} bytes",
            buffer.len()
        );
        buffer
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match self.as_foreign() {
            None => self.as_slice().len(),
            Some(foreign) => foreign.len(),
        }
    }

    /// True when there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes. Where they are not [in place](Self::in_place) it is a copy, which stays as long as all buffers of them do.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0.bytes {
            Bytes::Owned(bytes) | Bytes::Once(bytes) => bytes,
            Bytes::Static(bytes) => bytes,
            Bytes::Shared(shared) => shared.own(),
            Bytes::Foreign(shared) => shared.as_slice(),
        }
    }

    /// All bytes, unless they are in memory that another process can write ([`Foreign`](crate::Foreign)).
    #[inline]
    pub fn in_place(&self) -> Option<&[u8]> {
        match &self.0.bytes {
            Bytes::Foreign(_) => None,
            _ => Some(self.as_slice()),
        }
    }

    #[inline]
    fn as_foreign(&self) -> Option<&ForeignBytes> {
        match &self.0.bytes {
            Bytes::Foreign(shared) => shared.as_foreign(),
            _ => None,
        }
    }

    /// Copies bytes from this position on.
    ///
    /// # Panics
    ///
    /// When there are fewer.
    #[inline]
    pub fn copy_to(&self, start: usize, out: &mut [u8]) {
        match self.as_foreign() {
            None => out.copy_from_slice(&self.as_slice()[start..start + out.len()]),
            Some(foreign) => foreign.copy_to(start, out),
        }
    }

    /// The sum of a range over its bytes, whatever is known of them.
    #[inline]
    pub fn sum_of_bytes(&self, range: Range<usize>) -> Sum {
        match self.as_foreign() {
            None => Sum::of(&self.as_slice()[range]),
            Some(foreign) => foreign.sum(range.start, range.end),
        }
    }

    /// The ones' complement sum of a range, as if it began at an even offset of a packet.
    ///
    /// Costs at most half a block of summing at each end once the table is made; where there is none ([`Buffer::sent_once`]), all of it.
    ///
    /// # Panics
    ///
    /// When the range does not lie within the buffer.
    #[inline]
    pub fn sum(&self, range: Range<usize>) -> Sum {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "{range:?} of {}",
            self.len()
        );
        if range.len() <= BLOCK_LEN / 2 || matches!(self.0.bytes, Bytes::Once(_)) {
            return self.sum_of_bytes(range);
        }
        let start = match self.0.summed.get() {
            (at, sum) if at as usize == range.start => sum,
            _ if range.start == 0 => Sum::ZERO,
            _ => self.sum_until(range.start),
        };
        let end = self.sum_until(range.end);
        self.0.summed.set((range.end as u32, end));
        let sum = end.minus(start);
        if range.start.is_multiple_of(2) {
            sum
        } else {
            sum.swapped()
        }
    }

    /// The bytes that it was made of, where threads share them and they are in place.
    pub fn shared(&self) -> Option<&SharedBytes> {
        match &self.0.bytes {
            Bytes::Shared(shared) => Some(shared),
            Bytes::Owned(_) | Bytes::Once(_) | Bytes::Static(_) | Bytes::Foreign(_) => None,
        }
    }

    /// Takes note of a use of shared bytes, see [`SharedBytes::note_use`].
    #[inline]
    pub fn note_use(&self) {
        if let Bytes::Shared(shared) = &self.0.bytes {
            shared.note_use();
        }
    }

    /// Makes the table of sums now rather than when first needed, if it is to have one.
    pub fn prepare_sums(&self) {
        if !matches!(self.0.bytes, Bytes::Once(_)) {
            self.sums();
        }
    }

    /// True when the table of sums is made.
    pub fn has_sums(&self) -> bool {
        self.0.sums.get().is_some()
    }

    /// How many owners share these bytes.
    pub fn reference_count(&self) -> usize {
        Rc::strong_count(&self.0)
    }

    /// The memory, to be written again, of a buffer that was made of bytes of its own and that nobody else refers to; the sums are
    /// forgotten. Otherwise the buffer as it is.
    ///
    /// # Errors
    ///
    /// Not an error, but somebody else's: the buffer comes back.
    pub fn into_bytes(self) -> Result<Box<[u8]>, Buffer> {
        let shared = Rc::try_unwrap(self.0).map_err(Buffer)?;
        match shared.bytes {
            Bytes::Owned(bytes) | Bytes::Once(bytes) => Ok(bytes),
            Bytes::Static(_) | Bytes::Shared(_) | Bytes::Foreign(_) => Err(Buffer(Rc::new(shared))),
        }
    }

    /// Writes bytes over the beginning of a buffer that is [sent once](Buffer::sent_once). False where somebody else refers to it, where it
    /// is shorter, or was made otherwise: then nothing is written.
    pub(crate) fn rewrite(&mut self, bytes: &[u8]) -> bool {
        let Some(Bytes::Once(its)) = Rc::get_mut(&mut self.0).map(|shared| &mut shared.bytes)
        else {
            return false;
        };
        let Some(begin) = its.get_mut(..bytes.len()) else {
            return false;
        };
        begin.copy_from_slice(bytes);
        true
    }

    /// True when both are the same buffer in memory, whatever they hold.
    pub fn same(&self, other: &Buffer) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// The sum of `0..end`, from the table entry that is nearer.
    #[inline]
    fn sum_until(&self, end: usize) -> Sum {
        let (len, sums) = (self.len(), self.sums());
        let block = end / BLOCK_LEN;
        let before = block * BLOCK_LEN;
        let after = len.min(before + BLOCK_LEN);
        if end - before <= after - end {
            return Sum::from_value(sums[block]).plus(self.sum_of_bytes(before..end));
        }
        if end == after {
            return Sum::from_value(sums[block + 1]);
        }
        let beyond = self.sum_of_bytes(end..after);
        let beyond = if end.is_multiple_of(2) {
            beyond
        } else {
            beyond.swapped()
        };
        Sum::from_value(sums[block + 1]).minus(beyond)
    }

    fn sums(&self) -> &[u16] {
        if let Bytes::Shared(shared) | Bytes::Foreign(shared) = &self.0.bytes {
            return shared.sums();
        }
        self.0.sums.get_or_init(|| prefix_sums(self.as_slice()))
    }
}

impl SharedBytes {
    /// This thread's buffer over the bytes. One for each thread is enough: it is cloned there.
    ///
    /// # Panics
    ///
    /// When there are more than [`BUFFER_LEN_MAX`] bytes.
    pub fn buffer(&self) -> Buffer {
        match self.as_foreign() {
            None => Buffer::new(Bytes::Shared(self.clone())),
            Some(_) => Buffer::new(Bytes::Foreign(self.clone())),
        }
    }
}

impl From<Vec<u8>> for Buffer {
    /// Takes the bytes; they are moved only if the vector holds spare room.
    fn from(bytes: Vec<u8>) -> Buffer {
        Buffer::new(Bytes::Owned(bytes.into_boxed_slice()))
    }
}

impl From<Box<[u8]>> for Buffer {
    /// Takes the bytes.
    fn from(bytes: Box<[u8]>) -> Buffer {
        Buffer::new(Bytes::Owned(bytes))
    }
}

impl From<String> for Buffer {
    fn from(text: String) -> Buffer {
        Buffer::from(text.into_bytes())
    }
}

impl From<&[u8]> for Buffer {
    /// Copies the bytes.
    fn from(bytes: &[u8]) -> Buffer {
        Buffer::new(Bytes::Owned(bytes.into()))
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Buffer({} bytes, {} owners)",
            self.len(),
            self.reference_count()
        )
    }
}
