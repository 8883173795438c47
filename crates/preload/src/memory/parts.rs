//! Parts of the memory that processes and watchers have.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::sizes::DESCRIPTORS;
use crate::bits::Bits;

/// Who waits for many sockets.
#[repr(C, align(64))]
pub struct Watcher {
    /// How many threads sleep, or are about to: its descriptor is to be written to.
    pub sleepers: AtomicU32,
    /// It was written to, and no thread has heard of that yet.
    pub told: AtomicU32,
    /// The process that has it; zero: none has.
    pub pid: AtomicU32,
    _pad: [u32; 13],
    /// Sockets of which there is news.
    pub news: Bits,
}

impl Watcher {
    /// A thread is about to sleep: what comes from now on, it is woken for.
    pub fn lie_down(&self) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        self.hear();
    }

    /// It sleeps no more.
    pub fn get_up(&self) {
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        self.hear();
    }

    /// A thread knows that its descriptor was written to, and looks at the news next: what comes from now on, it is written to for
    /// again.
    pub fn hear(&self) {
        self.told.store(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Whether its descriptor is to be written to, after there was news.
    pub fn is_to_be_told(&self) -> bool {
        fence(Ordering::SeqCst);
        self.sleepers.load(Ordering::SeqCst) > 0 && self.told.swap(1, Ordering::SeqCst) == 0
    }

    /// Nobody sleeps, and there is no news.
    pub fn reset(&self) {
        self.sleepers.store(0, Ordering::Relaxed);
        self.told.store(0, Ordering::Relaxed);
        self.news.drain(|_| {});
    }
}

/// A process.
#[repr(C, align(64))]
pub struct Process {
    /// Its number; zero: nobody's. Until the process has registered itself, its parent's.
    pub pid: AtomicU32,
    /// One more than the highest descriptor that was ever a socket of ours.
    pub end: AtomicU32,
    /// The limits of its address space that the kernel has in place of the program's; zeroes: none.
    pub address_space: [AtomicU64; 2],
    /// For each descriptor one more than the number of its socket.
    pub descriptors: [AtomicU32; DESCRIPTORS],
}
