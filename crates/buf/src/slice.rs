//! A part of a buffer.
//!
//! A slice holds a reference to its buffer and two 32-bit positions: 16 bytes. Cloning it, or
//! taking a part of it, never touches the bytes.

use std::fmt;
use std::ops::Range;

use exos_wire::checksum::Sum;

use crate::buffer::Buffer;

/// A range of an immutable [`Buffer`], which it keeps alive.
#[derive(Clone)]
pub struct Slice {
    buffer: Buffer,
    start: u32,
    end: u32,
}

impl Buffer {
    /// A reference to a part of the bytes, which keeps the buffer alive.
    ///
    /// # Panics
    ///
    /// When the range does not lie within the buffer.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> Slice {
        Slice::new(self.clone(), range)
    }

    /// A reference to all of the bytes.
    #[inline]
    pub fn whole(&self) -> Slice {
        self.slice(0..self.len())
    }
}

impl Slice {
    /// Invariant established here: `start <= end <= buffer.len() <= u32::MAX`.
    #[inline]
    fn new(buffer: Buffer, range: Range<usize>) -> Slice {
        let len = buffer.len();
        assert!(
            range.start <= range.end && range.end <= len,
            "slice {range:?} of {len} bytes"
        );
        Slice {
            buffer,
            start: range.start as u32,
            end: range.end as u32,
        }
    }

    /// The bytes; where they are not [in place](Self::in_place), of a copy of all of their buffer, which stays as long as that does.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer.as_slice()[self.range()]
    }

    /// The bytes, unless they are in memory that another process can write.
    #[inline]
    pub fn in_place(&self) -> Option<&[u8]> {
        Some(&self.buffer.in_place()?[self.range()])
    }

    /// Copies bytes from this position on, wherever they are.
    ///
    /// # Panics
    ///
    /// When there are fewer.
    #[inline]
    pub fn copy_to(&self, start: usize, out: &mut [u8]) {
        let range = self.absolute(start..start + out.len());
        self.buffer.copy_to(range.start, out);
    }

    /// Appends the bytes, wherever they are.
    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) {
        match self.in_place() {
            Some(bytes) => out.extend_from_slice(bytes),
            None => {
                let begin = out.len();
                out.resize(begin + self.len(), 0);
                self.copy_to(0, &mut out[begin..]);
            }
        }
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// True when there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Where this slice lies in its buffer.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The buffer that holds the bytes.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// A part of this slice; `range` is relative to it.
    ///
    /// # Panics
    ///
    /// When the range does not lie within the slice.
    #[inline]
    pub fn sub(&self, range: Range<usize>) -> Slice {
        let inner = self.absolute(range);
        Slice::new(self.buffer.clone(), inner)
    }

    /// The ones' complement sum of a part, as if it began at an even offset of a packet;
    /// `range` is relative to the slice.
    ///
    /// # Panics
    ///
    /// When the range does not lie within the slice.
    #[inline]
    pub fn sum(&self, range: Range<usize>) -> Sum {
        self.buffer.sum(self.absolute(range))
    }

    #[inline]
    fn absolute(&self, range: Range<usize>) -> Range<usize> {
        let len = self.len();
        assert!(
            range.start <= range.end && range.end <= len,
            "part {range:?} of {len} bytes"
        );
        let start = self.start as usize;
        start + range.start..start + range.end
    }
}

impl From<Buffer> for Slice {
    fn from(buffer: Buffer) -> Slice {
        let len = buffer.len();
        Slice::new(buffer, 0..len)
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slice({:?} of {:?})", self.range(), self.buffer)
    }
}
