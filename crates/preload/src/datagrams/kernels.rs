//! Sockets that stay the kernel's although they send to other hosts: raw ones, and those that have a port of the kernel's.
//!
//! The other side says so of a socket once ([`Ask::Datagrams`](crate::memory::Ask::Datagrams)), and is not asked with each packet that it
//! sends. A socket is known by its inode, for another may have its descriptor's number later.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::system;

/// The last ones, each at the place that its number gives.
static KNOWN: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// The number of a socket that no other open one has; zero of what is no file.
#[derive(Copy, Clone)]
pub struct Inode(u64);

impl Inode {
    pub fn of(fd: i32) -> Self {
        // `struct stat`, which begins with the device and the inode.
        let mut stat = [0_u64; 18];
        let before = system::errno();
        // SAFETY: there is room for it.
        let got = unsafe { system::fstat64(fd, stat.as_mut_ptr().cast()) };
        system::set_errno(before);
        Self(if got == 0 { stat[1] } else { 0 })
    }

    fn place(self) -> &'static AtomicU64 {
        &KNOWN[self.0 as usize % KNOWN.len()]
    }

    pub fn stays_kernels(self) -> bool {
        self.0 != 0 && self.place().load(Ordering::Relaxed) == self.0
    }

    pub fn remember(self) {
        self.place().store(self.0, Ordering::Relaxed);
    }

    /// It has left its peer (connect(2) to no address), and perhaps its port with that.
    pub fn forget(self) {
        if self.stays_kernels() {
            self.place().store(0, Ordering::Relaxed);
        }
    }
}
