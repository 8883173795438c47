//! How long a connection lives without a sign of its peer: keepalive (RFC 1122 §4.2.3.6), the user
//! timeout (RFC 9293 §3.8.3, RFC 5482), FIN-WAIT-2, and what ICMP had to say (RFC 1122 §4.2.3.9).
//!
//! All of them share one deadline, `life_at`: in FIN-WAIT-2 its end, otherwise the next moment at which
//! something here may be due. What few connections need lies in a box of its own ([`Rare`]), so that
//! an idle connection without such wishes pays eight bytes for all of it.
//!
//! - Keepalive is off unless asked for. A probe repeats the last sequence number acknowledged, without
//!   data; any acceptable answer shows that the peer lives. While data is out, retransmission looks
//!   after the peer, and no probe is sent.
//! - The user timeout bounds how long data may stay unacknowledged, in the place of the number of
//!   retransmissions. A peer that answers with a closed window is there: it may keep it closed for as
//!   long as it likes (RFC 9293 §3.8.6.1).
//! - The option of RFC 5482 is sent, and heeded, only where the program enables it.

use exos_wire::tcp::{TcpFlags, TcpOptions, UserTimeout};

use crate::icmp::Reason as IcmpReason;
use crate::limits::{
    FIN_WAIT_2, FIN_WAIT_2_READING, KEEPALIVE_COUNT, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL,
    PATH_DOUBT_RETRIES, USER_TIMEOUT_MAX, USER_TIMEOUT_MIN,
};
use crate::tcp::connection::{Connection, NEVER, Owed};
use crate::tcp::handover::{HandoverError, Wire, travel};
use crate::tcp::input::{Context, Outcome};
use crate::tcp::options::Options;
use crate::tcp::reply::Reply;
use crate::tcp::state::State;
use crate::time::{Duration, Instant};

/// When to ask a silent peer whether it is still there.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Keepalive {
    /// Silence before the first question.
    pub idle: Duration,
    /// Time between questions.
    pub interval: Duration,
    /// Questions without an answer after which the connection is given up.
    pub count: u8,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self {
            idle: KEEPALIVE_IDLE,
            interval: KEEPALIVE_INTERVAL,
            count: KEEPALIVE_COUNT,
        }
    }
}

/// State that few connections need.
#[derive(Clone, Debug, Default)]
pub(in crate::tcp) struct Rare {
    keepalive: Option<Keepalive>,
    /// Questions asked since the peer was heard last.
    probes: u8,
    probed_at: Instant,
    /// When data was last found to be out as a question was due.
    busy_at: Instant,
    /// The program's own bound. The peer's wish does not change it (RFC 5482 §3: CHANGEABLE).
    user_timeout: Option<Duration>,
    /// What is told to the peer; `Some` enables the option (RFC 5482 §3: ADV_UTO, ENABLED).
    advertised: Option<Duration>,
    /// What follows from both sides' wishes.
    agreed: Option<Duration>,
    /// When what is being retransmitted left first.
    stalled_at: Option<Instant>,
    /// The last ICMP error about something in flight, and when it came.
    soft_error: Option<(IcmpReason, Instant)>,
}

impl Keepalive {
    fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => Keepalive {
            idle: duration,
            interval: duration,
            count: u8,
        } by_hand {} stay {});
        Ok(())
    }
}

impl Rare {
    /// The wishes, to or from another stack; `Connection::resume_life` begins to wait again.
    pub fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => Rare {
            user_timeout: duration_option,
            advertised: duration_option,
            agreed: duration_option,
        } by_hand {
            keepalive,
        } stay {
            probes, probed_at, busy_at, stalled_at, soft_error,
        });
        wire.option(keepalive, Keepalive::default(), |wire, k| k.travel(wire))
    }

    /// When the next question is due, if the peer was last heard at `heard_at`.
    fn ask_at(&self, heard_at: Instant) -> Option<Instant> {
        let keepalive = self.keepalive?;
        Some(match self.probes {
            0 => heard_at.max(self.busy_at) + keepalive.idle,
            _ => self.probed_at + keepalive.interval,
        })
    }

    /// What is given up after so long without an acknowledgement, if not by counting.
    fn user_timeout(&self) -> Option<Duration> {
        self.user_timeout.or(self.agreed)
    }
}

/// The wishes of a program, boxed if there are any.
pub(in crate::tcp) fn rare_for(options: &Options) -> Option<Box<Rare>> {
    let plain = options.keepalive.is_none()
        && options.user_timeout.is_none()
        && options.user_timeout_option.is_none();
    (!plain).then(|| {
        Box::new(Rare {
            keepalive: options.keepalive,
            user_timeout: options.user_timeout,
            advertised: options.user_timeout_option,
            ..Rare::default()
        })
    })
}

/// A time as the option says it: in seconds while they fit, else in minutes (RFC 5482 §3).
fn as_option(time: Duration) -> UserTimeout {
    let secs = time.as_secs().max(1);
    let minutes = secs > 0x7fff;
    let value = if minutes { secs / 60 } else { secs };
    UserTimeout {
        minutes,
        value: value.min(0x7fff) as u16,
    }
}

