//! Addresses of sockets that are still the kernel's: what they were bound to, for when they listen or connect, and ports that are given
//! out.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;

use exos::inet::limits::EPHEMERAL_FIRST;

use crate::limits::BOUND_MAX;

#[derive(Default)]
pub(crate) struct Ports {
    /// Sockets of the kernel's that were bound to an address of the stack's, with the oldest first.
    bound: VecDeque<(u64, SocketAddr)>,
    random: RandomState,
    drawn: u64,
}

impl Ports {
    /// One of the ports that are given out where none is asked for (RFC 6335 §6), and that no socket has, this host's neither.
    pub fn draw(&mut self, is_taken: impl Fn(u16) -> bool) -> u16 {
        const TRIES: u32 = 100;
        let mut port = 0;
        for _ in 0..TRIES {
            let hash = self.random.hash_one(self.drawn);
            self.drawn += 1;
            port = EPHEMERAL_FIRST + (hash % u64::from(u16::MAX - EPHEMERAL_FIRST + 1)) as u16;
            let is_bound = self.bound.iter().any(|(_, to)| to.port() == port);
            if !is_bound && !is_taken(port) {
                break;
            }
        }
        port
    }

    /// A socket of the kernel's is bound to this.
    pub fn bind(&mut self, inode: u64, to: SocketAddr) {
        self.forget(inode);
        if self.bound.len() >= BOUND_MAX {
            self.bound.pop_front();
        }
        self.bound.push_back((inode, to));
    }

    pub fn bound(&self, inode: u64) -> Option<SocketAddr> {
        let bound = self.bound.iter().find(|(of, _)| *of == inode);
        bound.map(|(_, to)| *to)
    }

    /// A socket is the kernel's no more.
    pub fn forget(&mut self, inode: u64) {
        self.bound.retain(|(of, _)| *of != inode);
    }
}
