//! One shared socket: what it is, on our side.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use exos::net::TcpStream;
use exos_preload::memory::{Shared, state};
use rustix::net::AddressFamily;

use super::datagrams::Datagrams;
use super::flowing::Flowing;
use crate::counters::Moved;
use crate::listener::Listener;
use crate::loopback::Waiting;
use crate::waiting::Waiters;

pub(super) struct Entry {
    pub family: AddressFamily,
    pub local: SocketAddr,
    pub peer: Option<SocketAddr>,
    pub kind: Kind,
}

/// What it does.
pub(super) enum Kind {
    Listening(Listener),
    /// With the calls that wait for it.
    Connecting(TcpStream, Waiters),
    Flowing(Flowing),
    Datagrams(Datagrams),
    /// A connection of the kernel's that waits in the ring of the listener with that number: its descriptors are to be this one.
    Kernels(Waiting, u32),
    /// It could not be connected, or is over.
    Failed,
    /// It goes by a Unix socket; this is the program's end, for other processes that have it.
    Unshared(OwnedFd),
}

impl Entry {
    pub fn stream(&self) -> Option<&TcpStream> {
        match &self.kind {
            Kind::Flowing(flowing) => Some(&flowing.stream),
            Kind::Connecting(stream, _) => Some(stream),
            _ => None,
        }
    }

    /// It waits in a listener's ring, and no program has had it.
    pub fn is_offered(&self, memory: &Shared, number: u32) -> bool {
        matches!(self.kind, Kind::Flowing(_) | Kind::Kernels(..))
            && !memory.socket(number).is(state::TAKEN)
    }

    /// What has passed.
    pub fn moved(&self) -> Moved {
        match &self.kind {
            Kind::Flowing(flowing) => flowing.moved,
            _ => Moved::default(),
        }
    }

    /// More than a few pages of its rings were used, and have not been given back.
    pub fn has_moved_much(&self) -> bool {
        match &self.kind {
            Kind::Flowing(flowing) => flowing.moved.sum() > 64 << 10,
            Kind::Datagrams(_) => true,
            _ => false,
        }
    }
}

/// The numbers that a listener's ring has: of connections that wait. A program may have written others there.
pub(super) fn numbers_in(ring: &[u8]) -> impl Iterator<Item = u32> {
    ring.chunks_exact(4)
        .map(|number| u32::from_ne_bytes(number.try_into().expect("four")))
}
