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
use exos_wire::tcp::Timestamps;

use crate::limits::INITIAL_WINDOW_SEGMENTS;
use crate::tcp::receiving::tuning::Tuning;
use crate::time::{Duration, Instant};

/// Data that has come in order.
#[derive(Copy, Clone)]
pub(super) struct Came {
    /// Bytes of it.
    pub len: usize,
    /// Bytes since the beginning.
    pub in_all: u32,
    /// Up to here.
    pub next: SeqNumber,
    /// The window ends here.
    pub edge: SeqNumber,
    /// The peer's full-sized segments.
    pub mss: u16,
    /// What echoes our clock, which is `ts_offset` ahead of time.
    pub stamp: Option<Timestamps>,
    pub ts_offset: u32,
}

/// How fast data comes and is taken, while it does.
#[derive(Default)]
pub(super) struct Autotune(Option<Box<Tuning>>);

impl Autotune {
    /// Take note of data. Gives how much the program has taken, when a round trip is over.
    pub fn note(&mut self, came: Came, now: Instant) -> Option<u32> {
        // Less than an initial window in all asks for nothing (`wanted`): a short request costs no memory.
        if self.0.is_none() && came.in_all < INITIAL_WINDOW_SEGMENTS * u32::from(came.mss) {
            return None;
        }
        let tuning = self.0.get_or_insert_with(|| Box::new(Tuning::new(now)));
        match came.stamp {
            Some(stamp) if came.len >= usize::from(came.mss) => {
                let shown = || (now.millis() as u32).wrapping_add(came.ts_offset);
                tuning.measure_by_echo(stamp.echo, shown);
            }
            Some(_) => {}
            None => tuning.measure_by_window(came.next, came.edge, now),
        }
        tuning.round_is_over(now).then(|| tuning.begin_round(now))
    }

    /// The buffer that `taken` bytes in a round trip ask for, if it is more than ever.
    pub fn wanted(&mut self, taken: u32, mss: u16) -> Option<u32> {
        self.0.as_mut()?.wanted(taken, u32::from(mss))
    }

    /// Begin again with a small buffer.
    pub fn shrink(&mut self) {
        if let Some(tuning) = &mut self.0 {
            tuning.forget_space();
        }
    }

    /// The program has taken this many bytes.
    #[inline]
    pub fn taken(&mut self, count: u32) {
        if let Some(tuning) = &mut self.0 {
            tuning.taken(count);
        }
    }

    /// Nothing has come for long: give the memory back.
    pub fn rest(&mut self) {
        self.0 = None;
    }

    /// Data has come lately.
    #[inline]
    pub fn is_at_work(&self) -> bool {
        self.0.is_some()
    }

    /// The most that the program has taken in a round trip.
    pub fn space(&self) -> u32 {
        self.0.as_ref().map_or(0, |t| t.space())
    }

    /// The round trip as the receiver sees it.
    pub fn rtt(&self) -> Option<Duration> {
        self.0.as_ref()?.rtt()
    }
}