impl Connection {
    // Commands.

    /// Ask a silent peer whether it is still there, or stop doing so.
    pub fn set_keepalive(&mut self, keepalive: Option<Keepalive>) {
        if keepalive.is_none() && self.rare.is_none() {
            return;
        }
        self.rare_mut().keepalive = keepalive;
        self.rare_mut().probes = 0;
        self.arm_life();
    }

    /// Give the connection up when sent data stays unacknowledged for so long; `None` goes back to a
    /// number of retransmissions.
    pub fn set_user_timeout(&mut self, time: Option<Duration>) {
        if time.is_none() && self.rare.is_none() {
            return;
        }
        self.rare_mut().user_timeout = time;
        self.arm_life();
    }

    pub(in crate::tcp) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    // The deadline.

    /// Set `life_at` to when something here may be due next, FIN-WAIT-2 apart.
    pub(in crate::tcp) fn arm_life(&mut self) {
        if self.state == State::FinWait2 {
            return;
        }
        let Some(rare) = &self.rare else {
            return;
        };
        let ask = rare.ask_at(self.heard_at);
        let ask = ask.filter(|_| self.state.is_synchronized());
        let stalled = rare.stalled_at.filter(|_| self.retries > 0);
        let give_up = rare.user_timeout().zip(stalled).map(|(t, at)| at + t);
        self.life_at = ask.into_iter().chain(give_up).min().unwrap_or(NEVER);
    }

    /// `life_at` is over.
    pub(in crate::tcp) fn life_timeout(&mut self, cx: &mut Context<'_>) -> Outcome {
        if self.state == State::FinWait2 {
            return self.fin_wait_2_timeout(cx);
        }
        let outcome = if self.user_timeout_is_over(cx.now) {
            self.give_up(cx)
        } else {
            self.keep_alive(cx)
        };
        self.arm_life();
        outcome
    }

    /// FIN-WAIT-2 begins, or the peer of a half-closed connection is at work.
    pub(in crate::tcp) fn wait_for_fin(&mut self, now: Instant) {
        let wait = if self.discarding {
            FIN_WAIT_2
        } else {
            FIN_WAIT_2_READING
        };
        self.life_at = now + wait;
    }

    /// The peer has said nothing since our FIN was acknowledged, or since its last data.
    fn fin_wait_2_timeout(&mut self, cx: &mut Context<'_>) -> Outcome {
        if !self.receive.readable().is_empty() {
            // It is our program that is slow, perhaps with a closed window.
            self.wait_for_fin(cx.now);
            return Outcome::Keep;
        }
        // Nobody is owed a reset, the peer has all our data.
        self.state = State::Closed;
        cx.counters.tcp_timed_out += 1;
        Outcome::Close(crate::tcp::event::Reason::TimedOut)
    }

    // Keepalive.

    /// Ask the peer if it has been silent for long enough, or give up on it.
    fn keep_alive(&mut self, cx: &mut Context<'_>) -> Outcome {
        let outstanding = self.snd_max != self.snd_una || !self.send.is_empty();
        let (heard_at, now) = (self.heard_at, cx.now);
        let Some(rare) = &mut self.rare else {
            return Outcome::Keep;
        };
        let Some(keepalive) = rare.keepalive else {
            return Outcome::Keep;
        };
        if rare.probes > 0 && heard_at >= rare.probed_at {
            rare.probes = 0;
        }
        if rare.ask_at(heard_at).is_none_or(|at| now < at) {
            return Outcome::Keep;
        }
        if outstanding {
            // RFC 1122 §4.2.3.6: none while data is out; its retransmission asks too.
            (rare.probes, rare.busy_at) = (0, now);
            return Outcome::Keep;
        }
        let over = match rare.user_timeout() {
            Some(most) => rare.probes > 0 && now - heard_at >= most,
            None => rare.probes >= keepalive.count,
        };
        if over {
            return self.give_up(cx);
        }
        rare.probes = rare.probes.saturating_add(1);
        rare.probed_at = now;
        cx.counters.tcp_keepalives_sent += 1;
        let mut probe = self.bare(now);
        probe.seq = self.snd_una - 1;
        cx.replies.push_due(probe, cx.counters);
        Outcome::Keep
    }

    /// An acknowledgement that leaves beside the connection's own segments, and pays nothing that it
    /// owes.
    fn bare(&self, now: Instant) -> Reply {
        let window = (self.rcv_edge - self.rcv_nxt).max(0) as u32 >> self.rcv_scale;
        Reply {
            flow: self.flow,
            seq: self.bare_seq(),
            ack: self.rcv_nxt,
            flags: TcpFlags::ACK,
            window: window.min(u32::from(u16::MAX)) as u16,
            options: TcpOptions {
                timestamps: self.timestamps.then(|| self.timestamps_now(now)),
                ..TcpOptions::NONE
            },
        }
    }

    // The user timeout.

