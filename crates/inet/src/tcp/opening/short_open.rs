//! The short ways of a handshake at its listener: the SYN-ACK, and the acknowledgement that completes it.
//!
//! Rule: as `short_in`'s and `short_out`'s. What goes these ways leaves the same state and the same segments as
//! `input` and `output` would.

use exos_wire::SeqNumber;
use exos_wire::tcp::{TcpFlags, Timestamps};

use crate::counters::Counters;
use crate::tcp::Tcp;
use crate::tcp::connection::{Connection, Owed, Path};
use crate::tcp::event::EventSet;
use crate::tcp::flow::Flow;
use crate::tcp::ip::IpFields;
use crate::tcp::short_in::{Short, Taken};
use crate::tcp::short_ways::Way;
use crate::tcp::slab::ConnectionId;
use crate::tcp::state::{Event, State};
use crate::time::Instant;

/// A SYN or SYN-ACK with the options that nearly all have: MSS, SACK permitted, timestamps, window scale.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Syn {
    pub seq: SeqNumber,
    pub ack: SeqNumber,
    pub flags: TcpFlags,
    pub window: u16,
    pub mss: u16,
    pub scale: u8,
    pub timestamps: Timestamps,
    pub ip: IpFields,
}

impl Tcp {
    /// Take in a segment to a connection in SYN-RECEIVED, if it is the acknowledgement that nearly all send.
    pub(in crate::tcp) fn take_opening(
        &mut self,
        now: Instant,
        id: ConnectionId,
        seg: &Short<'_>,
        counters: &mut Counters,
    ) -> Taken {
        let Some(c) = self.slab.get_mut(id).filter(|c| c.is_opened_by(seg)) else {
            return Taken::General(id);
        };
        c.open_plainly(now, seg);
        let listener = c.listener;
        counters.tcp_segments_received += 1;
        counters.tcp_accepted += 1;
        self.found = Some(id);
        self.half_open_ended(listener);
        self.settle(id);
        self.taken.count(Way::Opening);
        Taken::Yes(true)
    }

    /// The connection that has its turn.
    #[inline]
    pub(crate) fn next_to_send(&self) -> Option<&Connection> {
        self.slab.get(*self.sending.front()?)
    }

    /// The SYN-ACK of the connection that has its turn ([`Next::SynAck`](crate::tcp::Next)). It goes that way, and what
    /// follows goes it too.
    #[inline]
    pub(crate) fn poll_syn_ack(&mut self, now: Instant, path: Path) -> Option<(&Flow, Syn)> {
        let &id = self.sending.front()?;
        let entry = self.slab.entry_mut(id)?;
        let c = &mut entry.connection;
        c.pressure = self.memory.pressure();
        c.path = Some(path);
        let syn = c.answer_syn(now);
        entry.sending = false;
        let at = c.timer_deadline();
        if at < entry.armed {
            entry.armed = at;
            self.wheel.arm(at, id);
        }
        self.sending.pop_front();
        self.turn = 0;
        self.taken.count(Way::SynAck);
        Some((&c.flow, syn))
    }
}

impl Connection {
    /// Our SYN-ACK, which left once, is acknowledged, and nothing else is said; and nothing is to be done but
    /// what is always done then.
    fn is_opened_by(&self, seg: &Short<'_>) -> bool {
        let special = self.active | self.syn_again | self.finishing;
        self.state == State::SynReceived
            && !special
            && seg.seq == self.rcv_nxt
            && seg.ack == self.snd_max
            && seg.ack.gt(self.iss)
            && seg.payload.is_empty()
            && seg.flags.0 & TcpFlags::FIN.0 == 0
            && self.timestamps
            && seg.timestamps.value.wrapping_sub(self.ts_recent) as i32 >= 0
            && self.rare.is_none()
    }

    fn open_plainly(&mut self, now: Instant, seg: &Short<'_>) {
        self.follow(Event::AckOfSyn);
        self.syn_acknowledged(Some(seg.timestamps), now);
        self.set_window(seg.seq, seg.ack, u32::from(seg.window) << self.snd_scale);
        self.heard_at = now;
        self.ts_recent = seg.timestamps.value;
        self.tell(EventSet::ACCEPTED);
    }

    /// The SYN-ACK leaves for the first time.
    #[inline]
    fn answer_syn(&mut self, now: Instant) -> Syn {
        let flags = TcpFlags::SYN.0 | TcpFlags::ACK.0 | self.ecn_flags_of_syn(true, false);
        self.snd_nxt = self.iss + 1;
        self.snd_max = self.snd_nxt;
        self.last_sent = now;
        self.retransmit_at = now + self.rtt.timeout();
        Syn {
            seq: self.iss,
            ack: self.rcv_nxt,
            flags: TcpFlags(flags),
            // The window field of a SYN is not scaled (RFC 7323 §2.2).
            window: self.rcv_buffer.min(u32::from(u16::MAX)) as u16,
            mss: self.mss_announced,
            scale: self.rcv_scale,
            timestamps: self.timestamps_now(now),
            ip: self.ip,
        }
    }

    /// It was begun by a SYN that nothing has answered yet, and that had the options that nearly all have; nothing
    /// special is asked for on this side.
    #[inline]
    pub(in crate::tcp) fn answers_first_syn(&self) -> bool {
        self.state == State::SynReceived
            && !self.active
            && self.snd_nxt == self.iss
            && self.snd_max == self.iss
            && self.ack_owed == Owed::Nothing
            && self.rare.is_none()
            && self.scaling
            && self.timestamps
            && self.sack
    }
}
