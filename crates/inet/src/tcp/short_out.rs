//! The short way out: new data, or an acknowledgement, of a connection on which nothing is wrong.
//!
//! The general way (`output`) asks one after the other whether there is a SYN to send, something lost, a probe,
//! data, an acknowledgement. Here one look shows that all that there can be is the next segment of new data or an
//! acknowledgement, whose header has timestamps and no other option. Whatever differs in anything is left
//! to the general way, and is left as it was.
//!
//! Rule: as `short_in`'s. What leaves this way is what the general way would have sent, and leaves the connection
//! in the same state.

use std::num::NonZeroU64;

use exos_wire::SeqNumber;
use exos_wire::tcp::{TcpFlags, Timestamps};

use super::connection::{Connection, NEVER, Owed};
use super::ip::IpFields;
use super::loss::{Loss, Phase, Timer};
use super::memory::Pressure;
use super::short_ways::Way;
use super::slab::ConnectionId;
use super::state::State;
use super::{Outgoing, Tcp};
use crate::limits::{RTO_VARIATION_MIN, SEGMENTS_PER_TURN};
use crate::time::Instant;

/// A segment whose header has timestamps and no other option.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Plain {
    pub seq: SeqNumber,
    pub ack: SeqNumber,
    pub flags: TcpFlags,
    pub window: u16,
    pub timestamps: Timestamps,
    /// Where in the send queue its data begins, and how much it is.
    pub start: usize,
    pub len: usize,
    pub ect: bool,
    pub ip: IpFields,
}

impl Plain {
    /// The same segment, if it is one.
    #[inline]
    pub fn of(segment: &Outgoing) -> Option<Self> {
        let options = &segment.options;
        let others = options.mss.is_some()
            | options.window_scale.is_some()
            | options.sack_permitted
            | !options.sack.is_empty()
            | options.fast_open.is_some()
            | options.user_timeout.is_some();
        let timestamps = options.timestamps.filter(|_| !others)?;
        Some(Self {
            seq: segment.seq,
            ack: segment.ack,
            flags: segment.flags,
            window: segment.window,
            timestamps,
            start: segment.data.start,
            len: segment.data.len(),
            ect: segment.ect,
            ip: segment.ip,
        })
    }
}

/// What the connection that has its turn has to send.
pub(crate) enum Next {
    /// This.
    Segment(ConnectionId, Plain),
    /// No connection has anything to send now.
    Nothing,
    /// The general way must look.
    General,
}

/// The same of one connection.
enum Step {
    Segment(Plain),
    Nothing,
    General,
}

impl Tcp {
    /// The next segment, if it can go the short way. `data_max` is as for `Connection::poll_segment`; a path
    /// that was looked up is good if it is of this `generation`.
    #[inline]
    pub(crate) fn poll_short(
        &mut self,
        now: Instant,
        data_max: u32,
        generation: NonZeroU64,
    ) -> Next {
        if let Some(next) = self.next_of_run(now, data_max, generation) {
            return next;
        }
        let pressure = self.memory.pressure();
        loop {
            let Some(&id) = self.sending.front() else {
                return Next::Nothing;
            };
            let Some(entry) = self.slab.entry_mut(id) else {
                return Next::General;
            };
            let c = &mut entry.connection;
            let may = self.short_ways && pressure == Pressure::None && !entry.closed;
            if !may || !c.is_calm(generation) {
                return Next::General;
            }
            c.pressure = pressure;
            let step = c.poll_plain(now, data_max);
            let segment = match step {
                Step::General => return Next::General,
                Step::Segment(plain) => Some(plain),
                Step::Nothing => None,
            };
            if segment.is_none() || !c.wants_to_send() {
                entry.sending = false;
                let at = c.timer_deadline();
                if at < entry.armed {
                    entry.armed = at;
                    self.wheel.arm(at, id);
                }
                self.sending.pop_front();
                self.turn = 0;
            } else {
                self.turn += 1;
                if self.turn >= SEGMENTS_PER_TURN {
                    self.next_turn(Some(id));
                }
                if let Some(plain) = segment {
                    self.begin_run(now, id, (data_max, generation), plain);
                }
            }
            if let Some(plain) = segment {
                self.taken.count(Way::Out);
                return Next::Segment(id, plain);
            }
        }
    }
}

