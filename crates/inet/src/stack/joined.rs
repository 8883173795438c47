//! Segments that came in fragments, where somebody else may have their connection (`Stack::take_on`): who has it sees whole packets, and
//! these are whole first here. They wait for it to be asked.

use exos_wire::tcp::{TcpFlags, TcpView};

use crate::stack::input::{Concern, Packet};
use crate::stack::state::Stack;
use crate::tcp::{Ecn, Flow, Segment};
use crate::time::Instant;

/// A segment that was joined of fragments, its checksum right.
#[derive(Clone, Debug)]
pub struct JoinedSegment {
    flow: Flow,
    ecn: Ecn,
    /// From TCP's header on.
    bytes: Vec<u8>,
    is_shared: bool,
}

impl JoinedSegment {
    /// Whose it is, if anybody's.
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// Whether other stacks have the address, too: each has joined it, or will.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn segment(&self) -> Option<Segment<'_>> {
        let view = TcpView::parse(&self.bytes).ok()?;
        Some(Segment {
            ecn: self.ecn,
            ..Segment::from_view(&view)
        })
    }

    /// Its sequence number.
    pub fn seq(&self) -> Option<u32> {
        Some(self.segment()?.seq.0)
    }

    /// The number behind its data; `None` of a SYN or FIN.
    pub fn data_end(&self) -> Option<u32> {
        let segment = self.segment()?;
        let has_data_alone = !segment.has(TcpFlags::SYN) && !segment.has(TcpFlags::FIN);
        has_data_alone.then(|| (segment.seq + segment.len()).0)
    }

    /// What it acknowledges; `None` also of a SYN.
    pub fn ack(&self) -> Option<u32> {
        let segment = self.segment()?;
        let acknowledges = segment.has(TcpFlags::ACK) && !segment.has(TcpFlags::SYN);
        acknowledges.then_some(segment.ack.0)
    }
}

/// The one that waits, if any does.
#[derive(Debug, Default)]
pub(super) struct Joined {
    is_held: bool,
    waits: Option<Box<JoinedSegment>>,
}

impl Joined {
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }
}

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
