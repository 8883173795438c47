//! The memory that an AF_XDP socket's packets lie in.
//!
//! UMEM is one mapping cut into chunks of equal size, a power of two. A chunk is
//! at any time in one of these places, and moving it is the only way to change
//! who may touch it:
//!
//! ```text
//! free list -> fill ring -> (kernel) -> receive ring -> free list
//! free list -> queued -> transmit ring -> (kernel) -> completion ring -> free list
//!                     -> (copied by a program that the kernel runs)   -> free list
//! ```
//!
//! A frame that is sent on as it came takes its chunk from the receive ring to the transmit ring.
//!
//! Both directions draw on one free list, last in first out, so that the chunk
//! used next is the one most likely still cached.
//!
//! Addresses are offsets into the mapping, as the kernel counts them. The memory
//! is shared with the kernel only: no other process writes it. A daemon that made
//! it for us has let go of it before we got it.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd as _;

use exos_host::bpf::Map;
use exos_host::memory;

use crate::Error;
use crate::limits::{
    CACHE_LINE_LEN, CHUNK_SIZES, FETCHED_LINES, FRAME_OVERHEAD_LEN, XDP_HEADROOM_LEN,
};
use crate::mapping::Mapping;

/// Memory for frames, and the chunks of it that nobody uses.
#[derive(Debug)]
pub(super) struct Umem {
    memory: Mapping,
    chunk_size: u32,
    free: Vec<u64>,
}

/// The smallest chunk that holds a whole frame of an interface with this MTU,
/// or the largest there is when none does.
pub(super) fn chunk_size_for(mtu: usize) -> u32 {
    let need = XDP_HEADROOM_LEN + mtu + FRAME_OVERHEAD_LEN;
    let largest = CHUNK_SIZES[CHUNK_SIZES.len() - 1];
    CHUNK_SIZES
        .into_iter()
        .find(|&size| size as usize >= need)
        .unwrap_or(largest)
}

/// The largest MTU whose frames fit one chunk.
pub(super) fn single_chunk_mtu_max() -> usize {
    CHUNK_SIZES[CHUNK_SIZES.len() - 1] as usize - XDP_HEADROOM_LEN - FRAME_OVERHEAD_LEN
}

impl Umem {
    /// Maps `chunks` chunks of `chunk_size`, all free. Programs can read them in the array that is given beside it.
    pub(super) fn shown_to_programs(chunks: u32, chunk_size: u32) -> Result<(Self, Map), Error> {
        let map = Map::mappable_array("exos_frames", chunk_size as usize, chunks)?;
        let len = chunks as usize * chunk_size as usize;
        let memory = Mapping::shared(map.as_fd(), len, 0)
            .map_err(|source| Error::io(format!("{len} bytes of memory for packets"), source))?;
        Ok((Self::over(memory, chunk_size), map))
    }

    /// Maps `chunks` chunks of `chunk_size`, all free.
    pub(super) fn new(chunks: u32, chunk_size: u32) -> io::Result<Self> {
        let memory = Mapping::anonymous(chunks as usize * chunk_size as usize)?;
        Ok(Self::over(memory, chunk_size))
    }

    /// Cuts memory into chunks, all free.
    pub(super) fn over(memory: Mapping, chunk_size: u32) -> Self {
        assert!(
            CHUNK_SIZES.contains(&chunk_size),
            "a chunk of {chunk_size} bytes"
        );
        let chunks = memory.len() as u64 / u64::from(chunk_size);
        let free = (0..chunks)
            .rev()
            .map(|i| i * u64::from(chunk_size))
            .collect();
        Self {
            memory,
            chunk_size,
            free,
        }
    }

    pub(super) fn chunk_size(&self) -> u32 {
        self.chunk_size
    }

    pub(super) fn memory(&self) -> &Mapping {
        &self.memory
    }

    /// Chunks that nobody uses.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// Takes a free chunk.
    #[inline]
    pub(super) fn take(&mut self) -> Option<u64> {
        self.free.pop()
    }

