//! Sockets that stay the kernel's although they send to other hosts: raw ones, and those that have a port of the kernel's.
//!
//! The other side says so of a socket once ([`Ask::Datagrams`](crate::memory::Ask::Datagrams)), and is not asked with each packet that it
//! sends. A socket is known by its inode, for another may have its descriptor's number later. All are forgotten when any process has
//! one leave its peer: that may have left its port, too.

use std::sync::atomic::Ordering;

use crate::memory::known::{At, Known};
use crate::process::here;
use crate::system;

static KNOWN: Known = Known::new();

/// A socket, by the number that no other open one has, and how many had left their peers by then.
#[derive(Copy, Clone)]
pub struct Inode(At);

impl Inode {
    pub fn of(fd: i32) -> Self {
        let count = disconnected();
        // `struct stat`, which begins with the device and the inode.
        let mut stat = [0_u64; 18];
        let before = system::errno();
        // SAFETY: there is room for it.
        let got = unsafe { system::fstat64(fd, stat.as_mut_ptr().cast()) };
        system::set_errno(before);
        // Those of sockets have 32 bits; those of files may have more.
        let inode = u32::try_from(stat[1]).ok().filter(|_| got == 0);
        let inode = inode.unwrap_or(0);
        Self(At { inode, count })
    }

    pub fn stays_kernels(self) -> bool {
        KNOWN.has(self.0)
    }

    /// What was answered since that moment.
    pub fn remember(self) {
        KNOWN.add(self.0);
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
