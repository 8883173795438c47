//! Where things lie in a pool's memory file, and in a member's column.
//!
//! ```text
//! pool, which its owner alone writes:
//! word    0      1             2         3      8 ...                     whole pages
//!         MAGIC  buffer bytes  buffers   share  generation of each buffer ...  bytes of the buffers
//!
//! column, which its member alone writes:
//! word    0 ...
//!         hold of each buffer: generation (48 bits), and above it the number of the take (16)
//! ```

use super::Shape;
use crate::error::{Error, Result};
use crate::limits::{BUFFER_LEN_MAX, BUFFERS_MAX, POOL_LEN_MAX};
use crate::memory::Region;
use std::sync::atomic::Ordering::Relaxed;

/// "iolite", and the version of this layout.
const MAGIC: u64 = u64::from_be_bytes(*b"iolite\0\x01");
const GENERATIONS: usize = 8;
const PAGE: usize = 4096;

impl Shape {
    /// An error where it is beyond the limits.
    pub(crate) fn check(self) -> Result<Self> {
        let len = self.buffer_len as usize;
        if len == 0 || len > BUFFER_LEN_MAX || !len.is_multiple_of(64) {
            return Err(Error::Shape(
                "buffers have from 64 bytes to 1 MiB, in steps of 64",
            ));
        }
        if self.buffers == 0 || self.buffers as usize > BUFFERS_MAX {
            return Err(Error::Shape("a pool has from 1 to 65,536 buffers"));
        }
        if self.share == 0 || self.share > self.buffers {
            return Err(Error::Shape(
                "a share is of one buffer at least, and of all at most",
            ));
        }
        if self.file_len() > POOL_LEN_MAX {
            return Err(Error::Shape("a pool has 1 GiB at most"));
        }
        Ok(self)
    }

    /// Where the bytes of buffers begin.
    fn bytes_start(self) -> usize {
        (8 * (GENERATIONS + self.buffers as usize)).next_multiple_of(PAGE)
    }

    /// Where those of one begin.
    #[inline]
    pub(crate) fn start_of(self, buffer: u32) -> usize {
        self.bytes_start() + buffer as usize * self.buffer_len as usize
    }

    pub(crate) fn file_len(self) -> usize {
        self.start_of(self.buffers).next_multiple_of(PAGE)
    }

    pub(crate) fn column_len(self) -> usize {
        (8 * self.buffers as usize).next_multiple_of(PAGE)
    }

    /// The word of a buffer's generation.
    #[inline]
    pub(crate) fn generation_of(self, buffer: u32) -> usize {
        GENERATIONS + buffer as usize
    }

    /// Says it at the beginning of a pool's memory, and gives every buffer its first generation.
    pub(crate) fn write(self, region: &Region) {
        let words = [
            MAGIC,
            self.buffer_len.into(),
            self.buffers.into(),
            self.share.into(),
        ];
        for (index, word) in words.into_iter().enumerate() {
            region.word(index).store(word, Relaxed);
        }
        for buffer in 0..self.buffers {
            region.word(self.generation_of(buffer)).store(1, Relaxed);
        }
    }

    /// What the owner of another pool says, if it is true of its memory.
    pub(crate) fn read(region: &Region) -> Result<Self> {
        if region.len() < PAGE || region.word(0).load(Relaxed) != MAGIC {
            return Err(Error::PeerFault("its memory is no pool of this version"));
        }
        let number = |index| {
            let word = region.word(index).load(Relaxed);
            u32::try_from(word).map_err(|_| Error::PeerFault("its pool has no such shape"))
        };
        let shape = Self {
            buffer_len: number(1)?,
            buffers: number(2)?,
            share: number(3)?,
        };
        shape.check()?;
        match region.len() == shape.file_len() {
            true => Ok(shape),
            false => Err(Error::PeerFault("its pool has another length than it says")),
        }
    }
}
