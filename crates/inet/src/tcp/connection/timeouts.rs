//! What a connection does when time has passed: retransmission, probing and giving up (RFC 6298 §5, RFC 9293 §3.8),
//! silence of the peer ([`Liveness`](crate::tcp::timers::liveness::Liveness)), delayed acknowledgements.

use exos_wire::tcp::{TcpFlags, TcpOptions};

use crate::icmp::Reason as IcmpReason;
use crate::limits::{DATA_RETRIES_MAX, PATH_DOUBT_RETRIES, SYN_ACK_RETRIES_MAX, SYN_RETRIES_MAX};
use crate::tcp::connection::Connection;
use crate::tcp::shared::context::{Context, Outcome};
use crate::tcp::shared::reply::Reply;
use crate::tcp::timers::liveness::Ask;
use crate::tcp::values::event::Reason;
use crate::tcp::values::options::Keepalive;
use crate::tcp::values::state::{Action, Event, State};
use crate::time::{Duration, Instant};

impl Connection {
    /// Time has passed: see to the deadlines that are over.
    pub fn handle_timeout(&mut self, cx: &mut Context<'_>) -> Outcome {
        self.receiver.acks_mut().end_delay(cx.now);
        if cx.now >= self.liveness.deadline() {
            let outcome = self.liveness_timed_out(cx);
            if outcome != Outcome::Keep {
                return outcome;
            }
        }
        match self.sender.handle_timeout(cx) {
            true => self.retransmission_timeout(cx),
            false => Outcome::Keep,
        }
    }

    /// RFC 6298 §5.4 to §5.7; RFC 9293 §3.8.3 for giving up, §3.8.6.1 for probing.
    fn retransmission_timeout(&mut self, cx: &mut Context<'_>) -> Outcome {
        let tries = match self.state {
            State::SynSent => SYN_RETRIES_MAX,
            State::SynReceived => SYN_ACK_RETRIES_MAX,
            _ => DATA_RETRIES_MAX,
        };
        let by_time = self.state.is_synchronized() && self.liveness.user_timeout().is_some();
        let by_count = self.sender.rtt().retries() >= tries && !by_time;
        if by_count || self.user_timeout_is_over(cx.now) {
            return self.give_up(cx);
        }
        let first = self.note_timeout(cx.now);
        if self.doubts_path() {
            // R1: the next segment asks for its way again.
            self.path = None;
        }
        if !self.state.is_synchronized() {
            cx.counters.tcp_timeouts += 1;
            self.syn_timed_out(cx);
            return Outcome::Keep;
        }
        let closed = self.sender.window().bytes() == 0;
        if closed || self.sender.queue().flight() == 0 {
            // Or less than a segment waited for a window that opened too little: it is sent now.
            cx.counters.tcp_window_probes += u64::from(closed);
            self.sender.ask_for_window();
            self.receiver.cool(cx.memory);
            return Outcome::Keep;
        }
        cx.counters.tcp_timeouts += 1;
        let ipv6 = self.flow.is_ipv6();
        self.sender.data_timed_out(first, ipv6, cx);
        Outcome::Keep
    }

    /// Our SYN again, or a SYN-ACK as far as the rate allows: nobody has proven yet that the peer is where
    /// its SYN says.
    fn syn_timed_out(&mut self, cx: &mut Context<'_>) {
        let unproven = self.state == State::SynReceived && !self.active;
        if unproven && !cx.replies.may_repeat_syn_ack(cx.now) {
            cx.counters.drop_tcp_syn_ack_rate_limited += 1;
            self.sender.wait_again(cx.now);
        } else {
            self.sender.send_syn();
        }
    }

    /// The network says that our SYN-ACK cannot arrive: it is not sent again, unless the peer asks.
    pub(in crate::tcp) fn syn_ack_is_unwanted(&mut self) {
        self.sender.set_retries(SYN_ACK_RETRIES_MAX);
    }

    pub(in crate::tcp) fn give_up(&mut self, cx: &mut Context<'_>) -> Outcome {
        if self.follow(Event::GiveUp) == Some(Action::SendRstRelease) {
            cx.replies.push(self.reset(), cx.now, cx.counters);
        }
        cx.counters.tcp_timed_out += 1;
        // RFC 1122 §4.2.3.9: what is known of the cause is for the program.
        Outcome::Close(match self.liveness.soft_error() {
            Some(_) => Reason::Unreachable,
            None => Reason::TimedOut,
        })
    }

    /// A reset that the peer will accept.
    pub(in crate::tcp) fn reset(&self) -> Reply {
        Reply {
            flow: self.flow,
            seq: self.sender.bare_seq(),
            ack: self.receiver.rcv_nxt(),
            flags: TcpFlags(TcpFlags::RST.0 | TcpFlags::ACK.0),
            window: 0,
            options: TcpOptions::NONE,
        }
    }

