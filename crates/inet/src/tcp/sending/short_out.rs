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
use exos_wire::tcp::{TcpFlags, TcpOptions, Timestamps};

use crate::limits::{CUT_MSS_MIN, RTO_VARIATION_MIN, SEGMENTS_PER_TURN};
use crate::tcp::connection::{Connection, NEVER, Owed};
use crate::tcp::ip::IpFields;
use crate::tcp::loss::{Loss, Phase, Timer};
use crate::tcp::memory::Pressure;
use crate::tcp::short_ways::Way;
use crate::tcp::slab::ConnectionId;
use crate::tcp::{Outgoing, Reply, Tcp};
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
    /// That of no connection.
    pub const EMPTY: Self = Self {
        seq: SeqNumber(0),
        ack: SeqNumber(0),
        flags: TcpFlags::ACK,
        window: 0,
        timestamps: Timestamps { value: 0, echo: 0 },
        start: 0,
        len: 0,
        ect: false,
        ip: IpFields::DEFAULT,
    };

    /// The same answer, if it is one.
    #[inline]
    pub fn of_reply(reply: &Reply) -> Option<Self> {
        Some(Self {
            seq: reply.seq,
            ack: reply.ack,
            flags: reply.flags,
            window: reply.window,
            timestamps: timestamps_alone(&reply.options)?,
            ..Self::EMPTY
        })
    }

    /// The same segment, if it is one.
    #[inline]
    pub fn of(segment: &Outgoing) -> Option<Self> {
        let timestamps = timestamps_alone(&segment.options)?;
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

/// Timestamps, where there is no other option.
#[inline]
fn timestamps_alone(options: &TcpOptions) -> Option<Timestamps> {
    let others = options.mss.is_some()
        | options.window_scale.is_some()
        | options.sack_permitted
        | !options.sack.is_empty()
        | options.fast_open.is_some()
        | options.user_timeout.is_some();
    options.timestamps.filter(|_| !others)
}

/// What there is to send next.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    /// The segment that [`Tcp::leaving`] tells.
    Segment,
    /// The same; it differs from the one before it, which left this way too, in its number and its data alone.
    Alike,
    /// A SYN-ACK, from [`Tcp::poll_syn_ack`].
    SynAck,
    /// No connection has anything to send now.
    Nothing,
    /// The general way must look.
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
        if self.next_of_run(now, data_max, generation) {
            return Next::Alike;
        }
        if self.memory.pressure() != Pressure::None || !self.short_ways {
            return Next::General;
        }
        loop {
            let Some(&id) = self.sending.front() else {
                return Next::Nothing;
            };
            match self.poll_first(now, id, (data_max, generation)) {
                Next::Nothing => {}
                Next::Segment => {
                    self.taken.count(Way::Out);
                    return Next::Segment;
                }
                other => return other,
            }
        }
    }

    /// What the first of those with something to send has; it has left the queue if that is all.
    #[inline(always)]
    fn poll_first(
        &mut self,
        now: Instant,
        id: ConnectionId,
        (data_max, generation): (u32, NonZeroU64),
    ) -> Next {
        let Some((entry, changes)) = self.slab.entry_and_changes(id) else {
            return Next::General;
        };
        let c = &mut entry.connection;
        if entry.closed || !c.is_calm(generation) {
            return match !entry.closed && c.answers_first_syn() {
                true => Next::SynAck,
                false => Next::General,
            };
        }
        c.pressure = Pressure::None;
        let last = &mut self.leaving;
        let next = c.poll_plain(now, data_max, &mut last.plain);
        if next == Next::General {
            return next;
        }
        last.id = id;
        if next == Next::Nothing || !c.wants_to_send() {
            last.end_run();
            self.rest_from_sending(id);
        } else {
            last.begin_run(c, now, (data_max, generation, changes));
            self.turn += 1;
            if self.turn >= SEGMENTS_PER_TURN {
                self.next_turn(Some(id));
            }
        }
        next
    }

    /// The first connection of those with something to send has no more.
    #[inline]
    pub(in crate::tcp) fn rest_from_sending(&mut self, id: ConnectionId) {
        if let Some(entry) = self.slab.entry_mut(id) {
            entry.sending = false;
            let at = entry.connection.timer_deadline();
            if at < entry.armed {
                entry.armed = at;
                self.wheel.arm(at, id);
            }
        }
        self.sending.pop_front();
        self.turn = 0;
    }
}

