//! Duplicate acknowledgements of a peer without SACK: each tells of one segment that has left the network (RFC 5681 §3.2).

use crate::limits::DUPLICATE_ACKS;
use crate::tcp::sending::recovery::scoreboard::board::Scoreboard;
use crate::tcp::sending::recovery::scoreboard::record::Delivered;

/// Those since the last advance.
#[derive(Debug)]
pub(super) struct Duplicates {
    count: u8,
    /// What they tell of, in bytes.
    left_network: u32,
}

impl Duplicates {
    /// None yet.
    pub const fn new() -> Self {
        Self {
            count: 0,
            left_network: 0,
        }
    }

    /// Something new is acknowledged, as `d` says. What the duplicates told of is part of it, a segment each; the one
    /// that filled the gap apart. They say nothing more when nothing is in flight or under `repair`.
    pub fn advanced(&mut self, board: &Scoreboard, repairing: bool, mss: u32, d: &mut Delivered) {
        let known = d.bytes.saturating_sub(mss).min(self.left_network);
        self.left_network -= known;
        d.bytes -= known;
        self.count = 0;
        if !repairing || board.outstanding() == 0 {
            self.left_network = 0;
        }
    }

    /// A duplicate has come: one more segment is delivered.
    pub fn came(&mut self, board: &Scoreboard, mss: u32, d: &mut Delivered) {
        self.count = self.count.saturating_add(1);
        let most = board.in_flight().saturating_sub(mss);
        let more = mss.min(most.saturating_sub(self.left_network));
        self.left_network += more;
        d.bytes += more;
    }

    /// The timer ran out: they say nothing of what is sent again.
    pub fn forget(&mut self) {
        (self.count, self.left_network) = (0, 0);
    }

    /// There are enough to believe a loss.
    pub fn are_enough(&self) -> bool {
        self.count >= DUPLICATE_ACKS
    }

    /// Bytes that have left the network.
    #[inline]
    pub fn left_network(&self) -> u32 {
        self.left_network
    }
}
