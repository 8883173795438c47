//! A run of segments: what was decided for one segment of new data holds for those behind it.
//!
//! Where the windows and the queue have room for several full segments, all of them leave at the same time, with the
//! same acknowledgement, window and timestamps, one behind the other, and none of the questions of `short_out` has another
//! answer for the second than for the first. So they are asked once, and the answer is kept with how many more
//! segments it is good for.
//!
//! Rules: a run is good for one instant, and only while no control block has been asked for to be changed
//! ([`Slab::changes`](crate::tcp::slab::Slab::changes)) and memory is not pressed. It never includes the last of the data,
//! which is marked PSH and may tell that the program has no more; nor any of a connection that is paced or repairs
//! something.
//! A segment of a run leaves the connection as `short_out` would have.

use std::num::NonZeroU64;

use crate::limits::SEGMENTS_PER_TURN;
use crate::tcp::Tcp;
use crate::tcp::connection::Connection;
use crate::tcp::loss::{Departure, Timer};
use crate::tcp::memory::Pressure;
use crate::tcp::short_out::Plain;
use crate::tcp::short_ways::Way;
use crate::tcp::slab::ConnectionId;
use crate::time::Instant;

/// The segment that leaves, or has left last, the short way; and what is known of those behind it.
pub(crate) struct Leaving {
    /// Whose it is.
    pub id: ConnectionId,
    /// Its values.
    pub plain: Plain,
    /// This many full segments more may leave as it did, where the rest holds.
    alike: u32,
    now: Instant,
    data_max: u32,
    generation: NonZeroU64,
    /// What [`Slab::changes`](crate::tcp::slab::Slab::changes) said when it left.
    changes: u64,
    departure: Departure,
}

impl Leaving {
    pub(in crate::tcp) const NOTHING: Self = Self {
        id: ConnectionId::NONE,
        plain: Plain::EMPTY,
        alike: 0,
        now: Instant::START,
        data_max: 0,
        generation: NonZeroU64::MIN,
        changes: 0,
        departure: Departure::NONE,
    };

    /// Its values have just been set; find out how many may follow it.
    #[inline]
    pub(in crate::tcp) fn begin_run(
        &mut self,
        c: &Connection,
        now: Instant,
        (data_max, generation, changes): (u32, NonZeroU64, u64),
    ) {
        self.alike = c.segments_alike(&self.plain);
        if self.alike > 0 {
            self.departure = c.loss.departure_in_flight(now);
            (self.now, self.data_max) = (now, data_max);
            (self.generation, self.changes) = (generation, changes);
        }
    }

    /// None may follow it.
    #[inline]
    pub(in crate::tcp) fn end_run(&mut self) {
        self.alike = 0;
    }
}

impl Tcp {
    /// The segment that leaves now, the short way.
    #[inline]
    pub(crate) fn leaving(&self) -> &Leaving {
        &self.leaving
    }

    /// True when [`Self::leaving`] is the next segment of a run.
    #[inline]
    pub(in crate::tcp) fn next_of_run(
        &mut self,
        now: Instant,
        data_max: u32,
        generation: NonZeroU64,
    ) -> bool {
        let last = &mut self.leaving;
        if last.alike == 0 {
            return false;
        }
        let holds = last.now == now
            && last.changes == self.slab.changes()
            && last.generation == generation
            && last.data_max == data_max
            && self.memory.pressure() == Pressure::None
            && self.sending.front() == Some(&last.id);
        let connection = self.slab.get_unnoticed(last.id).filter(|_| holds);
        let Some(c) = connection else {
            last.end_run();
            return false;
        };
        last.alike -= 1;
        last.plain.seq += last.plain.len as u32;
        last.plain.start += last.plain.len;
        c.leaves_in_run(now, &last.plain, last.departure);
        self.taken.count(Way::Run);
        self.turn += 1;
        if self.turn >= SEGMENTS_PER_TURN {
            self.next_turn(Some(self.leaving.id));
        }
        true
    }
}

impl Connection {
    /// How many full segments may follow the one that has just left.
    #[inline]
    fn segments_alike(&self, last: &Plain) -> u32 {
        let mss = u32::from(self.mss);
        if last.len != usize::from(self.mss) || last.window == 0 {
            return 0;
        }
        let loss = &*self.loss;
        if loss.pacer.rate() != 0 || loss.repair.is_some() {
            return 0;
        }
        let unsent = (self.send_end() - self.snd_max).max(0) as u32;
        let window = self.congestion_window().saturating_sub(loss.in_flight());
        let room = window.min(self.snd_wnd.saturating_sub(self.flight()));
        // The last byte stays for a segment that is not like the others.
        room.min(unsent.saturating_sub(1)) / mss
    }

    #[inline]
    fn leaves_in_run(&mut self, now: Instant, plain: &Plain, departure: Departure) {
        debug_assert_eq!(plain.seq, self.snd_max, "nothing else has left");
        let end = self.snd_max + plain.len as u32;
        (self.snd_max, self.snd_nxt) = (end, end);
        self.loss.board.sent(end, departure);
        if self.timer == Timer::Tail && self.loss.board.outstanding() <= 2 * plain.len as u32 {
            // For a single segment in flight a probe waits longer (RFC 8985 §7.2): it no longer is.
            self.set_loss_timer(now);
        }
    }
}