    /// Gives back the chunk in which `address` lies. False for one outside the
    /// memory or more than there are, which the kernel should never name.
    #[inline]
    pub(super) fn give(&mut self, address: u64) -> bool {
        let chunks = self.memory.len() / self.chunk_size as usize;
        let ours = address < self.memory.len() as u64 && self.free.len() < chunks;
        if ours {
            self.free.push(address & !u64::from(self.chunk_size - 1));
        }
        ours
    }

    /// The bytes that a received descriptor names, when they lie in one chunk.
    #[inline]
    pub(super) fn bytes(&self, address: u64, len: u32) -> Option<&[u8]> {
        let range = self.range(address, len)?;
        // SAFETY: in bounds. The descriptor came out of the receive ring, so the
        // kernel is done with the chunk until we put it into the fill ring,
        // which needs `&mut self`.
        Some(unsafe {
            std::slice::from_raw_parts(self.memory.start().add(range.start).as_ptr(), range.len())
        })
    }

    /// Has the processor fetch the beginning of a frame that is read soon: its headers, and a short request behind them.
    #[inline]
    pub(super) fn prefetch(&self, address: u64, len: u32) {
        let bytes = self.bytes(address, len).unwrap_or_default();
        let lines = bytes.iter().step_by(CACHE_LINE_LEN).take(FETCHED_LINES);
        lines.for_each(memory::prefetch);
    }

    /// The bytes of a chunk taken from the free list, or those that a received descriptor names, when
    /// they lie in one chunk.
    #[inline]
    pub(super) fn bytes_mut(&mut self, address: u64, len: u32) -> Option<&mut [u8]> {
        let range = self.range(address, len)?;
        // SAFETY: in bounds. The chunk was taken from the free list, or its
        // descriptor came out of the receive ring, and not yet given to the
        // kernel, which takes `&mut self`; that excludes other slices too.
        Some(unsafe {
            std::slice::from_raw_parts_mut(
                self.memory.start().add(range.start).as_ptr(),
                range.len(),
            )
        })
    }

    fn range(&self, address: u64, len: u32) -> Option<Range<usize>> {
        let within = address & u64::from(self.chunk_size - 1);
        let fits = within + u64::from(len) <= u64::from(self.chunk_size);
        let inside = address < self.memory.len() as u64;
        (fits && inside).then(|| address as usize..address as usize + len as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_sizes_follow_the_mtu() {
        for (mtu, size) in [
            (576, 2048),
            (1500, 2048),
            (1774, 2048),
            (1775, 4096),
            (3822, 4096),
            (9000, 4096),
        ] {
            assert_eq!(chunk_size_for(mtu), size, "MTU {mtu}");
        }
        assert_eq!(single_chunk_mtu_max(), 3822);
    }

    #[test]
    fn addresses_are_checked() {
        let mut umem = Umem::new(4, 2048).unwrap();
        assert_eq!(umem.bytes(2048, 2048).map(<[u8]>::len), Some(2048));
        assert_eq!(umem.bytes(2049, 2048), None, "crosses into the next chunk");
        assert_eq!(umem.bytes(4 * 2048, 1), None);
        assert_eq!(umem.bytes(u64::MAX, 1), None);
        assert!(umem.bytes_mut(0, u32::MAX).is_none());
        assert!(!umem.give(4 * 2048));
        assert!(!umem.give(u64::MAX));
    }

    #[test]
    fn the_chunk_given_last_is_taken_first_by_its_start() {
        let mut umem = Umem::new(3, 4096).unwrap();
        assert_eq!((umem.take(), umem.take()), (Some(0), Some(4096)));
        assert!(umem.give(256));
        assert_eq!(umem.free(), 2);
        assert_eq!(
            (umem.take(), umem.take(), umem.take()),
            (Some(0), Some(8192), None)
        );
    }
}
