//! The limits of this crate, each with its reason.

use std::time::Duration;

/// The longest buffer: what is longer is an aggregate. Recycled buffers of a megabyte are in no near cache anyway.
pub const BUFFER_LEN_MAX: usize = 1 << 20;

/// The most buffers of a pool: each costs its owner and each of its members a word.
pub const BUFFERS_MAX: usize = 1 << 16;

/// The longest pool that is mapped. A page of another process's memory that was never written becomes memory of ours when it
/// is looked at, so this bounds what a hostile producer can have a consumer use.
pub const POOL_LEN_MAX: usize = 1 << 30;

/// The most members of a pool: each is looked at when a buffer is used again.
pub const MEMBERS_MAX: usize = 64;

/// The most pools of which a pipe carries buffers, each with two mappings and a descriptor at the consumer, and three more
/// descriptors for each process that it may let in.
pub const POOLS_MAX: usize = 16;

/// The most slots of a pipe: 256 KiB of descriptors.
pub const SLOTS_MAX: usize = 4096;

/// What is not longer travels in its descriptor: copying so few bytes costs less than a reference to them, and one cache line
/// goes from core to core in place of four.
pub const INLINE_LEN_MAX: usize = 32;

/// Where a draft begins in a buffer that several share: words of the processor stay whole.
pub const DRAFT_ALIGN: usize = 8;

/// What a draft leaves of a buffer is used by the next ones, if it is this much.
pub const REST_LEN_MIN: usize = 512;

/// Bytes that are looked at in one piece where they are copied out first: they stay in the nearest cache.
pub const BLOCK_LEN: usize = 4096;

/// Sums that are remembered: at 48 bytes each, less than the nearest cache.
pub const SUMS_MAX: usize = 512;

/// How often a process that sleeps looks whether what it sent on was taken, where the bell of that is an event loop's to hear.
pub(crate) const LOOKS_EVERY: Duration = Duration::from_millis(10);