    // Silence.

    /// The peer may have been silent for too long.
    fn liveness_timed_out(&mut self, cx: &mut Context<'_>) -> Outcome {
        if self.state == State::FinWait2 {
            return self.fin_wait_2_timed_out(cx);
        }
        let outcome = if self.user_timeout_is_over(cx.now) {
            self.give_up(cx)
        } else {
            match self.liveness.ask(cx.now, self.sender.queue().is_busy()) {
                Ask::Nothing => Outcome::Keep,
                Ask::GiveUp => self.give_up(cx),
                Ask::Probe => {
                    cx.counters.tcp_keepalives_sent += 1;
                    let mut probe = self.bare(cx.now);
                    probe.seq = self.sender.queue().una() - 1;
                    cx.replies.push_due(probe, cx.counters);
                    Outcome::Keep
                }
            }
        };
        self.rearm_liveness();
        outcome
    }

    /// The peer has said nothing since our FIN was acknowledged, or since its last data.
    fn fin_wait_2_timed_out(&mut self, cx: &mut Context<'_>) -> Outcome {
        if !self.receiver.readable().is_empty() {
            // It is our program that is slow, perhaps with a closed window.
            self.wait_for_fin(cx.now);
            return Outcome::Keep;
        }
        // The reset is not sent: nobody is owed it, the peer has all our data.
        self.follow(Event::GiveUp);
        cx.counters.tcp_timed_out += 1;
        Outcome::Close(Reason::TimedOut)
    }

    /// FIN-WAIT-2 begins, or the peer of a half-closed connection is at work.
    pub(in crate::tcp) fn wait_for_fin(&mut self, now: Instant) {
        self.liveness
            .wait_for_fin(now, self.receiver.is_discarding());
    }

    /// Since when what the retransmission timer runs out for was waited for: since it was set, or where it waited for a
    /// closed window since now, for it is only now that a probe leaves.
    fn waiting_since(&self, now: Instant) -> Instant {
        let waited = if self.sender.window().bytes() == 0 && self.state.is_synchronized() {
            Duration::ZERO
        } else {
            self.sender.timeout()
        };
        Instant::from_micros(now.micros().saturating_sub(waited.as_micros() as u64))
    }

    /// What was sent counts as lost; whether it is so for the first time since the peer was last heard of.
    pub(super) fn note_timeout(&mut self, now: Instant) -> bool {
        let since = self.waiting_since(now);
        let first = self.sender.retransmission_timed_out();
        if first {
            self.liveness.stalled(since);
            self.rearm_liveness();
        }
        first
    }

    fn rearm_liveness(&mut self) {
        self.liveness.rearm(self.state, self.sender.rtt().retries());
    }

    fn user_timeout_is_over(&self, now: Instant) -> bool {
        self.sender.rtt().retries() > 0 && self.liveness.user_timeout_is_over(now)
    }

    /// An acknowledgement that leaves beside the connection's own segments, and pays nothing that it
    /// owes.
    pub(in crate::tcp) fn bare(&self, now: Instant) -> Reply {
        Reply {
            flow: self.flow,
            seq: self.sender.bare_seq(),
            ack: self.receiver.rcv_nxt(),
            flags: TcpFlags::ACK,
            window: self
                .receiver
                .window()
                .promised_field(self.receiver.rcv_nxt()),
            options: TcpOptions {
                timestamps: self.timestamps(now),
                ..TcpOptions::NONE
            },
        }
    }

    /// The connection stands: begin to listen for silence.
    pub(in crate::tcp) fn begin_to_listen(&mut self, now: Instant) {
        self.liveness.heard(now);
        self.rearm_liveness();
    }

    // For the program.

    /// Ask a silent peer whether it is still there, or stop doing so.
    pub fn set_keepalive(&mut self, keepalive: Option<Keepalive>) {
        self.liveness.set_keepalive(keepalive);
        self.rearm_liveness();
    }

    /// Give the connection up when sent data stays unacknowledged for so long; `None` goes back to a
    /// number of retransmissions.
    pub fn set_user_timeout(&mut self, time: Option<Duration>) {
        self.liveness.set_user_timeout(time);
        self.rearm_liveness();
    }

    /// What data may stay unacknowledged for, if time bounds it.
    pub fn user_timeout(&self) -> Option<Duration> {
        self.liveness.user_timeout()
    }

    /// The last ICMP error about something in flight, unless the peer has been heard since.
    pub fn soft_error(&self) -> Option<IcmpReason> {
        self.liveness.soft_error()
    }

    /// RFC 9293 §3.8.3, R1: after this many retransmissions the next hop is doubted.
    pub fn doubts_path(&self) -> bool {
        self.sender.rtt().retries() >= PATH_DOUBT_RETRIES
    }
}
