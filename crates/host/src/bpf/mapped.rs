//! Arrays that programs and user space share as memory: what the one writes the other reads, without a system call.

use super::map::Map;
use crate::error::{Context as _, Error};
use crate::mapping::Mapping;
use std::os::fd::{AsFd as _, OwnedFd, RawFd};
use std::sync::atomic::AtomicU64;

/// An array of values of whole 64-bit words, mapped for reading and writing. All of its memory is taken at once.
///
/// The words are atomic because programs read and write them at any time, on any processor; what several of them mean
/// together is for both sides to secure. What a program may have written is input, not an invariant.
#[derive(Debug)]
pub struct MappedArray {
    // Unmapped first, though the kernel would not mind: a mapping keeps the map.
    mapping: Mapping,
    map: Map,
}

impl MappedArray {
    /// An array of `entries` values of `value_size` bytes each, all zero.
    ///
    /// # Errors
    ///
    /// The kernel refuses, or is older than 5.5.
    ///
    /// # Panics
    ///
    /// If a value is not of whole words, or there is none.
    pub fn new(name: &str, value_size: usize, entries: u32) -> Result<Self, Error> {
        let word = size_of::<u64>();
        assert!(
            value_size > 0 && value_size.is_multiple_of(word) && entries > 0,
            "{entries} values of {value_size} bytes"
        );
        let map = Map::mappable_array(name, value_size, entries)?;
        Self::of(map, entries as usize * (value_size / word))
    }

    /// The array of one value of this many bytes that somebody else has made and passed on. The kernel is asked nothing of it but to
    /// map it.
    ///
    /// # Errors
    ///
    /// It is shorter, or cannot be mapped for writing.
    ///
    /// # Panics
    ///
    /// If it is not of whole words, or there is none.
    pub fn adopt(fd: OwnedFd, bytes: usize) -> Result<Self, Error> {
        let word = size_of::<u64>();
        assert!(bytes > 0 && bytes.is_multiple_of(word), "{bytes} bytes");
        Self::of(Map::adopted_array(fd, bytes), bytes / word)
    }

    fn of(map: Map, len: usize) -> Result<Self, Error> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel has rounded the array up to whole pages, and maps no more than it has; it never shrinks, and the
        // mapping keeps it.
        let mapping = unsafe { Mapping::new(map.as_fd(), len, access) }
            .context(|| format!("cannot map a BPF array of {} bytes", len * size_of::<u64>()))?;
        Ok(Self { mapping, map })
    }

    /// Its words, one value after the other.
    pub fn words(&self) -> &[AtomicU64] {
        self.mapping.words()
    }

    /// The descriptor's number, for instructions that refer to it.
    pub fn raw_fd(&self) -> RawFd {
        self.map.raw_fd()
    }

    /// The map itself, for who asks the kernel.
    pub fn map(&self) -> &Map {
        &self.map
    }
}
