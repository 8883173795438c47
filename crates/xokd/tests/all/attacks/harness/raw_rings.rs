//! The four rings and the memory of a slot as bare words, to write to them what nobody should.
//!
//! Layout: linux/if_xdp.h, `struct xdp_mmap_offsets`; descriptors are address u64, length u32, options u32.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::attacks::games::{get_option, map_for_writing};
use crate::attacks::program::Program;

/// Where the parts of the four rings are: producer, consumer, descriptors, flags of each.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Offsets {
    rings: [[u64; 4]; 4],
}

/// One ring.
#[derive(Clone, Copy)]
pub struct RawRing {
    start: *mut u8,
    offsets: [u64; 4],
    entries: u32,
    entry_len: usize,
}

// SAFETY: addresses of a mapping that stays; all accesses are atomic.
unsafe impl Send for RawRing {}

impl RawRing {
    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel says where in its mapping the word is; the mapping stays.
        unsafe { AtomicU32::from_ptr(self.start.add(offset as usize).cast()) }
    }

    /// The producer's index.
    pub fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets[0])
    }

    /// The consumer's index.
    pub fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets[1])
    }

    /// Writes the entry of this index, wherever the indices are.
    pub fn put(&self, index: u32, words: &[u64]) {
        let slot = (index & (self.entries - 1)) as usize;
        let at = self.offsets[2] as usize + slot * self.entry_len;
        for (i, word) in words.iter().take(self.entry_len / 8).enumerate() {
            // SAFETY: within the ring's entries, which the mapping holds.
            let place = unsafe { AtomicU64::from_ptr(self.start.add(at + 8 * i).cast()) };
            place.store(*word, Ordering::Relaxed);
        }
    }

    /// How many entries it has.
    pub fn entries(&self) -> u32 {
        self.entries
    }
}

/// A slot's rings and memory.
pub struct RawRings {
    pub rx: RawRing,
    pub tx: RawRing,
    pub fill: RawRing,
    pub completion: RawRing,
    memory: *mut u8,
    /// Bytes of the memory.
    pub memory_len: u64,
    socket: OwnedFd,
}

/// A descriptor's words.
pub fn descriptor(address: u64, len: u32, options: u32) -> [u64; 2] {
    [address, u64::from(len) | u64::from(options) << 32]
}

impl RawRings {
    /// Maps them beside the program's own use of them.
    pub fn of(program: &Program) -> Self {
        let (socket, facts) = (&program.descriptors[0], &program.facts);
        let at: Offsets =
            get_option(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS).expect("its own");
        let ring = |number: usize, entries: u32, entry_len: usize, page: u64| {
            let offsets = at.rings[number];
            let len = offsets[2] as usize + entries as usize * entry_len;
            let start = map_for_writing(socket.as_fd(), len, page).expect("its own");
            RawRing {
                start,
                offsets,
                entries,
                entry_len,
            }
        };
        let memory_len = facts.memory_len();
        let memory = &program.descriptors[1];
        Self {
            rx: ring(0, facts.rx_ring, 16, libc::XDP_PGOFF_RX_RING as u64),
            tx: ring(1, facts.tx_ring, 16, libc::XDP_PGOFF_TX_RING as u64),
            fill: ring(2, facts.fill_ring, 8, libc::XDP_UMEM_PGOFF_FILL_RING),
            completion: ring(
                3,
                facts.completion_ring,
                8,
                libc::XDP_UMEM_PGOFF_COMPLETION_RING,
            ),
            memory: map_for_writing(memory.as_fd(), memory_len as usize, 0).expect("its own"),
            memory_len,
            socket: socket.try_clone().expect("a descriptor"),
        }
    }

    /// Writes a frame into the memory.
    pub fn write(&self, address: u64, frame: &[u8]) {
        assert!(address + frame.len() as u64 <= self.memory_len);
        // SAFETY: within the mapping; nobody in this process has a reference into it.
        let to = unsafe { self.memory.add(address as usize) };
        // SAFETY: as above, and the frame is elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(frame.as_ptr(), to, frame.len()) };
    }

    /// A word of the memory that others may read and write at any time.
    pub fn word(&self, address: u64) -> &'static AtomicU32 {
        assert!(address.is_multiple_of(4) && address + 4 <= self.memory_len);
        // SAFETY: within a mapping that stays, and aligned.
        unsafe { AtomicU32::from_ptr(self.memory.add(address as usize).cast()) }
    }

    /// Says that this many entries more are to be sent, and has the kernel look.
    pub fn submit(&self, count: u32) {
        self.tx.producer().fetch_add(count, Ordering::Release);
        self.kick();
    }

    /// Has the kernel look at the rings.
    pub fn kick(&self) {
        let flags = rustix::net::SendFlags::DONTWAIT;
        let _ = rustix::net::send(&self.socket, &[], flags);
        let flags = rustix::net::RecvFlags::DONTWAIT;
        let _ = rustix::net::recv(&self.socket, &mut [0; 0][..], flags);
    }

    /// What the kernel counted of the socket (`struct xdp_statistics`): dropped, invalid of rx, invalid of tx, ring
    /// full, fill ring empty, nothing to send.
    pub fn statistics(&self) -> [u64; 6] {
        get_option(&self.socket, libc::SOL_XDP, libc::XDP_STATISTICS).expect("its own")
    }
}
