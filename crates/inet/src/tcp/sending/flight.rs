//! What exists only while a connection is at work: what is in flight, how fast it goes. One at rest has no memory for it.

use std::ops::{Deref, DerefMut};

use exos_wire::SeqNumber;

use crate::tcp::sending::pacing::Pacer;
use crate::tcp::sending::recovery::losses::Losses;
use crate::tcp::sending::recovery::scoreboard::record::Departure;
use crate::tcp::sending::rounds::Rounds;
use crate::time::Instant;

/// All that concerns what is in flight. Each part has its state to itself.
#[derive(Debug)]
pub(in crate::tcp) struct InFlight {
    /// What was sent, and what of it is lost.
    pub(super) losses: Losses,
    /// Round trips, and how fast data is delivered.
    pub(super) rounds: Rounds,
    /// When the next data may leave.
    pub(super) pacer: Pacer,
    /// Nothing has left yet: this is an ended connection's memory, at hand for the first segment.
    unused: bool,
}

impl InFlight {
    /// Nothing is in flight; the next number is `una`.
    const fn new(una: SeqNumber, now: Instant) -> Self {
        Self {
            losses: Losses::new(una),
            rounds: Rounds::new(una, now),
            pacer: Pacer::new(),
            unused: false,
        }
    }

    /// As [`Self::new`], but with the memory of the scoreboard; false when that is more than is worth keeping.
    fn renew(&mut self) -> bool {
        self.rounds = Rounds::new(SeqNumber(0), Instant::START);
        self.pacer = Pacer::new();
        self.unused = true;
        self.losses.renew()
    }

    /// What [`Self::new`] makes of these two, of one that is as new.
    fn begin(&mut self, una: SeqNumber, now: Instant) {
        self.unused = false;
        self.losses.begin(una);
        self.rounds = Rounds::new(una, now);
    }

    /// A segment leaves now.
    #[inline]
    pub(super) fn departure(&mut self, now: Instant) -> Departure {
        debug_assert!(!self.unused, "`Flight::begin` comes first");
        let first = self.losses.board().outstanding() == 0;
        self.rounds.departure(now, first)
    }
}

/// [`InFlight`] of a connection that has sent something lately; at rest it reads as nothing in flight, and
/// nothing may be written to it.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Flight(Option<Box<InFlight>>);

static AT_REST: InFlight = InFlight::new(SeqNumber(0), Instant::START);

impl Flight {
    /// Something is about to leave.
    #[inline]
    pub fn begin(&mut self, una: SeqNumber, now: Instant) {
        if self.at_work().is_none() {
            self.begin_at_rest(una, now);
        }
    }

    #[inline(never)]
    fn begin_at_rest(&mut self, una: SeqNumber, now: Instant) {
        match &mut self.0 {
            None => self.0 = Some(Box::new(InFlight::new(una, now))),
            Some(flight) if flight.unused => flight.begin(una, now),
            Some(_) => {}
        }
    }

    /// Segments are asked for: nothing is held back yet.
    #[inline]
    pub fn release(&mut self) {
        if let Some(flight) = &mut self.0 {
            flight.pacer.release();
        }
    }

    /// What is in flight, if something has been lately.
    #[inline]
    pub fn at_work(&self) -> Option<&InFlight> {
        self.0.as_deref().filter(|flight| !flight.unused)
    }

    /// Something has been in flight lately, or will be soon: memory is held for it.
    pub const fn is_at_work(&self) -> bool {
        self.0.is_some()
    }

    /// Take the memory of an ended connection, for the first segment of this one.
    pub fn reuse(&mut self, room: Box<InFlight>) {
        debug_assert!(room.unused && self.0.is_none());
        self.0 = Some(room);
    }

    /// The connection has ended: its memory, if there is any that is worth keeping.
    pub fn recycle(&mut self) -> Option<Box<InFlight>> {
        let mut flight = self.0.take()?;
        flight.renew().then_some(flight)
    }

    /// The peer's window has been closed for a while: little memory is needed.
    pub fn slim(&mut self) {
        if let Some(flight) = &mut self.0 {
            flight.losses.slim();
        }
    }

    /// Nothing has been in flight for a while: give the memory back.
    pub fn rest(&mut self) {
        self.0 = None;
    }
}

impl Deref for Flight {
    type Target = InFlight;
    #[inline]
    fn deref(&self) -> &InFlight {
        self.0.as_deref().unwrap_or(&AT_REST)
    }
}

impl DerefMut for Flight {
    #[inline]
    fn deref_mut(&mut self) -> &mut InFlight {
        self.0.as_deref_mut().expect("something is in flight")
    }
}
