//! What leaves before new data: what is believed lost, tail loss probes, and probes of a closed window.

use exos_wire::SeqNumber;

use crate::tcp::sending::new_data::longest;
use crate::tcp::sending::piece::Piece;
use crate::tcp::sending::sender::Sender;
use crate::time::Instant;

impl Sender {
    /// The first segment believed lost, as far as the congestion window allows (RFC 6675 §4).
    pub(super) fn poll_lost(&mut self, now: Instant, data_max: u32, mss_now: u16) -> Option<Piece> {
        // A window that is shut is asked after with a byte now and then; once it opens, all is lost.
        if self.loss.board.lost_bytes() == 0 || self.probing {
            return None;
        }
        let window = self.congestion_window();
        let room = window.saturating_sub(self.loss.in_flight());
        let forced = self.loss.forced;
        // What the retransmission timer asks for waits for nothing.
        if !forced && (room == 0 || self.held_back(now)) {
            return None;
        }
        let (start, end) = self.loss.board.next_lost()?;
        // It is one segment, whatever the link can cut up (RFC 5681 §3.1); else as many as would leave one by one.
        let mss = u32::from(mss_now);
        let room = if forced {
            mss
        } else {
            room.next_multiple_of(mss)
        };
        let len = ((end - start) as u32).min(longest(data_max.min(room), mss_now));
        // A window taken back does not keep the first segment from being sent again (§3.8.6).
        let reach = (self.snd_una + self.snd_wnd - start).max(0) as u32;
        let len = if start == self.snd_una {
            len
        } else {
            len.min(reach)
        };
        if len == 0 {
            return None;
        }
        self.loss.forced = false;
        if self.mtu.is_some() {
            self.note_probe_lost(now, start, end);
        }
        Some(self.again(now, start, start + len))
    }

    /// What lies between two sequence numbers, all of it sent before.
    fn again(&mut self, now: Instant, start: SeqNumber, end: SeqNumber) -> Piece {
        let from = (start - self.data_start()) as usize;
        let to = ((end - self.data_start()) as usize).min(self.send.len());
        let fin = end == self.send_end() + 1;
        self.piece(now, start, from..to, fin)
    }

    /// A tail loss probe (RFC 8985 §7.3): new data whatever the congestion window, or else the last
    /// segment again.
    pub(super) fn poll_tail(&mut self, now: Instant, mss_now: u16) -> Option<Piece> {
        if !self.loss.tail_due {
            return None;
        }
        self.loss.tail_due = false;
        if self.flight() == 0 {
            return None;
        }
        if !self.window_holds_flight() {
            // It was shut after the timer went off.
            self.set_loss_timer(now);
            return None;
        }
        let mss = u32::from(mss_now);
        let available = (self.send_end() - self.snd_max).max(0) as u32;
        let room = self.snd_wnd.saturating_sub(self.flight());
        let len = available.min(mss).min(room);
        let piece = if len > 0 {
            let fin = len == available && self.fin_is_due() && room > len;
            let start = (self.snd_max - self.data_start()) as usize;
            self.piece(now, self.snd_max, start..start + len as usize, fin)
        } else {
            let len = self.flight().min(mss);
            self.again(now, self.snd_max - len, self.snd_max)
        };
        self.loss.tail = Some((self.snd_max, len == 0));
        self.set_loss_timer(now);
        Some(piece)
    }

    /// One byte (or the FIN) into a window that is closed, or too small to be worth a segment.
    pub(super) fn poll_probe(&mut self, now: Instant, mss_now: u16) -> Option<Piece> {
        if !std::mem::take(&mut self.probe) {
            return None;
        }
        let most = if self.snd_wnd == 0 {
            1
        } else {
            (self.snd_wnd as usize).min(usize::from(mss_now))
        };
        let len = self.send.len().min(most);
        let fin = self.fin_is_due() && len == self.send.len();
        if len == 0 && !fin {
            return None;
        }
        self.probing = self.snd_wnd == 0;
        Some(self.piece(now, self.snd_una, 0..len, fin))
    }
}
