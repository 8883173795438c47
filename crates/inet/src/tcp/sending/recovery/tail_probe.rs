//! Tail loss probes (RFC 8985 §7): the last of the data may be lost without anything behind it that could tell.

use exos_wire::SeqNumber;

use crate::tcp::values::segment::Segment;

/// A probe that is to leave, or is out.
#[derive(Debug)]
pub(in crate::tcp) struct TailProbe {
    due: bool,
    /// Behind the last number of the one that is out, and whether it repeated data.
    out: Option<(SeqNumber, bool)>,
}

impl TailProbe {
    /// None.
    pub const fn new() -> Self {
        Self {
            due: false,
            out: None,
        }
    }

    /// Let one leave.
    pub fn ask(&mut self) {
        self.due = true;
    }

    /// It is not to leave any more, or leaves.
    pub fn withdraw(&mut self) {
        self.due = false;
    }

    /// One has left that reaches up to `end`, with data sent before (`again`) or new.
    pub fn left(&mut self, end: SeqNumber, again: bool) {
        self.out = Some((end, again));
    }

    /// What becomes of the one that is out says nothing any more.
    pub fn forget(&mut self) {
        self.out = None;
    }

    /// An acknowledgement has come, which `advanced` or not; it may report a duplicate (`twice`). RFC 8985 §7.4: true when the
    /// probe has repaired the loss of the tail, so that nobody was told of it.
    pub fn acknowledged(&mut self, seg: &Segment<'_>, twice: bool, advanced: bool) -> bool {
        let Some((end, again)) = self.out else {
            return false;
        };
        if seg.ack.lt(end) {
            return false;
        }
        if !again || twice {
            // New data needs no judgement; a D-SACK says that both arrived.
            self.out = None;
        } else if seg.ack.gt(end) {
            self.out = None;
            return true;
        } else if !advanced && seg.is_empty() {
            // The second acknowledgement of the same number: that of the other copy.
            self.out = None;
        }
        false
    }

    #[inline]
    pub fn is_due(&self) -> bool {
        self.due
    }

    #[inline]
    pub fn is_out(&self) -> bool {
        self.out.is_some()
    }
}
