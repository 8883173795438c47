//! Memory that another process can write, as that of a file cache which processes share.
//!
//! What a reference of Rust points to may not change, so none points there: bytes are copied out ([`Foreign::copy_to`]), into the packet,
//! the record or the call that they leave with. A buffer over such memory is otherwise like any: its slices keep it, its sums are in a table
//! of this process, and those that want its bytes in place ([`Buffer::in_place`](crate::Buffer::in_place)) are told that there are none.

use std::fmt;
use std::sync::OnceLock;

use exos_wire::checksum::Sum;

use crate::limits::BLOCK_LEN;

/// Bytes that another process could change, and promises not to.
#[expect(
    clippy::len_without_is_empty,
    reason = "nobody shares what has no bytes"
)]
pub trait Foreign: Send + Sync {
    /// Length in bytes, always the same.
    fn len(&self) -> usize;

    /// Copies bytes from this position on.
    ///
    /// # Panics
    ///
    /// When there are fewer.
    fn copy_to(&self, start: usize, out: &mut [u8]);

    /// Bytes of the shared memory that nobody can use for others while these are kept.
    fn taken(&self) -> u64;
}

/// Such bytes, and a copy of all for those who cannot do without.
pub(crate) struct ForeignBytes {
    bytes: Box<dyn Foreign>,
    copy: OnceLock<Box<[u8]>>,
}

impl ForeignBytes {
    pub fn new(bytes: Box<dyn Foreign>) -> Self {
        let copy = OnceLock::new();
        Self { bytes, copy }
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn taken(&self) -> u64 {
        self.bytes.taken()
    }

    pub fn copy_to(&self, start: usize, out: &mut [u8]) {
        self.bytes.copy_to(start, out);
    }

    /// All of them in memory of this process, from now on.
    #[cold]
    pub fn copied(&self) -> &[u8] {
        self.copy.get_or_init(|| {
            let mut copy = vec![0; self.len()];
            self.copy_to(0, &mut copy);
            copy.into_boxed_slice()
        })
    }

    /// Bytes of this process's own memory.
    pub fn copy_len(&self) -> usize {
        self.copy.get().map_or(0, |copy| copy.len())
    }

    /// The sum of a part, as if it began at an even offset of a packet. It is copied out in blocks, and most often one: what the table does not
    /// tell is half a block at most.
    pub fn sum(&self, mut start: usize, end: usize) -> Sum {
        let (mut sum, mut len, mut block) = (Sum::ZERO, 0, [0; BLOCK_LEN]);
        while start < end {
            let now = &mut block[..BLOCK_LEN.min(end - start)];
            self.copy_to(start, now);
            sum = sum.followed_by(len, Sum::of(now));
            (start, len) = (start + now.len(), len + now.len());
        }
        sum
    }

    /// The table that a buffer has.
    pub fn prefix_sums(&self) -> Box<[u16]> {
        let blocks = (0..self.len()).step_by(BLOCK_LEN);
        let mut sum = Sum::ZERO;
        let rest = blocks.map(|start| {
            sum = sum.plus(self.sum(start, self.len().min(start + BLOCK_LEN)));
            sum.value()
        });
        std::iter::once(0).chain(rest).collect()
    }
}

impl fmt::Debug for ForeignBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignBytes({} bytes)", self.len())
    }
}
