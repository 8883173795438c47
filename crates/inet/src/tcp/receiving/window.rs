//! The window that we announce: how wide, and when it is worth a segment of its own.
//!
//! The right edge of the window never moves back (RFC 9293 §3.8.6), but by what rounding to the window's
//! scale makes of it when the buffer is full. Its width follows from the
//! receive buffer and what of it the program has not read. When the stack's memory is pressed
//! (`memory`), less is promised again: first only what the connection began with, then a few
//! segments. What was promised stays promised.

use exos_wire::SeqNumber;

use crate::limits::WINDOW_UNDER_PRESSURE_SEGMENTS;
use crate::tcp::receiving::receiver::{Owed, Receiver};
use crate::tcp::shared::memory::Pressure;

impl Receiver {
    /// The buffer on which the window is reckoned: what the stack's memory allows of ours.
    #[inline]
    fn promised_buffer(&self) -> u32 {
        match self.pressure {
            Pressure::None => self.rcv_buffer,
            Pressure::Moderate => self.rcv_buffer.min(self.rcv_buffer_first),
            Pressure::High | Pressure::Full => {
                let few = WINDOW_UNDER_PRESSURE_SEGMENTS * u32::from(self.rcv_mss);
                self.rcv_buffer.min(few)
            }
        }
    }

    /// The right edge that the receive buffer affords now; never left of what was announced.
    #[inline]
    fn affordable_edge(&self) -> SeqNumber {
        let free = self
            .promised_buffer()
            .saturating_sub(self.queue.readable().len() as u32);
        self.rcv_edge.max(self.rcv_nxt + free)
    }

    /// Receiver's silly-window avoidance (RFC 9293 §3.8.6.2.2): a wider window is announced of
    /// itself only when it is wider by half the buffer, or by a segment where less than one fits.
    #[inline]
    fn should_announce_window(&self) -> bool {
        let gain = (self.affordable_edge() - self.rcv_edge) as u32;
        let left = (self.rcv_edge - self.rcv_nxt).max(0) as u32;
        let buffer = self.promised_buffer();
        let segment = u32::from(self.rcv_mss).min(buffer / 2);
        gain >= buffer / 2 || (left < segment && gain >= segment)
    }

    /// The program has taken `count` bytes, or they came and it has skipped them. Perhaps the window has opened so far that
    /// the peer should hear of it now, if it may still send.
    #[inline]
    pub fn consumed(&mut self, count: u32, receives: bool) {
        if let Some(tuning) = &mut self.tuning {
            tuning.taken = tuning.taken.saturating_add(count);
        }
        self.owe_window(receives);
    }

    /// Let the peer hear of a wider window, if it is worth it.
    #[inline]
    pub(super) fn owe_window(&mut self, receives: bool) {
        if receives && self.should_announce_window() {
            self.ack_owed = Owed::Now;
        }
    }

    /// The window field of a SYN is not scaled (RFC 7323 §2.2).
    pub fn syn_window(&self) -> u16 {
        self.rcv_buffer.min(u32::from(u16::MAX)) as u16
    }

    /// The window field of a segment that promises nothing new, and acknowledges up to `ack`.
    pub fn window_promised(&self, ack: SeqNumber) -> u16 {
        let window = (self.rcv_edge - ack).max(0) as u32 >> self.rcv_scale;
        window.min(u32::from(u16::MAX)) as u16
    }

    /// The window field, and the right edge that it promises.
    #[inline]
    pub fn announce_window(&mut self) -> u16 {
        let window = (self.affordable_edge() - self.rcv_nxt) as u32;
        let scale = self.rcv_scale;
        // Round down, unless that would take back what was promised (RFC 9293 §3.8.6); but not beyond
        // one step more than the buffer holds: rounding up with every segment would add up.
        let promised = (self.rcv_edge - self.rcv_nxt).max(0) as u32;
        let kept = promised.div_ceil(1 << scale);
        let free = i64::from(self.rcv_buffer_most) - self.queue.readable().len() as i64;
        let fits = i64::from(kept << scale) <= free + (1 << scale);
        let field = (window >> scale)
            .max(if fits { kept } else { 0 })
            .min(u32::from(u16::MAX));
        self.rcv_edge = if field == 0 {
            // Closed is closed: what rounding leaves, less than a step (RFC 7323 §2.4), would else be
            // taken byte by byte from the probes of a peer that was told of no room.
            self.rcv_nxt
        } else {
            self.rcv_edge.max(self.rcv_nxt + (field << scale))
        };
        field as u16
    }
}
