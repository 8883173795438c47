//! What the peer acknowledges, and the window that it offers (RFC 9293 §3.10.7.4, fifth).

use exos_wire::SeqNumber;

use crate::tcp::sending::acknowledgement::{Acked, Acknowledgement};
use crate::tcp::sending::loss::flight::Timer;
use crate::tcp::sending::sender::Sender;
use crate::tcp::shared::context::Context;
use crate::tcp::values::segment::Segment;
use crate::time::Instant;

impl Sender {
    /// RFC 5961 §5.2: SND.UNA - MAX.SND.WND <= SEG.ACK <= SND.NXT.
    pub fn is_plausible(&self, ack: SeqNumber) -> bool {
        let oldest = self.snd_una - self.snd_wnd_max;
        ack.le(self.snd_max) && ack.ge(oldest)
    }

    /// It acknowledges some of what was sent, or repeats the last acknowledgement and its window; nothing is wrong that an
    /// acknowledgement could put right.
    #[inline]
    pub fn predicts(&self, seg: &Segment<'_>) -> bool {
        let window = self.window_of(seg);
        let expected = match seg.ack == self.snd_una {
            true => window == self.snd_wnd && !seg.payload.is_empty(),
            false => seg.ack.gt(self.snd_una) && seg.ack.le(self.snd_max) && window > 0,
        };
        expected && self.agreed.timestamps && self.snd_wnd > 0 && !self.probing && self.retries == 0
    }

    /// Take in the acknowledgement of a segment that is predicted.
    #[inline]
    pub fn take_predicted(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) -> Acked {
        if seg.ack != self.snd_una {
            return match self.take_predicted_ack(seg, cx.now) {
                Some(acked) => acked,
                None => {
                    self.set_window(seg.seq, seg.ack, self.window_of(seg));
                    self.new_data_acknowledged(seg, cx)
                }
            };
        }
        if self.snd_wl1.le(seg.seq) {
            // Else what came beyond a gap has said something newer of the window.
            (self.snd_wl1, self.snd_wl2) = (seg.seq, seg.ack);
        }
        Acked::NOTHING
    }

    /// What an acceptable acknowledgement moves.
    pub fn handle_ack(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) -> Acked {
        let window = u32::from(seg.window) << self.snd_scale;
        let same_window = window == self.snd_wnd;
        if seg.ack.gt(self.snd_una) {
            self.update_window(seg, window, cx.now);
            return self.new_data_acknowledged(seg, cx);
        }
        // RFC 5681 §2: a duplicate repeats the number and the window, and carries nothing.
        let again = seg.ack == self.snd_una && self.snd_max.gt(self.snd_una);
        let duplicate = again && seg.is_empty() && same_window && self.snd_wnd > 0;
        if duplicate || (again && !seg.options.sack.is_empty()) {
            let before = Acknowledgement {
                una: self.snd_una,
                in_flight: self.loss.in_flight(),
                duplicate,
            };
            self.take_acknowledgement(seg, before, cx);
        } else if seg.ack == self.snd_una && !seg.options.sack.is_empty() {
            self.take_late_report(seg, cx);
        }
        self.update_window(seg, window, cx.now);
        Acked::NOTHING
    }

    /// RFC 9293 §3.10.7.4, fifth: the window, unless an older segment brings it.
    fn update_window(&mut self, seg: &Segment<'_>, window: u32, now: Instant) {
        // One that acknowledges more is newer than all before, whatever its number: else a window that
        // came with data beyond a gap would move on with SND.UNA, and be more than the peer offered.
        let newer = seg.ack.gt(self.snd_una)
            || self.snd_wl1.lt(seg.seq)
            || (self.snd_wl1 == seg.seq && self.snd_wl2.le(seg.ack));
        if !newer || seg.ack.lt(self.snd_una) {
            return;
        }
        let opened = window > 0 && self.snd_wnd == 0;
        self.set_window(seg.seq, seg.ack, window);
        if self.probing || self.flight() == 0 {
            // The peer is there, and answers: what fills its window is its own affair.
            self.retries = 0;
        }
        if opened {
            self.window_opened(now);
        }
    }

    /// A closed window opened: what was sent into it, a probe or a FIN, may have been thrown away,
    /// so it is sent again.
    fn window_opened(&mut self, now: Instant) {
        if self.flight() > 0 {
            self.loss.board.mark_all_lost();
        }
        self.probing = false;
        self.probe = false;
        self.rtt.progressed();
        // Whatever is sent now arms it again; but a repair in progress may let nothing out.
        (self.timer, self.retransmit_at) = (Timer::Retransmit, Instant::NEVER);
        if self.flight() > 0 {
            self.set_loss_timer(now);
        }
    }

    fn new_data_acknowledged(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) -> Acked {
        let before = Acknowledgement {
            una: self.snd_una,
            in_flight: self.loss.in_flight(),
            duplicate: false,
        };
        let acked = self.advance_una(seg.ack);
        if self.mtu.is_some() {
            self.note_probe_passed(cx.now);
        }
        self.retries = 0;
        if std::mem::take(&mut self.probing) {
            // What the timer waited for was the window, not the path.
            self.rtt.progressed();
        }
        self.take_acknowledgement(seg, before, cx);
        acked
    }
}
