//! Segments that came before their turn, kept until what is missing before them has come.
//!
//! A wire alone brings next to none. Who forwards some packets another way than others may reorder them.

use super::segment::Segment;
use exos_wire::SeqNumber;
use exos_wire::tcp::TcpFlags;

/// What is kept of one.
#[derive(Clone, Debug)]
pub(super) struct Early {
    seq: SeqNumber,
    ack: SeqNumber,
    flags: TcpFlags,
    timestamp: u32,
    data: Vec<u8>,
}

/// Those of a connection, in the order in which they came. Each begins at another sequence number.
#[derive(Clone, Debug, Default)]
pub(super) struct EarlySegments(Vec<Early>);

impl EarlySegments {
    /// Keeps a segment that brings something, if all of it lies in the window of what is expected next.
    pub fn keep(&mut self, expected: SeqNumber, window: u16, segment: Segment<'_>) {
        let end = u64::from((segment.seq - expected) as u32) + segment.data.len() as u64;
        let is_known = self.0.iter().any(|early| early.seq == segment.seq);
        let brings = !segment.data.is_empty() || segment.flags.0 & TcpFlags::FIN.0 != 0;
        if brings && !is_known && end <= window.into() {
            self.0.push(Early {
                seq: segment.seq,
                ack: segment.ack,
                flags: segment.flags,
                timestamp: segment.timestamp,
                data: segment.data.to_vec(),
            });
        }
    }

    /// One whose turn it is now, or is over.
    pub fn take(&mut self, expected: SeqNumber) -> Option<Early> {
        let is_due = |early: &Early| early.seq.le(expected);
        let at = self.0.iter().position(is_due)?;
        Some(self.0.swap_remove(at))
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Early {
    pub fn segment(&self) -> Segment<'_> {
        Segment {
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            timestamp: self.timestamp,
            data: &self.data,
        }
    }
}
