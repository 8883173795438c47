//! Immutable bytes for several threads: each makes a [`Buffer`](crate::Buffer) of its own over them.
//!
//! A buffer's reference count is one thread's, so that it costs no atomic operation on the data path and no cache line
//! that cores fight over. What lies behind it may all the same be one memory: these bytes and their sums are shared by a
//! count of their own, which is touched when a thread makes its buffer or drops its last reference, and never between.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use crate::foreign::{Foreign, ForeignBytes};
use crate::sums::prefix_sums;

/// Uses of bytes are counted up to here.
pub const USES_MAX: u8 = 3;

/// Bytes that buffers of several threads are made of. `clone` costs an atomic reference count.
#[derive(Clone)]
pub struct SharedBytes(Arc<Shared>);

struct Shared {
    /// None where they are in memory of another process.
    bytes: Box<[u8]>,
    foreign: Option<ForeignBytes>,
    /// As [`Buffer`](crate::Buffer) has them, made once for all threads.
    sums: OnceLock<Box<[u16]>>,
    /// How often they were used since somebody looked, for who decides what stays in memory. Threads may take one another's
    /// count away; it need not be exact, and a write for each use would cost them a cache line.
    uses: AtomicU8,
}

impl SharedBytes {
    /// Bytes in memory that another process can write.
    pub fn foreign(bytes: Box<dyn Foreign>) -> Self {
        Self::new(Box::default(), Some(ForeignBytes::new(bytes)))
    }

    fn new(bytes: Box<[u8]>, foreign: Option<ForeignBytes>) -> Self {
        Self(Arc::new(Shared {
            bytes,
            foreign,
            sums: OnceLock::new(),
            uses: AtomicU8::new(0),
        }))
    }

    /// All bytes. Of those in another process's memory this is a copy, which stays as long as they do: [`Buffer`](crate::Buffer) has calls that
    /// need none.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0.foreign {
            None => &self.0.bytes,
            Some(foreign) => foreign.copied(),
        }
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.as_foreign()
            .map_or(self.own().len(), ForeignBytes::len)
    }

    /// True when there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes, where they are not in another process's memory; none there.
    #[inline]
    pub(crate) fn own(&self) -> &[u8] {
        &self.0.bytes
    }

    /// Those that are in another process's memory.
    #[inline]
    pub(crate) fn as_foreign(&self) -> Option<&ForeignBytes> {
        self.0.foreign.as_ref()
    }

    /// Bytes of memory of another process that are kept from others as long as these are there.
    pub fn taken(&self) -> u64 {
        self.as_foreign().map_or(0, ForeignBytes::taken)
    }

    /// True when both are the same bytes in memory.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Makes the table of sums now rather than when first needed.
    pub fn prepare_sums(&self) {
        self.sums();
    }

    /// Takes note of a use. From the third on it costs a comparison.
    #[inline]
    pub fn note_use(&self) {
        let uses = self.0.uses.load(Ordering::Relaxed);
        if uses < USES_MAX {
            self.0.uses.store(uses + 1, Ordering::Relaxed);
        }
    }

    /// How often they were used since the last call, up to [`USES_MAX`].
    pub fn take_uses(&self) -> u8 {
        match self.0.uses.load(Ordering::Relaxed) {
            0 => 0,
            uses => {
                self.0.uses.store(0, Ordering::Relaxed);
                uses
            }
        }
    }

    /// Bytes of this process's memory that they take, with their table of sums once it is made.
    pub fn memory_len(&self) -> usize {
        let sums = self.0.sums.get().map_or(0, |sums| size_of_val(&**sums));
        let copy = self.as_foreign().map_or(0, ForeignBytes::copy_len);
        size_of::<Shared>() + self.0.bytes.len() + copy + sums
    }

    pub(crate) fn sums(&self) -> &[u16] {
        self.0.sums.get_or_init(|| match &self.0.foreign {
            None => prefix_sums(&self.0.bytes),
            Some(foreign) => foreign.prefix_sums(),
        })
    }

    /// How many hold these bytes: the threads that have a buffer, and anyone who keeps them to make more.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl From<Vec<u8>> for SharedBytes {
    /// Takes the bytes; they are moved only if the vector holds spare room.
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(bytes.into_boxed_slice(), None)
    }
}

impl std::fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (len, holders) = (self.len(), self.holders());
        write!(f, "SharedBytes({len} bytes, {holders} holders)")
    }
}
