//! All that concerns what is in flight: the scoreboard, what counts as lost, the episode of repairing, the pace.
//!
//! It exists only while the connection is at work ([`Flight`]): one at rest has no memory for it.

use std::ops::{Deref, DerefMut};

use exos_wire::SeqNumber;

use crate::tcp::sending::loss::rack::Rack;
use crate::tcp::sending::loss::repair::Repair;
use crate::tcp::sending::loss::scoreboard::board::Scoreboard;
use crate::tcp::sending::loss::scoreboard::record::Departure;
use crate::tcp::sending::pacing::Pacer;
use crate::time::Instant;

/// What the connection is about.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Phase {
    /// Nothing is wrong.
    Open,
    /// Reducing after a mark (RFC 3168): nothing was lost.
    Marked,
    /// Repairing losses that acknowledgements told of.
    Recovery,
    /// Repairing after the retransmission timer ran out.
    Timeout,
}

/// What the connection's timer is set for.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Timer {
    /// The retransmission timeout, or probing a closed window.
    Retransmit,
    /// A tail loss probe (RFC 8985 §7).
    Tail,
    /// Reordering has had its time (RFC 8985 §6.2).
    Reorder,
}

/// All that concerns what is in flight.
#[derive(Debug)]
pub struct Loss {
    /// What was sent.
    pub board: Scoreboard,
    /// What counts as lost.
    pub rack: Rack,
    /// The phase.
    pub phase: Phase,
    /// The window was reduced for a mark: the next new data says so (CWR).
    pub slowed_down: bool,
    /// The first lost segment leaves whatever the windows say: the timer ran out.
    pub forced: bool,
    /// A tail loss probe shall leave.
    pub tail_due: bool,
    /// Duplicate acknowledgements of a peer without SACK since the last advance.
    pub duplicates: u8,
    /// Each of them tells of a segment that has left the network; in bytes.
    pub left_network: u32,
    /// The window while repairing.
    pub window: u32,
    /// Behind the last number that was out when the episode began, or the last timeout.
    pub recover: SeqNumber,
    /// The round is over when this is acknowledged.
    pub round_end: SeqNumber,
    /// What is acknowledged up to here was sent while the window was full.
    pub limited_until: SeqNumber,
    /// The tail loss probe that is out: behind its last number, and whether it repeated data.
    pub tail: Option<(SeqNumber, bool)>,
    /// The episode.
    pub repair: Option<Box<Repair>>,
    /// Bytes delivered, modulo 2^32.
    pub delivered: u32,
    /// When the last were.
    pub delivered_at: Instant,
    /// When the first segment of the flight left that the last delivery ended.
    pub first_at: Instant,
    /// When the next data may leave.
    pub pacer: Pacer,
    /// The pace alone held data back when segments were last asked for; it may leave then.
    pub held_until: Instant,
    /// The program had no more to send until this many bytes are delivered.
    pub app_limited_until: Option<u32>,
    /// The last delivery rate measured, bytes a second.
    pub rate: u64,
    /// The program had too little to send then.
    pub rate_app_limited: bool,
    /// The algorithm has not heard of it.
    pub rate_is_new: bool,
    /// Nothing has left yet: this is an ended connection's memory, at hand for the first segment.
    unused: bool,
}

impl Loss {
    /// Nothing is in flight; the next number is `una`.
    const fn new(una: SeqNumber, now: Instant) -> Self {
        Self {
            board: Scoreboard::new(una),
            rack: Rack::new(),
            phase: Phase::Open,
            slowed_down: false,
            forced: false,
            tail_due: false,
            duplicates: 0,
            left_network: 0,
            window: 0,
            recover: SeqNumber(una.0.wrapping_sub(1)),
            round_end: una,
            limited_until: una,
            tail: None,
            repair: None,
            delivered: 0,
            delivered_at: now,
            first_at: now,
            pacer: Pacer::new(),
            held_until: Instant::NEVER,
            app_limited_until: None,
            rate: 0,
            rate_app_limited: false,
            rate_is_new: false,
            unused: false,
        }
    }

