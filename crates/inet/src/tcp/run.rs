//! A run of segments: what was decided for one segment of new data holds for those behind it.
//!
//! Where the windows and the queue have room for several full segments, all of them leave at the same time, with the
//! same acknowledgement, window and timestamps, one behind the other, and none of the questions of `short_out` has another
//! answer for the second than for the first. So they are asked once, and the answer is kept with how many more
//! segments it is good for.
//!
//! Rules: a run is good for one instant, and only while no control block has been asked for to be changed
//! ([`Slab::changes`](super::slab::Slab::changes)) and memory is not pressed. It never includes the last of the data,
//! which is marked PSH and may tell that the program has no more; nor any of a connection that is paced or repairs
//! something.
//! A segment of a run leaves the connection as `short_out` would have.

use std::num::NonZeroU64;

use super::connection::Connection;
use super::loss::{Departure, Timer};
use super::memory::Pressure;
use super::short_out::Plain;
use super::short_ways::Way;
use super::slab::ConnectionId;
use super::{Next, Tcp};
use crate::limits::SEGMENTS_PER_TURN;
use crate::time::Instant;

/// What is known of the next segments of one connection.
pub(super) struct Run {
    id: ConnectionId,
    now: Instant,
    data_max: u32,
    generation: NonZeroU64,
    /// What [`Slab::changes`](super::slab::Slab::changes) said when the run began.
    changes: u64,
    /// So many more full segments.
    left: u32,
    /// The last of them.
    plain: Plain,
    departure: Departure,
}

impl Tcp {
    /// A segment has just been decided on; those behind it may be too.
    #[inline]
    pub(super) fn begin_run(
        &mut self,
        now: Instant,
        id: ConnectionId,
        (data_max, generation): (u32, NonZeroU64),
        plain: Plain,
    ) {
        let Some(c) = self.slab.get(id) else { return };
        if let Some((left, departure)) = c.segments_alike(now, &plain) {
            self.run = Some(Run {
                id,
                now,
                data_max,
                generation,
                changes: self.slab.changes(),
                left,
                plain,
                departure,
            });
        }
    }

    /// The next segment of the run, if there is one and it still holds.
    #[inline]
    pub(super) fn next_of_run(
        &mut self,
        now: Instant,
        data_max: u32,
        generation: NonZeroU64,
    ) -> Option<Next> {
        let run = self.run.as_mut()?;
        let holds = run.left > 0
            && run.now == now
            && run.changes == self.slab.changes()
            && run.generation == generation
            && run.data_max == data_max
            && self.memory.pressure() == Pressure::None
            && self.sending.front() == Some(&run.id);
        if !holds {
            self.run = None;
            return None;
        }
        let (id, len) = (run.id, run.plain.len);
        run.left -= 1;
        run.plain.seq += len as u32;
        run.plain.start += len;
        let (plain, departure) = (run.plain, run.departure);
        let c = self.slab.get_unnoticed(id)?;
        c.leaves_in_run(now, &plain, departure);
        self.taken.count(Way::Run);
        self.turn += 1;
        if self.turn >= SEGMENTS_PER_TURN {
            self.next_turn(Some(id));
        }
        Some(Next::Segment(id, plain))
    }
}

impl Connection {
    /// How many full segments may follow the one that has just left, and what is noted of them as they leave.
    #[inline]
    fn segments_alike(&self, now: Instant, last: &Plain) -> Option<(u32, Departure)> {
        let mss = u32::from(self.mss);
        let loss = self.loss.at_work()?;
        let usual = last.len == usize::from(self.mss)
            && last.window > 0
            && loss.pacer.rate() == 0
            && loss.repair.is_none();
        if !usual {
            return None;
        }
        let unsent = (self.send_end() - self.snd_max).max(0) as u32;
        let window = self.congestion_window().saturating_sub(loss.in_flight());
        let room = window.min(self.snd_wnd.saturating_sub(self.flight()));
        // The last byte stays for a segment that is not like the others.
        let left = room.min(unsent.saturating_sub(1)) / mss;
        (left > 0).then(|| (left, loss.departure_in_flight(now)))
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
