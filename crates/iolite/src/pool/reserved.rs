//! Buffers that count in what a member may have, though they were not sent to it yet.

use super::membership::MemberId;
use super::owner::Core;
use std::rc::Rc;

/// As long as it is there, the buffers of something that is to be sent count as under way to the consumer. It is dropped when that was sent, or
/// will not be.
#[derive(Debug)]
#[must_use]
pub struct Reserved {
    core: Rc<Core>,
    member: MemberId,
    buffers: Vec<u32>,
}

impl Reserved {
    pub(crate) fn new(core: Rc<Core>, member: MemberId, buffers: Vec<u32>) -> Self {
        Self {
            core,
            member,
            buffers,
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        for buffer in &self.buffers {
            self.core.arrived(self.member, *buffer);
        }
    }
}
