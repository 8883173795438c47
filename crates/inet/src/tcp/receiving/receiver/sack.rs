//! What selective acknowledgements say (RFC 2018 §4, RFC 2883 §4), and on which segments they ride.
//!
//! The first block holds the segment that arrived last, the others repeat what was reported last, and
//! where there is room still, ranges from the left: the peer has to repair these first. A segment that
//! was there already is reported once, before all others (D-SACK), with the range that it lies in
//! behind it. Many segments may arrive before one can leave: then an acknowledgement follows for each range
//! that grew, so that each is said in several (RFC 2018 §4: three at least), some of which may get lost.
//!
//! Rules: a block says only what is held, or with D-SACK what was received twice; a segment with
//! blocks is no longer than one without.

use exos_wire::SeqNumber;
use exos_wire::tcp::SackBlocks;

use crate::limits::SACK_ON_DATA_MSS_MIN;
use crate::tcp::receiving::receiver::Receiver;
use crate::tcp::shared::context::Context;
use crate::tcp::values::agreed::Agreed;

/// Blocks that fit beside timestamps: (40 - 12 - 4) / 8.
const BLOCKS_WITH_TIMESTAMPS: usize = 3;

/// Blocks that fit without: (40 - 4) / 8.
const BLOCKS_ALONE: usize = 4;

/// The most blocks of one segment, beside timestamps or not.
const fn blocks_max(timestamps: bool) -> usize {
    if timestamps {
        BLOCKS_WITH_TIMESTAMPS
    } else {
        BLOCKS_ALONE
    }
}

impl Receiver {
    /// The most data of a segment of `mss` bytes with what there is to report.
    #[inline]
    pub fn mss_beside_report(&self, mss: u16, agreed: Agreed) -> u16 {
        let Some(beyond) = self.queue().beyond().filter(|_| agreed.sack) else {
            return mss;
        };
        let count = beyond.count_blocks(blocks_max(agreed.timestamps));
        if count == 0 || mss < SACK_ON_DATA_MSS_MIN {
            return mss;
        }
        mss - (4 + 8 * count as u16)
    }

    /// The blocks for a segment with `len` bytes of data, and the size of segments into which the link
    /// must cut it if it is longer. No blocks where there is no room for them: they then leave on
    /// an acknowledgement of their own.
    #[inline]
    pub fn take_report(&mut self, len: usize, mss: u16, agreed: Agreed) -> (SackBlocks, u16) {
        if self.is_in_order() || !agreed.sack {
            return (SackBlocks::NONE, mss);
        }
        let beside = self.mss_beside_report(mss, agreed);
        let small = mss < SACK_ON_DATA_MSS_MIN && len > 0;
        if small || (len > usize::from(beside) && len <= usize::from(mss)) {
            return (SackBlocks::NONE, mss);
        }
        let (next, most) = (self.rcv_nxt(), blocks_max(agreed.timestamps));
        (self.queue_mut().take_blocks(next, most), beside)
    }

    /// There is something to say that took no place on the segments that have left.
    #[inline]
    pub fn owes_report(&self, sack: bool) -> bool {
        sack && self.queue().has_report()
    }

    /// A segment brought again what was received: from `left` up to `right`.
    pub fn report_repeated(
        &mut self,
        left: SeqNumber,
        right: SeqNumber,
        sack: bool,
        cx: &mut Context<'_>,
    ) {
        if sack && left.lt(right) {
            cx.counters.tcp_dsacks_sent += 1;
            self.queue_mut().report_repeated((left, right), cx.memory);
        }
    }
}