impl Connection {
    /// There is nothing to send but new data and acknowledgements, and the way is known.
    #[inline]
    fn is_calm(&self, generation: NonZeroU64) -> bool {
        let troubled = self.probe
            | self.probing
            | self.ecn_echo
            | (self.duplicates_owed > 0)
            | (self.retries > 0);
        !troubled
            && self.state.is_synchronized()
            && self.timestamps
            && self.receive.beyond().is_none()
            && self.mtu.is_none()
            && self.path.is_some_and(|p| p.generation == generation)
            && self.loss.at_work().is_none_or(Loss::is_calm)
    }

    /// The next segment, into `plain`.
    #[inline]
    fn poll_plain(&mut self, now: Instant, data_max: u32, plain: &mut Plain) -> Next {
        if self.is_stretched() {
            return Next::General;
        }
        self.loss.release();
        let ahead = self.send_end() - self.snd_max;
        if ahead > 0 || (ahead == 0 && self.fin_is_due()) {
            match self.new_data(now, ahead as u32, data_max) {
                None => return Next::General,
                Some((0, false)) => {}
                Some((len, fin)) => {
                    let start = (self.snd_max - self.snd_una) as usize;
                    self.plain(now, start, (len, fin), plain);
                    self.data_leaves(now, len + u32::from(fin));
                    return Next::Segment;
                }
            }
        }
        if self.ack_owed != Owed::Now {
            return Next::Nothing;
        }
        self.plain(now, self.send.len(), (0, false), plain);
        Next::Segment
    }

    /// How much new data may leave in one segment now, and whether the FIN does; `None` where only the general way
    /// can tell.
    #[inline]
    fn new_data(&mut self, now: Instant, unsent: u32, data_max: u32) -> Option<(u32, bool)> {
        const LEAST_US: u64 = RTO_VARIATION_MIN.as_micros() as u64;
        let (flight, mss) = (self.flight(), u32::from(self.mss));
        let rested = now.micros().saturating_sub(self.last_sent.micros()) > LEAST_US;
        let several = unsent > mss && data_max >= 2 * mss && self.mss >= CUT_MSS_MIN;
        if (flight == 0 && rested) || several {
            return None;
        }
        if flight == 0 {
            self.loss.begin(self.snd_una, now);
        }
        if self.loss.at_work()?.pacer.wait(now).is_some() {
            return None;
        }
        let usable = self.usable_window(flight, unsent);
        let len = unsent.min(usable).min(mss);
        let fin = len == unsent && self.fin_is_due() && (usable > len || flight == 0);
        if len < mss && !fin && !self.is_worth_sending(len, unsent, flight) {
            // With nothing in flight a timer is to be set.
            return (flight > 0).then_some((0, false));
        }
        if len == unsent {
            self.nothing_more();
        }
        Some((len, fin))
    }

    /// The next `len` numbers leave: data, and perhaps the FIN behind it.
    #[inline]
    fn data_leaves(&mut self, now: Instant, len: u32) {
        let end = self.snd_max + len;
        self.last_sent = now;
        let loss = &mut *self.loss;
        let departure = loss.departure(now);
        loss.board.sent(end, departure);
        if let Some(repair) = &mut loss.repair {
            repair.left(len);
        }
        let rested = loss.board.outstanding() == len;
        loss.pacer.left(now, len, rested);
        (self.snd_max, self.snd_nxt) = (end, end);
        if self.retransmit_at == NEVER || self.timer == Timer::Tail {
            self.set_loss_timer(now);
        }
    }

    /// The values of the segment, and what it says to the peer is said.
    #[inline]
    fn plain(&mut self, now: Instant, start: usize, (len, fin): (u32, bool), plain: &mut Plain) {
        let len_bytes = len as usize;
        let mut flags = TcpFlags::ACK;
        if len > 0 && start + len_bytes == self.send.len() {
            flags = TcpFlags(flags.0 | TcpFlags::PSH.0);
        }
        if fin {
            flags = TcpFlags(flags.0 | TcpFlags::FIN.0);
        }
        let window = self.announce_window();
        self.acknowledged(len > 0);
        self.ack_owed = Owed::Nothing;
        self.ack_at = NEVER;
        self.last_ack_sent = self.rcv_nxt;
        *plain = Plain {
            seq: self.snd_max,
            ack: self.rcv_nxt,
            flags,
            window,
            timestamps: self.timestamps_now(now),
            start,
            len: len_bytes,
            ect: self.ecn && len > 0,
            ip: self.ip,
        };
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
