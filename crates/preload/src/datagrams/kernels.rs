//! Sockets that stay the kernel's although they send to other hosts: raw ones, and those that have a port of the kernel's.
//!
//! The other side says so of a socket once ([`Ask::Datagrams`](crate::memory::Ask::Datagrams)), and is not asked with each packet that it
//! sends. A socket is known by its inode, for another may have its descriptor's number later. All are forgotten when any process has
//! one leave its peer: that may have left its port, too.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::process::here;
use crate::system;

/// The last ones, each at the place that its number gives.
static KNOWN: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// How many had left their peers when these were asked for.
static HEARD: AtomicU32 = AtomicU32::new(0);

/// A socket, by the number that no other open one has (zero of what is no file), at a moment.
#[derive(Copy, Clone)]
pub struct Inode {
    number: u64,
    /// How many had left their peers.
    disconnected: u32,
}

impl Inode {
    pub fn of(fd: i32) -> Self {
        let disconnected = disconnected();
        if HEARD.swap(disconnected, Ordering::Relaxed) != disconnected {
            KNOWN
                .iter()
                .for_each(|known| known.store(0, Ordering::Relaxed));
        }
        // `struct stat`, which begins with the device and the inode.
        let mut stat = [0_u64; 18];
        let before = system::errno();
        // SAFETY: there is room for it.
        let got = unsafe { system::fstat64(fd, stat.as_mut_ptr().cast()) };
        system::set_errno(before);
        Self {
            number: if got == 0 { stat[1] } else { 0 },
            disconnected,
        }
    }

    fn place(self) -> &'static AtomicU64 {
        &KNOWN[self.number as usize % KNOWN.len()]
    }

    pub fn stays_kernels(self) -> bool {
        self.number != 0 && self.place().load(Ordering::Relaxed) == self.number
    }

    /// What was answered since that moment.
    pub fn remember(self) {
        if self.disconnected == disconnected() {
            self.place().store(self.number, Ordering::Relaxed);
        }
    }
}

fn disconnected() -> u32 {
    here().map_or(0, |here| here.shared.disconnected().load(Ordering::Acquire))
}

/// One has left its peer (connect(2) to no address).
pub fn has_disconnected() {
    if let Some(here) = here() {
        here.shared.disconnected().fetch_add(1, Ordering::Release);
    }
}
