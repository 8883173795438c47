//! What leaves, as far as the sender says: which numbers, and where in the send queue they lie.

use core::ops::Range;

use exos_wire::SeqNumber;
use exos_wire::tcp::TcpFlags;

use crate::tcp::sending::loss::flight::Timer;
use crate::tcp::sending::sender::{Sender, Syn};
use crate::tcp::values::outgoing::Burst;
use crate::time::Instant;

/// What leaves next.
#[derive(Clone, Debug)]
pub(in crate::tcp) struct Piece {
    pub seq: SeqNumber,
    /// A range of the send queue.
    pub data: Range<usize>,
    /// PSH, FIN, CWR.
    pub flags: u8,
    /// All of it was sent before.
    pub again: bool,
    /// None of it was, and it is no probe.
    pub new_data: bool,
    /// Its largest payload, where that is not what the path is known to carry.
    pub mss: Option<u16>,
}

impl Sender {
    /// What leaves next; `mss_now` is the most data of a segment with what the receiver has to report.
    #[inline]
    pub fn poll(&mut self, now: Instant, burst: Burst, mss_now: u16) -> Option<Piece> {
        if self.has_more_urgent_than_data()
            && let Some(piece) = self.poll_urgent(now, burst, mss_now)
        {
            return Some(piece);
        }
        self.poll_data(now, burst, mss_now)
    }

    /// Something may have to leave before new data.
    #[inline]
    fn has_more_urgent_than_data(&self) -> bool {
        let loss = self.loss.at_work();
        loss.is_some_and(|loss| loss.board.lost_bytes() > 0 || loss.tail_due) || self.probe
    }

    #[inline(never)]
    fn poll_urgent(&mut self, now: Instant, burst: Burst, mss_now: u16) -> Option<Piece> {
        self.poll_lost(now, burst.bytes(), mss_now)
            .or_else(|| self.poll_tail(now, mss_now))
            .or_else(|| self.poll_probe(now, mss_now))
    }

    /// True when [`Self::poll`] may have something without a further event.
    #[inline]
    pub fn wants_to_send(&self) -> bool {
        self.has_more_urgent_than_data()
            || self.snd_max.lt(self.send_end())
            || (self.fin_is_due() && self.snd_max == self.send_end())
    }

    /// Nothing, behind everything sent.
    #[inline]
    pub fn nothing(&self) -> Piece {
        let at = self.send.len();
        Piece {
            seq: self.bare_seq(),
            data: at..at,
            flags: 0,
            again: false,
            new_data: false,
            mss: None,
        }
    }

    /// Our SYN leaves, `answering` the peer's or not. Gives whether it did before, and its bits of ECN.
    pub fn syn_leaves(&mut self, now: Instant, answering: bool) -> (bool, u8) {
        let again = self.snd_max.gt(self.iss);
        let flags = self.ecn_flags_of_syn(answering, again);
        self.syn = Syn::Sent;
        self.last_sent = now;
        // Its round trip is measured if it left only once.
        self.syn_again |= again;
        self.snd_max = self.snd_max.max(self.iss + 1);
        self.retransmit_at = now + self.rtt.timeout();
        (again, flags)
    }

    /// These numbers leave: data, and perhaps the FIN behind it.
    pub(super) fn piece(
        &mut self,
        now: Instant,
        seq: SeqNumber,
        data: Range<usize>,
        fin: bool,
    ) -> Piece {
        let len = data.len() as u32;
        let end = seq + len + u32::from(fin);
        let again = end != seq && seq.lt(self.snd_max);
        let new_data = len > 0 && !again && !self.probing;
        let mut flags = self.take_window_reduced(new_data);
        if len > 0 && data.end == self.send.len() {
            flags |= TcpFlags::PSH.0;
        }
        if fin {
            flags |= TcpFlags::FIN.0;
        }
        self.left(now, seq, end, again);
        Piece {
            seq,
            data,
            flags,
            again,
            new_data,
            mss: None,
        }
    }

    /// `seq` to `end` have left: note it, and see to the timer.
    fn left(&mut self, now: Instant, seq: SeqNumber, end: SeqNumber, again: bool) {
        let len = (end - seq) as u32;
        self.last_sent = now;
        self.loss.begin(self.snd_una, now);
        let departure = self.loss.departure(now);
        if !again {
            self.loss.board.sent(end, departure);
        } else if self.probing {
            self.loss.board.first_is_ambiguous();
            if end.gt(self.snd_max) {
                // A FIN, asked for since the byte left first.
                self.loss.board.sent(end, departure);
            }
        } else {
            self.loss.board.sent_again(seq, end, departure);
        }
        self.snd_max = self.snd_max.max(end);
        if let Some(repair) = &mut self.loss.repair {
            repair.left(len);
            if again {
                repair.left_again(now);
            }
        }
        let rested = self.loss.board.outstanding() == len;
        self.loss.pacer.left(now, len, rested);
        if self.retransmit_at == Instant::NEVER || (self.timer == Timer::Tail && !again) {
            self.set_loss_timer(now);
        }
    }
}
