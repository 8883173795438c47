//! How long a connection lives without a sign of its peer: keepalive (RFC 1122 §4.2.3.6), the user
//! timeout (RFC 9293 §3.8.3), FIN-WAIT-2, and what ICMP had to say (RFC 1122 §4.2.3.9).
//!
//! All of them share one deadline: in FIN-WAIT-2 its end, otherwise the next moment at which
//! something here may be due. What few connections need lies in a box of its own, so that
//! an idle connection without such wishes pays eight bytes for all of it. `connection::timeouts` does what is due.
//!
//! - Keepalive is off unless asked for. A probe repeats the last sequence number acknowledged, without
//!   data; any acceptable answer shows that the peer lives. While data is out, retransmission looks
//!   after the peer, and no probe is sent.
//! - The user timeout bounds how long data may stay unacknowledged, in the place of the number of
//!   retransmissions. A peer that answers with a closed window is there: it may keep it closed for as
//!   long as it likes (RFC 9293 §3.8.6.1).

use crate::icmp::Reason as IcmpReason;
use crate::limits::{FIN_WAIT_2, FIN_WAIT_2_READING};
use crate::tcp::values::codec::{HandoverError, Wire, travel};
use crate::tcp::values::options::{Keepalive, Options};
use crate::tcp::values::state::State;
use crate::time::{Duration, Instant};

/// What a program wishes, and what became of it: few connections have any.
#[derive(Clone, Debug, Default)]
struct Wishes {
    keepalive: Option<Keepalive>,
    /// Questions asked since the peer was heard last.
    probes: u8,
    probed_at: Instant,
    /// When data was last found to be out as a question was due.
    busy_at: Instant,
    /// What is given up after so long without an acknowledgement, if not by counting.
    user_timeout: Option<Duration>,
    /// When what is being retransmitted left first.
    stalled_at: Option<Instant>,
    /// The last ICMP error about something in flight, and when it came.
    soft_error: Option<(IcmpReason, Instant)>,
}

impl Wishes {
    fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => Wishes {
            user_timeout: duration_option,
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
}

/// What is to be done about a silent peer.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(in crate::tcp) enum Ask {
    /// Nothing now.
    Nothing,
    /// Ask whether it is there.
    Probe,
    /// It has been asked often enough.
    GiveUp,
}

/// When the peer was heard, and how long its silence may last. What every segment needs comes first.
#[repr(C)]
pub(in crate::tcp) struct Liveness {
    /// End of FIN-WAIT-2; before that, when keepalive or the user timeout may be due.
    at: Instant,
    /// When an acceptable segment came last.
    heard_at: Instant,
    wishes: Option<Box<Wishes>>,
}

impl Liveness {
    /// The peer is taken to be there now.
    pub fn new(now: Instant, options: &Options) -> Self {
        let plain = options.keepalive.is_none() && options.user_timeout.is_none();
        let wishes = (!plain).then(|| {
            Box::new(Wishes {
                keepalive: options.keepalive,
                user_timeout: options.user_timeout,
                ..Wishes::default()
            })
        });
        Self {
            at: Instant::NEVER,
            heard_at: now,
            wishes,
        }
    }

