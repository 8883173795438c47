//! A segment that was joined of fragments, and the place where one waits.

use exos_wire::tcp::{TcpFlags, TcpView};

use crate::tcp::{Ecn, Flow, Segment};

/// A segment that was joined of fragments, its checksum right.
#[derive(Clone, Debug)]
pub struct JoinedSegment {
    pub(super) flow: Flow,
    pub(super) ecn: Ecn,
    /// From TCP's header on.
    pub(super) bytes: Vec<u8>,
    pub(super) is_shared: bool,
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

    pub(super) fn segment(&self) -> Option<Segment<'_>> {
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
pub(in crate::stack) struct Joined {
    pub(super) is_held: bool,
    pub(super) waits: Option<Box<JoinedSegment>>,
}

impl Joined {
    pub(in crate::stack) fn is_held(&self) -> bool {
        self.is_held
    }
}
