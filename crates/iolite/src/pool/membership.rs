//! What the owner of a pool knows of a member: what was passed to it, and what it says that it has.

use super::{Shape, Share};
use crate::error::Error;
use crate::memory::Region;
use crate::protocol::Census;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

pub(super) type Members = Vec<Option<Member>>;

/// Which member. Its place is another's when it has ended, its number is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemberId {
    pub(super) place: usize,
    pub(super) number: u64,
}

/// A process that may read the buffers.
#[derive(Debug)]
pub(super) struct Member {
    number: u64,
    column: Region,
    /// Whose other end goes with the process.
    life: OwnedFd,
    /// How often each buffer is under way to it, by this owner's pipes.
    under_way: Vec<u32>,
    /// Buffers that were passed to it, and not seen to be let go of.
    passed: Vec<bool>,
    count: u32,
    /// How many it may have.
    most: u32,
    /// With which others. Then it has nothing but what this owner has passed to it.
    share: Option<Share>,
}

impl Member {
    pub fn new(
        number: u64,
        column: Region,
        life: OwnedFd,
        shape: Shape,
        share: Option<Share>,
    ) -> Self {
        let buffers = shape.buffers as usize;
        Self {
            number,
            column,
            life,
            under_way: vec![0; buffers],
            passed: vec![false; buffers],
            count: 0,
            most: shape.share,
            share,
        }
    }

    pub fn hold(&self, buffer: u32) -> u64 {
        self.column.word(buffer as usize).load(Ordering::Acquire)
    }

    /// Whether it has a buffer, or it is under way to it.
    pub fn has(&self, buffer: u32) -> bool {
        self.under_way[buffer as usize] > 0 || self.hold(buffer) != 0
    }

    /// It has let go of a buffer, unless that is under way to it still.
    pub fn forget(&mut self, buffer: u32) {
        let buffer = buffer as usize;
        if self.under_way[buffer] == 0 && std::mem::take(&mut self.passed[buffer]) {
            self.count -= 1;
            self.share.iter().for_each(|share| share.remove(1));
        }
    }

    /// Whether a buffer was passed to it, and counts.
    pub fn was_passed(&self, buffer: u32) -> bool {
        self.passed[buffer as usize]
    }

    /// How many more buffers may be passed to it.
    pub fn left(&self) -> u32 {
        let own = self.most.saturating_sub(self.count);
        self.share
            .as_ref()
            .map_or(own, |share| own.min(share.left()))
    }

    /// Whose share it counts in.
    pub fn share(&self) -> Option<&Share> {
        self.share.as_ref()
    }

    /// None is left.
    pub fn exceeded(&self) -> Error {
        let share = self.share.as_ref();
        Error::ShareExceeded {
            held: share.map_or(self.count, Share::count),
            share: share.map_or(self.most, |share| share.limit().min(self.most)),
        }
    }

    /// A buffer is about to be sent to it, or will be.
    pub fn pass(&mut self, buffer: u32) {
        let buffer = buffer as usize;
        if !std::mem::replace(&mut self.passed[buffer], true) {
            self.count += 1;
            self.share.iter().for_each(|share| share.add(1));
        }
        self.under_way[buffer] += 1;
    }

    /// It was taken, or never will be.
    pub fn arrived(&mut self, buffer: u32) {
        self.under_way[buffer as usize] -= 1;
    }

    /// How many buffers it says that it has, about: it may take and let go while that is read.
    pub fn holds(&self) -> u32 {
        let buffers = 0..self.passed.len() as u32;
        buffers.filter(|&buffer| self.hold(buffer) != 0).count() as u32
    }

    /// Whether it has ended, or says of more buffers that it has them than it may.
    pub fn is_over(&self) -> bool {
        self.has_ended()
            || match self.share {
                Some(_) => self.has_others(),
                None => self.has_more(),
            }
    }

    /// Whether the process has ended, or closed its end.
    pub fn has_ended(&self) -> bool {
        let mut life = [PollFd::new(&self.life, PollFlags::empty())];
        poll(&mut life, Some(&Timespec::default())).is_ok() && !life[0].revents().is_empty()
    }

    /// Whether it says of more than it may have that it has them, all at one moment.
    fn has_more(&self) -> bool {
        let hold = |buffer| self.hold(buffer as u32);
        // Mostly one reading says that it has not.
        self.holds() > self.most && Census::is_more(self.passed.len(), self.most, hold)
    }

    /// Whether it says that it has what was not passed to it. One that takes has its hold before it says so, and the owner takes for let go of
    /// only what is not under way: so no member of this library says that at any moment.
    fn has_others(&self) -> bool {
        let mut buffers = 0..self.passed.len() as u32;
        buffers.any(|buffer| !self.was_passed(buffer) && self.hold(buffer) != 0)
    }

    /// Forgets all that it has let go of.
    pub fn sweep(&mut self) {
        for buffer in 0..self.passed.len() as u32 {
            if self.under_way[buffer as usize] == 0 && self.hold(buffer) == 0 {
                self.forget(buffer);
            }
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.share.iter().for_each(|share| share.remove(self.count));
    }
}

#[inline]
pub(super) fn find(members: &mut Members, id: MemberId) -> Option<&mut Member> {
    let member = members.get_mut(id.place)?.as_mut()?;
    (member.number == id.number).then_some(member)
}
