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

use exos_wire::SeqNumber;

use crate::limits::{INITIAL_WINDOW_SEGMENTS, RECEIVE_RESERVE_SEGMENTS};
use crate::tcp::memory::Pressure;
use crate::tcp::receiver::Receiver;
use crate::time::{Duration, Instant};
use exos_wire::tcp::Timestamps;

/// What is known of how fast data comes and is taken. Times are microseconds and come round after an hour,
/// which at worst puts an adjustment off.
#[derive(Copy, Clone, Debug, Default)]
pub(in crate::tcp) struct Tuning {
    /// A round trip, zero before the first.
    rtt: u32,
    /// When the round trip that is being looked at began.
    began: u32,
    /// Bytes that the program has taken in it.
    pub taken: u32,
    /// The most that it ever took in one.
    pub space: u32,
    /// Without timestamps: the sequence number that ends a window's worth of data, and its beginning.
    window_end: SeqNumber,
    window_began: u32,
    /// The last timestamp that was measured by.
    echo: u32,
}

impl Tuning {
    /// Nothing is known yet; the first round trip begins.
    fn new(now: Instant) -> Self {
        Self {
            began: clock(now),
            ..Self::default()
        }
    }

    /// The peer's data answers the acknowledgement that carried this timestamp, at the latest. The
    /// clock ticks in milliseconds: less than one cannot be told.
    fn measure_by_echo(&mut self, echo: u32, clock: u32) {
        self.echo = echo;
        let elapsed = clock.wrapping_sub(echo);
        // Nonsense otherwise: a round trip of a quarter of an hour, or a number that we never sent.
        if echo != 0 && elapsed < 1 << 20 {
            self.measured(elapsed.max(1) * 1000);
        }
    }

    /// The round trip as the receiver sees it.
    pub fn rtt(&self) -> Option<Duration> {
        (self.rtt > 0).then(|| Duration::from_micros(self.rtt.into()))
    }

    /// A round trip took so long. A shorter one is believed at once; longer ones may have waited for the
    /// peer's program.
    fn measured(&mut self, sample: u32) {
        self.rtt = if self.rtt == 0 || sample < self.rtt {
            sample.max(1)
        } else {
            self.rtt + (sample - self.rtt) / 8
        };
    }

    /// A round trip is over in which `taken` bytes were taken: the buffer that this asks for, if it is
    /// more than ever.
    fn wanted(&mut self, taken: u32, mss: u32) -> Option<u32> {
        let before = self.space.max(INITIAL_WINDOW_SEGMENTS * mss);
        if taken <= before {
            return None;
        }
        self.space = taken;
        let twice = 2 * u64::from(taken) + u64::from(RECEIVE_RESERVE_SEGMENTS * mss);
        // While it grows it will have grown once more before the next window can be told.
        let growth = twice * u64::from(taken - before) / u64::from(before);
        Some(u32::try_from(twice + 2 * growth).unwrap_or(u32::MAX))
    }
}

fn clock(now: Instant) -> u32 {
    now.micros() as u32
}

impl Receiver {
    /// `len` bytes have come in order, perhaps with a timestamp (of the peer's clock, and the echo of ours, which is `ts_offset` ahead of time): see whether the buffer
    /// should grow.
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
            Some(stamp) => {
                if stamp.echo != tuning.echo && len >= usize::from(self.rcv_mss) {
                    let clock = (now.millis() as u32).wrapping_add(ts_offset);
                    tuning.measure_by_echo(stamp.echo, clock);
                }
            }
            None => self.measure_by_window(&mut tuning, now),
        }
        if tuning.rtt > 0 && clock(now).wrapping_sub(tuning.began) >= tuning.rtt {
            self.adjust_buffer(&mut tuning, now);
        }
        self.tuning = Some(tuning);
    }

    fn measure_by_window(&self, tuning: &mut Tuning, now: Instant) {
        if self.rcv_nxt.lt(tuning.window_end) && tuning.window_began != 0 {
            return;
        }
        let took = clock(now).wrapping_sub(tuning.window_began);
        if tuning.window_began != 0 && (tuning.rtt == 0 || took < tuning.rtt) {
            tuning.measured(took);
        }
        tuning.window_began = clock(now).max(1);
        tuning.window_end = self.rcv_nxt + (self.rcv_edge - self.rcv_nxt).max(0) as u32;
    }

    /// A round trip is over.
    #[cold]
    fn adjust_buffer(&mut self, tuning: &mut Tuning, now: Instant) {
        tuning.began = clock(now);
        let taken = std::mem::take(&mut tuning.taken);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_is_twice_what_was_taken_and_more_while_that_grows() {
        let mut tuning = Tuning::default();
        // Within the initial window there is nothing to do.
        assert_eq!(tuning.wanted(14_000, 1448), None);
        // Twice as much: three times twice as much, for it doubles again on the way.
        let reserve = 16 * 1448;
        assert_eq!(tuning.wanted(28_960, 1448), Some(3 * (57_920 + reserve)));
        // Steady.
        assert_eq!(tuning.wanted(28_960, 1448), None);
        let slightly = tuning.wanted(29_000, 1448).expect("more than ever");
        assert!(slightly < 58_000 + reserve + 400, "{slightly}");
    }

    #[test]
    fn shorter_round_trips_are_believed_at_once() {
        let mut tuning = Tuning::default();
        let mut after = |sample| {
            tuning.measured(sample);
            tuning.rtt
        };
        assert_eq!(after(8000), 8000);
        assert_eq!(after(16_000), 9000);
        assert_eq!(after(2000), 2000);
    }
}
