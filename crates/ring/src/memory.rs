//! Where a ring lies in memory, and the only accesses made to it.
//!
//! Everything unsafe about rings is in this file: [`RingMemory::new`] takes the
//! caller's promise about the addresses, and the private methods keep to it.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Values that may lie in shared memory: every bit pattern is a valid value,
/// and there is no padding.
///
/// # Safety
///
/// The type must have no invalid bit patterns and no padding bytes: integers,
/// arrays of them, and `repr(C)` structures of them without gaps.
pub unsafe trait Plain: Copy + Send + 'static {}

// SAFETY: every bit pattern of an integer is valid.
unsafe impl Plain for u32 {}
// SAFETY: every bit pattern of an integer is valid.
unsafe impl Plain for u64 {}
// SAFETY: an array has no padding, and its element is plain.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// The addresses of one ring: two counters, a word of flags where there is one,
/// and the entries.
#[derive(Debug)]
pub struct RingMemory<T: Plain> {
    produced: NonNull<u32>,
    consumed: NonNull<u32>,
    flags: Option<NonNull<u32>>,
    entries: NonNull<T>,
    mask: u32,
}

// SAFETY: the addresses are valid from any thread (promised to `new`), all
// accesses are atomic or ordered by the counters, and `T` is `Send`.
unsafe impl<T: Plain> Send for RingMemory<T> {}

impl<T: Plain> RingMemory<T> {
    /// Describes a ring of `capacity` entries.
    ///
    /// # Panics
    ///
    /// If `capacity` is not a power of two or exceeds 2^31: the counters wrap at
    /// 2^32 and must wrap to entry 0, and full must differ from empty.
    ///
    /// # Safety
    ///
    /// As long as this value or an end made from it lives: `produced`,
    /// `consumed` and `flags` are valid for atomic 32-bit accesses (the flags
    /// for reading), `entries` is aligned and valid for reading and writing
    /// `capacity` values, in this process only the ends made of this ring
    /// access them, and there is at most one producing and one consuming end.
    /// Another process may do what it likes to the memory.
    pub unsafe fn new(
        produced: NonNull<u32>,
        consumed: NonNull<u32>,
        flags: Option<NonNull<u32>>,
        entries: NonNull<T>,
        capacity: u32,
    ) -> Self {
        assert!(
            capacity.is_power_of_two(),
            "ring capacity {capacity} is not a power of two"
        );
        Self {
            produced,
            consumed,
            flags,
            entries,
            mask: capacity - 1,
        }
    }

    /// Entries in the ring.
    pub fn capacity(&self) -> u32 {
        self.mask + 1
    }

    fn counter(&self, at: NonNull<u32>) -> &AtomicU32 {
        // SAFETY: valid for atomic access as long as `self` lives, by the
        // promise to `new`. An atomic may be changed behind a reference.
        unsafe { AtomicU32::from_ptr(at.as_ptr()) }
    }

    /// The counter of produced entries; what was written before it was raised
    /// can be read afterwards.
    pub(crate) fn load_produced(&self) -> u32 {
        self.counter(self.produced).load(Ordering::Acquire)
    }

    /// The counter of consumed entries; entries before it can be written over
    /// afterwards.
    pub(crate) fn load_consumed(&self) -> u32 {
        self.counter(self.consumed).load(Ordering::Acquire)
    }

    pub(crate) fn store_produced(&self, value: u32) {
        self.counter(self.produced).store(value, Ordering::Release);
    }

    pub(crate) fn store_consumed(&self, value: u32) {
        self.counter(self.consumed).store(value, Ordering::Release);
    }

    /// The word of flags that the peer keeps; 0 in a ring without one.
    pub(crate) fn load_flags(&self) -> u32 {
        self.flags
            .map_or(0, |at| self.counter(at).load(Ordering::Relaxed))
    }

    pub(crate) fn write(&self, index: u32, entry: T) {
        // SAFETY: the masked index is below the capacity, for which `entries`
        // is valid. Volatile, because the peer reads it.
        unsafe {
            self.entries
                .add((index & self.mask) as usize)
                .write_volatile(entry)
        }
    }

    pub(crate) fn read(&self, index: u32) -> T {
        // SAFETY: as for `write`; any bit pattern is a `T`. Volatile, because a
        // peer that breaks the protocol may be writing it.
        unsafe {
            self.entries
                .add((index & self.mask) as usize)
                .read_volatile()
        }
    }
}
