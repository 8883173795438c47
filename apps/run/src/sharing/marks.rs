//! What descriptors of shared sockets are: copies of a counter (eventfd(2)), which the processes that share a part of the memory's have from
//! here. One counter for each process, for a program may read its own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use exos_preload::memory::MARK;
use rustix::event::{EventfdFlags, eventfd};

/// By the parts of the processes.
#[derive(Default)]
pub(super) struct Marks(HashMap<u32, OwnedFd>);

impl Marks {
    /// The counter of the process that has this part.
    pub fn of(&mut self, part: u32) -> io::Result<BorrowedFd<'_>> {
        let mark: &OwnedFd = match self.0.entry(part) {
            Entry::Occupied(mark) => mark.into_mut(),
            Entry::Vacant(place) => place.insert(eventfd(MARK, EventfdFlags::CLOEXEC)?),
        };
        Ok(mark.as_fd())
    }

    /// The part is another process's from now on.
    pub fn forget(&mut self, part: u32) {
        self.0.remove(&part);
    }
}
