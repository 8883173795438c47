//! What leaves next: what is believed lost, tail loss probes, probes of a closed window; else new data (`new_data`).

use core::ops::Range;

use exos_wire::SeqNumber;
use exos_wire::tcp::TcpFlags;

use crate::tcp::sending::piece::Piece;
use crate::tcp::sending::recovery::losses::Timer;
use crate::tcp::sending::segments::longest;
use crate::tcp::sending::sender::Sender;
use crate::tcp::values::outgoing::Burst;
use crate::time::Instant;

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
        let flight = self.flight.at_work();
        flight.is_some_and(|flight| flight.losses.is_urgent()) || self.window.probe_is_due()
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
        self.has_more_urgent_than_data() || self.queue.has_unsent()
    }

    /// Nothing, behind everything sent.
    #[inline]
    pub fn nothing(&self) -> Piece {
        let at = self.queue.bytes().len();
        Piece {
            seq: self.bare_seq(),
            data: at..at,
            flags: 0,
            again: false,
            new_data: false,
            mss: None,
        }
    }

    /// Our SYN leaves, `answering` the peer's or not. Gives whether it did before, and its bits of ECN: a SYN that was not answered is
    /// sent again without (RFC 3168 §6.1.1.1), for perhaps it was for these that it was dropped.
    pub fn syn_leaves(&mut self, now: Instant, answering: bool) -> (bool, u8) {
        let again = self.queue.syn_left();
        self.retransmitted = self.retransmitted.saturating_add(again.into());
        if !answering {
            self.agreed.ecn &= !again;
        }
        self.last_sent = now;
        self.retransmit_at = now + self.rtt.timeout();
        let flags = match (self.agreed.ecn, answering) {
            (false, _) => 0,
            (true, true) => TcpFlags::ECE.0,
            (true, false) => TcpFlags::ECE.0 | TcpFlags::CWR.0,
        };
        (again, flags)
    }

    /// The first segment believed lost, as far as the congestion window allows (RFC 6675 §4).
    fn poll_lost(&mut self, now: Instant, data_max: u32, mss_now: u16) -> Option<Piece> {
        // A window that is shut is asked after with a byte now and then; once it opens, all is lost.
        if self.flight.losses.board().lost_bytes() == 0 || self.window.is_probing() {
            return None;
        }
        let window = self.congestion_window();
        let room = window.saturating_sub(self.flight.losses.in_flight());
        let forced = self.flight.losses.is_forced();
        // What the retransmission timer asks for waits for nothing.
        if !forced && (room == 0 || self.flight.pacer.holds_back(now)) {
            return None;
        }
        let (start, end) = self.flight.losses.board().next_lost()?;
        // It is one segment, whatever the link can cut up (RFC 5681 §3.1); else as many as would leave one by one.
        let mss = u32::from(mss_now);
        let room = if forced {
            mss
        } else {
            room.next_multiple_of(mss)
        };
        let len = ((end - start) as u32).min(longest(data_max.min(room), mss_now));
        // A window taken back does not keep the first segment from being sent again (§3.8.6).
        let una = self.queue.una();
        let reach = (una + self.window.bytes() - start).max(0) as u32;
        let len = if start == una { len } else { len.min(reach) };
        if len == 0 {
            return None;
        }
        self.flight.losses.forced_left();
        if self.path_mtu.is_searched() {
            self.path_mtu.sent_again(now, start, end);
        }
        Some(self.again(now, start, start + len))
    }

    /// What lies between two sequence numbers, all of it sent before.
    fn again(&mut self, now: Instant, start: SeqNumber, end: SeqNumber) -> Piece {
        let from = self.queue.place(start);
        let to = self.queue.place(end).min(self.queue.bytes().len());
        let fin = end == self.queue.end() + 1;
        self.piece(now, start, from..to, fin)
    }

    /// A tail loss probe (RFC 8985 §7.3): new data whatever the congestion window, or else the last
    /// segment again.
    fn poll_tail(&mut self, now: Instant, mss_now: u16) -> Option<Piece> {
        if !self.flight.losses.tail_probe_is_due() {
            return None;
        }
        self.flight.losses.tail_probe().withdraw();
        let flight = self.queue.flight();
        if flight == 0 {
            return None;
        }
        if !self.window.holds(flight) {
            // It was shut after the timer went off.
            self.set_loss_timer(now);
            return None;
        }
        let (mss, max) = (u32::from(mss_now), self.queue.max());
        let available = self.queue.unsent();
        let room = self.window.room(flight);
        let len = available.min(mss).min(room);
        let piece = if len > 0 {
            let fin = len == available && self.queue.fin_is_due() && room > len;
            let start = self.queue.place(max);
            self.piece(now, max, start..start + len as usize, fin)
        } else {
            self.again(now, max - flight.min(mss), max)
        };
        let end = self.queue.max();
        self.flight.losses.tail_probe().left(end, len == 0);
        self.set_loss_timer(now);
        Some(piece)
    }

    /// One byte (or the FIN) into a window that is closed, or too small to be worth a segment.
    fn poll_probe(&mut self, now: Instant, mss_now: u16) -> Option<Piece> {
        if !self.window.probe_is_due() {
            return None;
        }
        let most = match self.window.bytes() {
            0 => 1,
            window => (window as usize).min(usize::from(mss_now)),
        };
        let queued = self.queue.bytes().len();
        let len = queued.min(most);
        let fin = self.queue.fin_is_due() && len == queued;
        let carries = len > 0 || fin;
        self.window.probe_left(carries);
        carries.then(|| self.piece(now, self.queue.una(), 0..len, fin))
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
        let again = end != seq && seq.lt(self.queue.max());
        let new_data = len > 0 && !again && !self.window.is_probing();
        let mut flags = 0;
        if len > 0 && data.end == self.queue.bytes().len() {
            flags |= TcpFlags::PSH.0;
        }
        if fin {
            flags |= TcpFlags::FIN.0;
        }
        self.left(now, seq, end, again);
        flags |= self.flight.losses.say_slowed_down(new_data);
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
        self.flight.begin(self.queue.una(), now);
        let at = self.numbers();
        let flight = &mut *self.flight;
        let departure = flight.departure(now);
        if !again {
            flight.losses.sent(seq, end, departure);
        } else if self.window.is_probing() {
            flight.losses.probed(at, end, departure);
        } else {
            flight.losses.sent_again(seq, end, departure);
            let segments = len.div_ceil(u32::from(self.mss).max(1)).max(1);
            self.retransmitted = self.retransmitted.saturating_add(segments as u16);
        }
        self.queue.left(end);
        let rested = flight.losses.board().outstanding() == len;
        flight.pacer.left(now, len, rested);
        let tail = flight.losses.timer() == Timer::Tail;
        if self.retransmit_at == Instant::NEVER || (tail && !again) {
            self.set_loss_timer(now);
        }
    }
}
