//! Explicit congestion notification (RFC 3168): agreeing on it, telling of marks, heeding them.
//!
//! A packet whose IP header says "congestion experienced" has all acknowledgements carry ECE, until
//! the peer says with CWR that it has slowed down. A sender that hears ECE slows down as at a loss, once
//! for each window, without sending anything again (`loss`), and says so with its next new data. Only new
//! data says that it may be marked (§6.1.5): what is sent again, acknowledgements and probes do not.

use exos_wire::tcp::TcpFlags;

use super::sender::Sender;
use crate::tcp::connection::Connection;
use crate::tcp::ecn::{Ecn, EcnMode};
use crate::tcp::loss::Phase;
use crate::tcp::segment::{Context, Segment};

const BOTH: u8 = TcpFlags::ECE.0 | TcpFlags::CWR.0;

impl Segment<'_> {
    /// A SYN that asks for ECN (RFC 3168 §6.1.1). One that comes marked was marked by somebody who
    /// does not know what the bits mean: then neither may the path.
    pub(in crate::tcp) fn asks_for_ecn(&self) -> bool {
        self.flags.0 & BOTH == BOTH && self.ecn == Ecn::NotEct
    }

    /// A SYN-ACK that grants it. Both bits come from hosts that send back whatever they got.
    fn grants_ecn(&self) -> bool {
        self.flags.0 & BOTH == TcpFlags::ECE.0
    }
}

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
            (true, false) => BOTH,
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