    /// To or from another stack; [`Self::resume`] begins to wait again.
    pub fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => Liveness {
            heard_at: age,
            at: until,
        } by_hand { wishes, } stay {});
        wire.option(wishes, Box::default(), |wire, wishes| wishes.travel(wire))
    }

    // What happens.

    /// An acceptable segment has come.
    #[inline]
    pub fn heard(&mut self, now: Instant) {
        self.heard_at = now;
    }

    /// Ask a silent peer whether it is still there, or stop doing so.
    pub fn set_keepalive(&mut self, keepalive: Option<Keepalive>) {
        if keepalive.is_some() || self.wishes.is_some() {
            let wishes = self.wishes.get_or_insert_default();
            (wishes.keepalive, wishes.probes) = (keepalive, 0);
        }
    }

    /// Give the connection up when sent data stays unacknowledged for so long; `None` goes back to a
    /// number of retransmissions.
    pub fn set_user_timeout(&mut self, time: Option<Duration>) {
        if time.is_some() || self.wishes.is_some() {
            self.wishes.get_or_insert_default().user_timeout = time;
        }
    }

    /// Set the deadline to when something may be due next, FIN-WAIT-2 apart. Data has been sent again `retries` times.
    pub fn rearm(&mut self, state: State, retries: u8) {
        if state == State::FinWait2 {
            return;
        }
        let Some(wishes) = &self.wishes else {
            return;
        };
        let ask = wishes.ask_at(self.heard_at);
        let ask = ask.filter(|_| state.is_synchronized());
        let stalled = wishes.stalled_at.filter(|_| retries > 0);
        let give_up = wishes.user_timeout.zip(stalled).map(|(t, at)| at + t);
        self.at = ask
            .into_iter()
            .chain(give_up)
            .min()
            .unwrap_or(Instant::NEVER);
    }

    /// Nothing is waited for.
    pub fn disarm(&mut self) {
        self.at = Instant::NEVER;
    }

    /// FIN-WAIT-2 begins, or the peer of a half-closed connection is at work. The program may be `discarding` what comes.
    pub fn wait_for_fin(&mut self, now: Instant, discarding: bool) {
        let wait = if discarding {
            FIN_WAIT_2
        } else {
            FIN_WAIT_2_READING
        };
        self.at = now + wait;
    }

    /// What left at `since` is sent again for the first time: from then on the user timeout runs.
    pub fn stalled(&mut self, since: Instant) {
        if let Some(wishes) = &mut self.wishes {
            wishes.stalled_at = Some(since);
        }
    }

    /// Ask the peer if it has been silent for long enough, or give up on it. Something may be `outstanding`.
    pub fn ask(&mut self, now: Instant, outstanding: bool) -> Ask {
        let heard_at = self.heard_at;
        let Some(wishes) = &mut self.wishes else {
            return Ask::Nothing;
        };
        let Some(keepalive) = wishes.keepalive else {
            return Ask::Nothing;
        };
        if wishes.probes > 0 && heard_at >= wishes.probed_at {
            wishes.probes = 0;
        }
        if wishes.ask_at(heard_at).is_none_or(|at| now < at) {
            return Ask::Nothing;
        }
        if outstanding {
            // RFC 1122 §4.2.3.6: none while data is out; its retransmission asks too.
            (wishes.probes, wishes.busy_at) = (0, now);
            return Ask::Nothing;
        }
        let over = match wishes.user_timeout {
            Some(most) => wishes.probes > 0 && now - heard_at >= most,
            None => wishes.probes >= keepalive.count,
        };
        if over {
            return Ask::GiveUp;
        }
        wishes.probes = wishes.probes.saturating_add(1);
        wishes.probed_at = now;
        Ask::Probe
    }

    /// The connection goes on in another stack, under another clock: what was being waited for begins
    /// again. Data may be `stalled`.
    pub fn resume(&mut self, now: Instant, stalled: bool) {
        if let Some(wishes) = &mut self.wishes {
            wishes.probes = 0;
            wishes.busy_at = Instant::START;
            wishes.stalled_at = stalled.then_some(now);
            wishes.soft_error = None;
        }
    }

    /// ICMP says something about a segment in flight. It is remembered: the connection goes on, and
    /// the program may look, or hears of it if the connection is given up.
    pub fn remember_error(&mut self, now: Instant, reason: IcmpReason) {
        self.wishes.get_or_insert_default().soft_error = Some((reason, now));
    }

    // What is known.

    /// When something may be due.
    #[inline]
    pub fn deadline(&self) -> Instant {
        self.at
    }

    /// When the peer was heard last.
    #[inline]
    pub fn heard_at(&self) -> Instant {
        self.heard_at
    }

    /// What data may stay unacknowledged for, if time bounds it.
    pub fn user_timeout(&self) -> Option<Duration> {
        self.wishes.as_deref()?.user_timeout
    }

    /// True when data, which is being sent again, has been unacknowledged for as long as it may be.
    pub fn user_timeout_is_over(&self, now: Instant) -> bool {
        let Some(wishes) = self.wishes.as_deref() else {
            return false;
        };
        let limits = wishes.user_timeout.zip(wishes.stalled_at);
        limits.is_some_and(|(most, since)| now - since >= most)
    }

    /// The last ICMP error about something in flight, unless the peer has been heard since.
    pub fn soft_error(&self) -> Option<IcmpReason> {
        let (reason, at) = self.wishes.as_deref()?.soft_error?;
        (at >= self.heard_at).then_some(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_without_wishes_has_no_box() {
        let plain = Liveness::new(Instant::START, &Options::default());
        assert!(plain.wishes.is_none());
        assert!(size_of::<Wishes>() <= 144, "{}", size_of::<Wishes>());
    }
}
