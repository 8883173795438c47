//! Segments going out of a connection: what to send next, if anything (RFC 9293 §3.10.8, §3.8.6).
//!
//! `poll_segment` is asked until it has none. In order of precedence it gives a SYN, a segment
//! believed lost, a tail loss probe, a probe of a closed window, new data as far as both windows reach (with the FIN
//! on the last of it), and an acknowledgement of its own when one is owed. Each of them carries the
//! newest acknowledgement, so whatever leaves pays what is owed. The sender says what leaves (`Piece`), the receiver what
//! is said with it.

use exos_wire::SeqNumber;
use exos_wire::tcp::{TcpFlags, TcpOptions, Timestamps};

use crate::limits::ACK_STRETCH_BYTES_MAX;
use crate::tcp::connection::Connection;
use crate::tcp::sending::piece::Piece;
use crate::tcp::values::outgoing::{Burst, Outgoing};
use crate::tcp::values::state::State;
use crate::time::Instant;

impl Connection {
    /// The next segment to send, or several in one, into `out`; false when there is nothing to send now.
    #[inline]
    pub fn poll_segment(&mut self, now: Instant, burst: Burst, out: &mut Outgoing) -> bool {
        self.sender.release();
        match self.state {
            State::Closed | State::Listen | State::TimeWait => return false,
            State::SynSent | State::SynReceived => return self.poll_syn(now, out),
            _ if self.is_stretched() => {
                self.poll_stretch(now, out);
                return true;
            }
            _ => {}
        }
        let (mss, agreed) = (self.sender.mss(), self.sender.agreed());
        let mss_now = self.receiver.mss_beside_report(mss, agreed);
        let Some(piece) = self.sender.poll(now, burst, mss_now) else {
            return self.poll_ack(now, out);
        };
        let new_data = piece.new_data;
        self.fill(now, piece, out);
        if let Burst::Frames(most) = burst
            && new_data
            // Nothing is said by the first that the others would not say (CWR: RFC 3168 §6.1.2).
            && out.window > 0
            && self.receiver.is_in_order()
            && out.flags.0 & TcpFlags::CWR.0 == 0
        {
            let behind = self.sender.lengthen(now, &out.data, most as u32 - 1);
            out.data.end += behind;
        }
        true
    }

    /// True when `poll_segment` may have something to send without a further event.
    #[inline]
    pub fn wants_to_send(&self) -> bool {
        match self.state {
            State::Closed | State::Listen | State::TimeWait => false,
            State::SynSent | State::SynReceived => {
                self.sender.queue().syn_is_due() || self.receiver.acks().owes_now()
            }
            _ => self.receiver.acks().owes_now() || self.sender.wants_to_send(),
        }
    }

    /// A SYN or SYN-ACK, new or again.
    fn poll_syn(&mut self, now: Instant, out: &mut Outgoing) -> bool {
        if !self.sender.queue().syn_is_due() {
            // Something unacceptable came: SYN-RECEIVED acknowledges, SYN-SENT has nothing to say.
            return self.state == State::SynReceived && self.poll_ack(now, out);
        }
        let answering = self.state == State::SynReceived;
        let flags = if answering {
            TcpFlags(TcpFlags::SYN.0 | TcpFlags::ACK.0)
        } else {
            TcpFlags::SYN
        };
        let agreed = self.sender.agreed();
        let mut options = TcpOptions {
            mss: Some(self.receiver.mss_announced()),
            sack_permitted: agreed.sack,
            ..TcpOptions::default()
        };
        if agreed.scaling {
            options.window_scale = Some(self.receiver.window().scale());
        }
        options.timestamps = self.timestamps(now);
        let (again, ecn) = self.sender.syn_leaves(now, answering);
        let flags = TcpFlags(flags.0 | ecn);
        let window = self.receiver.window().syn_field();
        let ack = if answering {
            self.receiver.rcv_nxt()
        } else {
            SeqNumber(0)
        };
        *out = Outgoing {
            seq: self.sender.queue().iss(),
            ack,
            flags,
            window,
            options,
            data: 0..0,
            mss: self.sender.mss(),
            again,
            ect: false,
            ip: self.ip,
        };
        true
    }

    /// More has come in this turn than one acknowledgement may cover (RFC 9293 §3.8.6.3, MUST-58, -59, lets us
    /// take in all that is queued first; RFC 5681 §4.2 warns of stretching that). It is said in parts, each of as
    /// many whole segments as fit; the last part goes with whatever leaves next.
    fn poll_stretch(&mut self, now: Instant, out: &mut Outgoing) {
        let len = u32::from(self.receiver.rcv_mss().max(1));
        let part = self.receiver.acks().last_sent() + ACK_STRETCH_BYTES_MAX / len * len;
        let (seq, at) = (self.sender.bare_seq(), self.sender.queue().bytes().len());
        *out = Outgoing {
            seq,
            ack: part,
            flags: TcpFlags(TcpFlags::ACK.0 | self.ecn_echo()),
            // What was promised stays promised; the last part may promise more.
            window: self.receiver.window().promised_field(part),
            options: TcpOptions {
                timestamps: self.timestamps(now),
                ..TcpOptions::default()
            },
            data: at..at,
            mss: self.sender.mss(),
            again: false,
            ect: false,
            ip: self.ip,
        };
        self.receiver.acks_mut().left_in_part(part);
    }

    /// One acknowledgement would stretch too far. With something beyond a gap, what is acknowledged is
    /// repeated anyway; and a window all but full is not to look closed for a moment.
    #[inline]
    fn is_stretched(&self) -> bool {
        let receiver = &self.receiver;
        let pending = (receiver.rcv_nxt() - receiver.acks().last_sent()).max(0) as u32;
        pending > ACK_STRETCH_BYTES_MAX
            && self.receiver.acks().owes_now()
            && receiver.is_in_order()
            && receiver.window_left() >> receiver.window().scale() > 0
    }

    /// An acknowledgement of its own.
    #[inline(never)]
    fn poll_ack(&mut self, now: Instant, out: &mut Outgoing) -> bool {
        if !self.receiver.acks().owes_now() {
            return false;
        }
        self.receiver.acks_mut().duplicate_left();
        let piece = self.sender.nothing();
        self.fill(now, piece, out);
        true
    }

    /// The values of a segment; it pays what is owed.
    #[inline(always)]
    fn fill(&mut self, now: Instant, piece: Piece, out: &mut Outgoing) {
        let Piece { seq, data, .. } = piece;
        let agreed = self.sender.agreed();
        let window = self.receiver.announce_window();
        let (sack, mss) = self
            .receiver
            .take_report(data.len(), self.sender.mss(), agreed);
        out.options = TcpOptions {
            sack,
            timestamps: self.timestamps(now),
            ..TcpOptions::NONE
        };
        let flags = TcpFlags::ACK.0 | piece.flags | self.ecn_echo();
        self.receiver.acknowledged(!data.is_empty(), agreed.sack);
        (out.seq, out.ack) = (seq, self.receiver.rcv_nxt());
        (out.flags, out.window) = (TcpFlags(flags), window);
        (out.data, out.mss) = (data, piece.mss.unwrap_or(mss));
        (out.again, out.ect) = (piece.again, agreed.ecn && piece.new_data);
        out.ip = self.ip;
    }

    /// The timestamps of a segment that leaves now, where they were agreed on.
    #[inline]
    pub(in crate::tcp) fn timestamps(&self, now: Instant) -> Option<Timestamps> {
        let agreed = self.sender.agreed();
        agreed.timestamps.then(|| Timestamps {
            value: agreed.clock(now),
            echo: self.receiver.ts_recent(),
        })
    }
}
