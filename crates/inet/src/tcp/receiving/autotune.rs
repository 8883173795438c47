//! How wide the receive window should be: as much as the program takes in two round trips.
//!
//! Dynamic right-sizing (Fisk and Feng 2001), as Linux has it: what the program took during a round
//! trip is what the path delivered, and the sender may double it in the next. So the buffer is twice
//! that, more while it still grows, up to a most that the program chooses; the window's scale follows
//! from that most. A program that reads slowly takes little, so its buffer stays as it is, whatever
//! the path could deliver.
//!
//! A receiver sees round trips in the timestamps that come back (RFC 7323 §4.1 measures the sender's;
//! data answers our acknowledgements as those answer data), or where there are none, in the time that a
//! window's worth of data takes: never less than a round trip.

use crate::limits::INITIAL_WINDOW_SEGMENTS;
use crate::tcp::receiving::receiver::Receiver;
use crate::tcp::receiving::tuning::Tuning;
use crate::tcp::shared::memory::Pressure;
use crate::time::Instant;
use exos_wire::tcp::Timestamps;

impl Receiver {
    /// `len` bytes have come in order, perhaps with an echo of our clock, which is `ts_offset` ahead of time: see whether
    /// the buffer should grow.
    #[inline]
    pub(super) fn tune(
        &mut self,
        stamp: Option<Timestamps>,
        ts_offset: u32,
        len: usize,
        now: Instant,
    ) {
        if self.rcv_buffer_limit > self.rcv_buffer_first {
            self.tune_growing(stamp, ts_offset, len, now);
        }
    }

    fn tune_growing(
        &mut self,
        stamp: Option<Timestamps>,
        ts_offset: u32,
        len: usize,
        now: Instant,
    ) {
        // Less than an initial window in all asks for nothing (`wanted`): a short request costs no memory.
        let received = self.rcv_nxt.0.wrapping_sub(self.irs.0);
        if self.tuning.is_none() && received < INITIAL_WINDOW_SEGMENTS * u32::from(self.rcv_mss) {
            return;
        }
        let mut tuning = self
            .tuning
            .take()
            .unwrap_or_else(|| Box::new(Tuning::new(now)));
        match stamp {
            Some(stamp) if len >= usize::from(self.rcv_mss) => {
                let shown = || (now.millis() as u32).wrapping_add(ts_offset);
                tuning.measure_by_echo(stamp.echo, shown);
            }
            Some(_) => {}
            None => tuning.measure_by_window(self.rcv_nxt, self.rcv_edge, now),
        }
        if tuning.round_is_over(now) {
            self.adjust_buffer(&mut tuning, now);
        }
        self.tuning = Some(tuning);
    }

    /// A round trip is over.
    #[cold]
    fn adjust_buffer(&mut self, tuning: &mut Tuning, now: Instant) {
        let taken = tuning.begin_round(now);
        if self.pressure != Pressure::None {
            // Others need the memory: back to what it was at first. What was promised stays so.
            self.rcv_buffer = self.rcv_buffer.min(self.rcv_buffer_first);
            tuning.space = 0;
            return;
        }
        if let Some(wanted) = tuning.wanted(taken, u32::from(self.rcv_mss)) {
            self.rcv_buffer = wanted.min(self.rcv_buffer_limit).max(self.rcv_buffer);
            self.rcv_buffer_most = self.rcv_buffer_most.max(self.rcv_buffer);
        }
    }

    /// Let this many bytes be received and not taken, from now on and whatever the path delivers. Never more than
    /// the window's scale, which was agreed on at the beginning, can tell. What was promised before
    /// stays promised.
    pub fn set_buffer(&mut self, bytes: u32, receives: bool) {
        let most = u32::from(u16::MAX) << self.rcv_scale;
        let bytes = bytes.clamp(u32::from(self.rcv_mss), most);
        (self.rcv_buffer, self.rcv_buffer_first) = (bytes, bytes);
        self.rcv_buffer_most = self.rcv_buffer_most.max(bytes);
        self.rcv_buffer_limit = bytes;
        self.owe_window(receives);
    }
}