    /// The retransmission timer is about to run out for the first time since anything was
    /// acknowledged: from when it was set on, the user timeout runs. Where it waited for a closed window
    /// it is only now that a probe leaves.
    pub(in crate::tcp) fn stalled(&mut self, now: Instant) {
        let waited = if self.snd_wnd == 0 && self.state.is_synchronized() {
            Duration::ZERO
        } else {
            self.rtt.timeout()
        };
        if let Some(rare) = &mut self.rare {
            let since = now.micros().saturating_sub(waited.as_micros() as u64);
            rare.stalled_at = Some(Instant::from_micros(since));
        }
    }

    /// True when retransmissions are bounded by time and not by their number.
    pub(in crate::tcp) fn has_user_timeout(&self) -> bool {
        let rare = self.rare.as_deref();
        self.state.is_synchronized() && rare.is_some_and(|r| r.user_timeout().is_some())
    }

    /// True when data has been unacknowledged for as long as it may be.
    pub(in crate::tcp) fn user_timeout_is_over(&self, now: Instant) -> bool {
        let Some(rare) = self.rare.as_deref().filter(|_| self.retries > 0) else {
            return false;
        };
        let limits = rare.user_timeout().zip(rare.stalled_at);
        limits.is_some_and(|(most, since)| now - since >= most)
    }

    /// The option to send on a SYN, if it is enabled.
    pub(in crate::tcp) fn user_timeout_option(&self) -> Option<UserTimeout> {
        self.rare.as_deref()?.advertised.map(as_option)
    }

    /// The connection stands: begin to listen for silence. RFC 5482 §3: the option goes also on the
    /// first segment without SYN, since SYN cookies lose that of the SYN. It pays for the acknowledgement
    /// that is owed to a SYN-ACK: there is one segment, not two.
    pub(in crate::tcp) fn begin_life(&mut self, cx: &mut Context<'_>) {
        self.heard_at = cx.now;
        if self.rare.is_none() {
            return;
        }
        if let Some(option) = self.user_timeout_option() {
            let mut bare = self.bare(cx.now);
            bare.options.user_timeout = Some(option);
            if self.ack_owed == Owed::Now {
                bare.window = self.announce_window();
                self.last_ack_sent = self.rcv_nxt;
                self.ack_owed = Owed::Nothing;
            }
            cx.replies.push_due(bare, cx.counters);
        }
        self.arm_life();
    }

    /// The connection goes on in another stack, under another clock: what was being waited for begins
    /// again.
    pub(in crate::tcp) fn resume_life(&mut self, now: Instant) {
        let stalled = self.retries > 0;
        if let Some(rare) = &mut self.rare {
            rare.probes = 0;
            rare.busy_at = Instant::START;
            rare.stalled_at = stalled.then_some(now);
            rare.soft_error = None;
        }
        self.arm_life();
    }

    /// The peer says after how long it gives up (RFC 5482 §3.1):
    /// `USER_TIMEOUT = min(U_LIMIT, max(ADV_UTO, REMOTE_UTO, L_LIMIT))`.
    #[cold]
    pub(in crate::tcp) fn heed_user_timeout(&mut self, option: UserTimeout) {
        let Some(rare) = &mut self.rare else {
            return;
        };
        // A value of zero is to be ignored.
        if let Some(advertised) = rare.advertised
            && option.value != 0
        {
            let theirs = Duration::from_secs(option.secs().into());
            let agreed = advertised.max(theirs).max(USER_TIMEOUT_MIN);
            rare.agreed = Some(agreed.min(USER_TIMEOUT_MAX));
        }
    }

    /// What data may stay unacknowledged for, if time bounds it.
    pub fn user_timeout(&self) -> Option<Duration> {
        self.rare.as_deref()?.user_timeout()
    }

    // Errors.

    /// ICMP says something about a segment in flight. It is remembered: the connection goes on, and
    /// the program may look, or hears of it if the connection is given up.
    pub(in crate::tcp) fn remember_error(&mut self, now: Instant, reason: IcmpReason) {
        self.rare_mut().soft_error = Some((reason, now));
    }

    /// The last ICMP error about something in flight, unless the peer has been heard since.
    pub fn soft_error(&self) -> Option<IcmpReason> {
        let (reason, at) = self.rare.as_deref()?.soft_error?;
        (at >= self.heard_at).then_some(reason)
    }

    /// RFC 9293 §3.8.3, R1: so many retransmissions that the next hop is to be doubted.
    pub fn doubts_path(&self) -> bool {
        self.retries >= PATH_DOUBT_RETRIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_says_seconds_or_minutes() {
        for (secs, minutes, value) in [
            (0, false, 1),
            (1, false, 1),
            (300, false, 300),
            (0x7fff, false, 0x7fff),
            (0x8000, true, 546),
            (1 << 40, true, 0x7fff),
        ] {
            let option = as_option(Duration::from_secs(secs));
            assert_eq!((option.minutes, option.value), (minutes, value), "{secs} s");
        }
    }

    #[test]
    fn a_connection_without_wishes_has_no_box() {
        assert!(rare_for(&Options::default()).is_none());
        assert!(size_of::<Rare>() <= 144, "{}", size_of::<Rare>());
    }
}
