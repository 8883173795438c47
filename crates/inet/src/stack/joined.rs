//! Segments that came in fragments, where somebody else may have their connection (`Stack::take_on`): who has it sees whole packets, and
//! these are whole first here. They wait for it to be asked.

pub(super) mod segment;

use crate::stack::input::Concern;
use crate::stack::input::packet::Packet;
use crate::stack::state::Stack;
use crate::time::Instant;

use segment::{Joined, JoinedSegment};

impl Stack {
    /// Whether segments that were joined of fragments wait from now on until they are asked for ([`Self::take_joined`]): after each frame,
    /// or they are lost as on a wire.
    pub fn hold_joined(&mut self, is_held: bool) {
        self.joined = Joined {
            is_held,
            waits: None,
        };
    }

    /// The one that waits. It goes on by [`Self::handle_joined`] or [`Self::handle_joined_among`].
    pub fn take_joined(&mut self) -> Option<Box<JoinedSegment>> {
        self.joined.waits.take()
    }

    /// Takes in a segment that has waited.
    pub fn handle_joined(&mut self, now: Instant, joined: &JoinedSegment) {
        if let Some(segment) = joined.segment() {
            self.handle_segment(now, joined.flow, &segment);
        }
    }

    /// Takes in a segment that has waited, and may be of another stack's connection, as [`Self::handle_frame_among`] does with a frame.
    pub fn handle_joined_among(&mut self, now: Instant, joined: &JoinedSegment) -> Concern {
        self.among(|stack| stack.handle_joined(now, joined))
    }

    /// It waits, if it is a segment that would be taken in.
    pub(super) fn hold(&mut self, packet: &Packet<'_>) {
        let Some((flow, segment)) = self.expect_segment(packet) else {
            return;
        };
        self.joined.waits = Some(Box::new(JoinedSegment {
            flow,
            ecn: segment.ecn,
            bytes: packet.payload.to_vec(),
            is_shared: self.tcp.addresses_shared,
        }));
    }
}
