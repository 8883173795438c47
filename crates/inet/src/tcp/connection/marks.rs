//! Explicit congestion notification (RFC 3168): agreeing on it, and telling the peer of marks.
//!
//! A packet whose IP header says "congestion experienced" has all acknowledgements carry ECE, until
//! the peer says with CWR that it has slowed down. A sender that hears ECE slows down as at a loss, once
//! for each window, without sending anything again (`sending::recovery`), and says so with its next new data. Only new
//! data says that it may be marked (§6.1.5): what is sent again, acknowledgements and probes do not.

use exos_wire::tcp::TcpFlags;

use crate::tcp::connection::Connection;
use crate::tcp::shared::context::Context;
use crate::tcp::values::ecn::{Ecn, EcnMode};
use crate::tcp::values::segment::Segment;

impl Connection {
    /// What a listener's connection learns from a SYN: whether it `asks` for ECN.
    pub(in crate::tcp) fn learn_ecn_from_syn(&mut self, asks: bool) {
        let mut agreed = self.sender.agreed();
        agreed.ecn = self.ecn_mode != EcnMode::Off && asks;
        self.sender.agree(agreed);
    }

    /// What the answer to our SYN says. Two SYNs that cross agree on nothing.
    pub(in crate::tcp) fn learn_ecn_from_answer(&mut self, seg: &Segment<'_>) {
        self.agree_on_ecn(seg.has(TcpFlags::ACK) && seg.grants_ecn());
    }

    /// The peer agrees, or does not.
    pub(in crate::tcp) fn agree_on_ecn(&mut self, agrees: bool) {
        let mut agreed = self.sender.agreed();
        agreed.ecn &= agrees;
        self.sender.agree(agreed);
    }

    /// ECE, while a mark is to be echoed (§6.1.3).
    pub(in crate::tcp) fn ecn_echo(&self) -> u8 {
        match self.receiver.echoes_congestion() {
            true => TcpFlags::ECE.0,
            false => 0,
        }
    }

    /// What an acceptable segment says of congestion on its way here.
    #[inline]
    pub(in crate::tcp) fn note_ecn(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) {
        if self.sender.agreed().ecn && (seg.ecn == Ecn::Ce || seg.has(TcpFlags::CWR)) {
            self.note_congestion(seg, cx);
        }
    }

    /// The peer's window may be down to a segment when it slows down, and congestion is no news when
    /// it comes late: the first mark and its end are acknowledged at once.
    fn note_congestion(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) {
        if seg.has(TcpFlags::CWR) && !seg.is_empty() {
            // Before the mark: a packet that carries both was marked after the peer slowed down.
            self.receiver.congestion_is_known();
        }
        if seg.ecn == Ecn::Ce && !seg.payload.is_empty() {
            cx.counters.tcp_congestion_marks += 1;
            self.receiver.came_marked();
        }
    }
}