    /// As [`Self::new`], but with the memory of the scoreboard; false when that is more than is worth keeping.
    fn renew(&mut self) -> bool {
        let una = SeqNumber(0);
        let board = std::mem::replace(&mut self.board, Scoreboard::new(una));
        *self = Self {
            board,
            unused: true,
            ..Self::new(una, Instant::START)
        };
        self.board.renew(una)
    }

    /// What [`Self::new`] makes of these two, of one that is as new.
    fn begin(&mut self, una: SeqNumber, now: Instant) {
        self.unused = false;
        self.board.renew(una);
        self.recover = SeqNumber(una.0.wrapping_sub(1));
        (self.round_end, self.limited_until) = (una, una);
        (self.delivered_at, self.first_at) = (now, now);
    }

    /// Bytes in the network, as far as can be told (RFC 6675 §4).
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.board.in_flight().saturating_sub(self.left_network)
    }

    /// A segment leaves now.
    #[inline]
    pub fn departure(&mut self, now: Instant) -> Departure {
        debug_assert!(!self.unused, "`Flight::begin` comes first");
        if self.board.outstanding() == 0 {
            (self.first_at, self.delivered_at) = (now, now);
        }
        self.departure_in_flight(now)
    }

    /// What is noted of a segment that leaves now, where something is in flight already.
    #[inline]
    pub fn departure_in_flight(&self, now: Instant) -> Departure {
        let since = |at: Instant| (now.micros() - at.micros().min(now.micros())) as u32;
        Departure {
            at: now,
            delivered: self.delivered,
            since_delivery_us: since(self.delivered_at),
            since_first_us: since(self.first_at),
            app_limited: self.app_limited_until.is_some(),
        }
    }

    /// True while losses are being repaired.
    pub const fn is_repairing(&self) -> bool {
        matches!(self.phase, Phase::Recovery | Phase::Timeout)
    }
}

/// [`Loss`] of a connection that has sent something lately; at rest it reads as nothing in flight, and
/// nothing may be written to it.
#[derive(Debug, Default)]
pub struct Flight(Option<Box<Loss>>);

static AT_REST: Loss = Loss::new(SeqNumber(0), Instant::START);

impl Flight {
    /// Something is about to leave.
    #[inline]
    pub fn begin(&mut self, una: SeqNumber, now: Instant) {
        if self.at_work().is_none() {
            self.begin_anew(una, now);
        }
    }

    #[inline(never)]
    fn begin_anew(&mut self, una: SeqNumber, now: Instant) {
        match &mut self.0 {
            None => self.0 = Some(Box::new(Loss::new(una, now))),
            Some(loss) if loss.unused => loss.begin(una, now),
            Some(_) => {}
        }
    }

    /// Segments are asked for: nothing is held back yet.
    #[inline]
    pub fn release(&mut self) {
        if let Some(loss) = &mut self.0 {
            loss.held_until = Instant::NEVER;
        }
    }

    /// What is in flight, if something has been lately.
    #[inline]
    pub fn at_work(&self) -> Option<&Loss> {
        self.0.as_deref().filter(|loss| !loss.unused)
    }

    /// Something has been in flight lately, or will be soon: memory is held for it.
    pub const fn is_at_work(&self) -> bool {
        self.0.is_some()
    }

    /// The memory of an ended connection, for the first segment of this one.
    pub(in crate::tcp) fn reuse(&mut self, room: Box<Loss>) {
        debug_assert!(room.unused && self.0.is_none());
        self.0 = Some(room);
    }

    /// The connection has ended: its memory, if there is any that is worth keeping.
    pub(in crate::tcp) fn recycle(&mut self) -> Option<Box<Loss>> {
        let mut loss = self.0.take()?;
        loss.renew().then_some(loss)
    }

    /// The peer's window has been closed for a while.
    pub fn slim(&mut self) {
        if let Some(loss) = &mut self.0 {
            loss.board.slim();
        }
    }

    /// Nothing has been in flight for a while.
    pub fn rest(&mut self) {
        self.0 = None;
    }
}

impl Deref for Flight {
    type Target = Loss;
    #[inline]
    fn deref(&self) -> &Loss {
        self.0.as_deref().unwrap_or(&AT_REST)
    }
}

impl DerefMut for Flight {
    #[inline]
    fn deref_mut(&mut self) -> &mut Loss {
        self.0.as_deref_mut().expect("something is in flight")
    }
}