impl Connection {
    /// There is nothing to send but new data and acknowledgements, and the way is known.
    #[inline]
    fn is_calm(&self, generation: NonZeroU64) -> bool {
        let troubled = self.probe
            | self.probing
            | self.ecn_echo
            | self.finishing
            | (self.duplicates_owed > 0)
            | (self.retries > 0);
        !troubled
            && !self.counts()
            && self.state == State::Established
            && self.timestamps
            && self.receive.beyond().is_none()
            && self.mtu.is_none()
            && self.path.is_some_and(|p| p.generation == generation)
            && self.loss.at_work().is_none_or(Loss::is_calm)
    }

    #[inline]
    fn poll_plain(&mut self, now: Instant, data_max: u32) -> Step {
        if self.is_stretched() {
            return Step::General;
        }
        self.loss.release();
        let unsent = (self.send_end() - self.snd_max).max(0) as u32;
        if unsent > 0 {
            match self.new_data(now, unsent, data_max) {
                None => return Step::General,
                Some(0) => {}
                Some(len) => return Step::Segment(self.plain_data(now, len)),
            }
        }
        if self.ack_owed != Owed::Now {
            return Step::Nothing;
        }
        let at = self.send.len();
        Step::Segment(self.plain(now, at, 0))
    }

    /// How much new data may leave in one segment now; `None` where only the general way can tell.
    #[inline]
    fn new_data(&mut self, now: Instant, unsent: u32, data_max: u32) -> Option<u32> {
        const LEAST_US: u64 = RTO_VARIATION_MIN.as_micros() as u64;
        let (flight, mss) = (self.flight(), u32::from(self.mss));
        let rested = now.micros().saturating_sub(self.last_sent.micros()) > LEAST_US;
        let several = unsent > mss && data_max >= 2 * mss;
        let loss = self.loss.at_work()?;
        if (flight == 0 && rested) || several || loss.pacer.wait(now).is_some() {
            return None;
        }
        let usable = self.usable_window(flight, unsent);
        let len = unsent.min(usable).min(mss);
        if len < mss && !self.is_worth_sending(len, unsent, flight) {
            // With nothing in flight a timer is to be set.
            return (flight > 0).then_some(0);
        }
        if len == unsent {
            self.nothing_more();
        }
        Some(len)
    }

    /// The next `len` bytes leave.
    #[inline]
    fn plain_data(&mut self, now: Instant, len: u32) -> Plain {
        let start = (self.snd_max - self.snd_una) as usize;
        let plain = self.plain(now, start, len);
        let end = self.snd_max + len;
        self.last_sent = now;
        let loss = &mut *self.loss;
        let departure = loss.departure(now);
        loss.board.sent(end, departure);
        if let Some(repair) = &mut loss.repair {
            repair.left(len);
        }
        loss.pacer.left(now, len);
        (self.snd_max, self.snd_nxt) = (end, end);
        if self.retransmit_at == NEVER || self.timer == Timer::Tail {
            self.set_loss_timer(now);
        }
        plain
    }

    /// The values of the segment, and what it says to the peer is said.
    #[inline]
    fn plain(&mut self, now: Instant, start: usize, len: u32) -> Plain {
        let len_bytes = len as usize;
        let mut flags = TcpFlags::ACK;
        if len > 0 && start + len_bytes == self.send.len() {
            flags = TcpFlags(flags.0 | TcpFlags::PSH.0);
        }
        let window = self.announce_window();
        self.acknowledged(len > 0);
        self.ack_owed = Owed::Nothing;
        self.ack_at = NEVER;
        self.last_ack_sent = self.rcv_nxt;
        Plain {
            seq: self.snd_max,
            ack: self.rcv_nxt,
            flags,
            window,
            timestamps: self.timestamps_now(now),
            start,
            len: len_bytes,
            ect: self.ecn && len > 0,
            ip: self.ip,
        }
    }
}

impl Loss {
    /// Nothing is lost, being repaired, or to be probed for.
    #[inline]
    fn is_calm(&self) -> bool {
        self.phase == Phase::Open
            && self.board.lost_bytes() == 0
            && !self.tail_due
            && !self.slowed_down
    }
}
