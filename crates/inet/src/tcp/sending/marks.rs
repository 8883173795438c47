//! Explicit congestion notification (RFC 3168): agreeing on it, telling of marks, heeding them.
//!
//! A packet whose IP header says "congestion experienced" has all acknowledgements carry ECE, until
//! the peer says with CWR that it has slowed down. A sender that hears ECE slows down as at a loss, once
//! for each window, without sending anything again (`recovery`), and says so with its next new data. Only new
//! data says that it may be marked (§6.1.5): what is sent again, acknowledgements and probes do not.

use exos_wire::tcp::TcpFlags;

use crate::tcp::sending::loss::flight::Phase;
use crate::tcp::sending::sender::Sender;
use crate::tcp::values::segment::Segment;

impl Sender {
    /// The bits of a SYN or SYN-ACK. A SYN that was not answered is sent again without (§6.1.1.1):
    /// perhaps it was for these bits that it was dropped.
    pub(super) fn ecn_flags_of_syn(&mut self, answering: bool, again: bool) -> u8 {
        if !answering {
            self.agreed.ecn &= !again;
        }
        match (self.agreed.ecn, answering) {
            (false, _) => 0,
            (true, true) => TcpFlags::ECE.0,
            (true, false) => TcpFlags::ECE.0 | TcpFlags::CWR.0,
        }
    }

    /// CWR, where `new_data` is the first to leave since the window was reduced for a mark (§6.1.2).
    #[inline]
    pub(super) fn take_window_reduced(&mut self, new_data: bool) -> u8 {
        if new_data && self.loss.slowed_down {
            self.loss.slowed_down = false;
            return TcpFlags::CWR.0;
        }
        0
    }

    /// The peer says that a router marked a packet of ours (§6.1.2): true when that is news, once for
    /// each window.
    pub(super) fn hears_of_congestion(&self, seg: &Segment<'_>) -> bool {
        self.agreed.ecn
            && seg.has(TcpFlags::ECE)
            && self.loss.phase == Phase::Open
            && self.snd_una.gt(self.loss.recover)
    }
}
