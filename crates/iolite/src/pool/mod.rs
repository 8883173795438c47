//! A pool: buffers in a memory file that one process writes and its members read (IO-Lite, section 2.3: the pool from which a buffer
//! is taken determines who can read it).
//!
//! The owner takes a [`Draft`], writes it, and freezes it: from then on the bytes are a [`Slice`](crate::Slice), and do not change
//! until nobody has them. Small drafts share a buffer. A buffer that nobody has is used again, the one that was found to be free last
//! being the first: so as few are in use as the consumers keep, and they stay in the caches (the paper's recycling, section 2.2). Of those
//! that were let go of, the first is looked at first.
//!
//! `protocol` says when nobody has a buffer. `owner` is the owner's side of it, `membership` what it knows of a member, `member` a
//! member's side, `layout` the memory.

mod draft;
mod layout;
pub(crate) mod member;
pub(crate) mod membership;
pub(crate) mod owner;
pub(crate) mod reserved;
mod share;

pub use draft::Draft;
pub use member::Trust;
pub use reserved::Reserved;
pub use share::Share;

use crate::error::Result;
use owner::Core;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// The shape of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes of each buffer, in steps of 64.
    pub buffer_len: u32,
    /// How many there are. Those that are not used take no memory.
    pub buffers: u32,
    /// How many of them a member may have at once.
    pub share: u32,
}

impl Shape {
    /// Buffers of 64 KiB, of which a member may have half.
    pub fn of(buffers: u32) -> Self {
        Self {
            buffer_len: 1 << 16,
            buffers,
            share: (buffers / 2).max(1),
        }
    }
}

/// What makes a process a member of a pool: its memory, a column of holds, and a pipe by whose end the owner knows of the member's.
#[derive(Debug)]
pub struct Invitation {
    pub(crate) pool: OwnedFd,
    pub(crate) column: OwnedFd,
    pub(crate) life: OwnedFd,
}

/// Buffers of this process, for its members to read. A clone is the same pool.
#[derive(Clone, Debug)]
pub struct Pool(pub(crate) Rc<Core>);

/// How the buffers of a pool are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Those that nobody has.
    pub free: u32,
    /// Those to which this process has a reference, for itself or for what was not taken yet.
    pub own: u32,
    /// Those that only members have, or may have: not looked at since.
    pub released: u32,
    /// Members that have not ended.
    pub members: u32,
}

impl Pool {
    /// A pool of this shape, with a name for those who look at the process's mappings.
    ///
    /// # Errors
    ///
    /// The shape is beyond the limits, or there is no memory or descriptor left.
    pub fn new(name: &str, shape: Shape) -> Result<Self> {
        Core::new(name, shape).map(|core| Self(Rc::new(core)))
    }

    /// Its shape.
    pub fn shape(&self) -> Shape {
        self.0.shape
    }

    /// Room for this many bytes, of which nobody has a reference.
    ///
    /// # Errors
    ///
    /// They are more than a buffer holds, or every buffer is in use.
    pub fn draft(&self, len: usize) -> Result<Draft> {
        Draft::new(&self.0, len)
    }

    /// Bytes, copied into buffers.
    ///
    /// # Errors
    ///
    /// Every buffer is in use.
    pub fn copy(&self, mut bytes: &[u8]) -> Result<crate::Aggregate> {
        let mut copy = crate::Aggregate::new();
        while !bytes.is_empty() {
            let now = bytes.len().min(self.0.shape.buffer_len as usize);
            let mut draft = self.draft(now)?;
            draft.bytes_mut().copy_from_slice(&bytes[..now]);
            copy.append(draft.freeze());
            bytes = &bytes[now..];
        }
        Ok(copy)
    }

    /// Room for another member, to be passed to a process, which can then read the pool's buffers, all of them.
    ///
    /// # Errors
    ///
    /// There are too many members, or no descriptor or memory is left.
    pub fn invite(&self) -> Result<Invitation> {
        self.0.invite(None).map(|(_, invitation)| invitation)
    }

    /// Looks which members have ended, and how many are left. Asks the kernel once for each.
    pub fn look_at_members(&self) -> u32 {
        self.0.forget_ended();
        self.0.usage().members
    }

    /// Looks who has ended, and for buffers that nobody has. Nothing needs that: it is done when there are none left.
    pub fn look(&self) -> Usage {
        self.0.look_everywhere();
        self.0.usage()
    }
}
