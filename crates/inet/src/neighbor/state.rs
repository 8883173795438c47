//! States of a neighbour, and the one table of what each event does in each of them.
//!
//! The table is RFC 4861 appendix C with one row more: `Failed`. It performs nothing; the cache carries the [`Action`] out.

use crate::limits::{DELAY_FIRST_PROBE, FAILED_HOLD, REACHABLE_TIME, SOLICIT_INTERVAL};
use crate::time::Duration;

/// How a MAC address was learnt; decides what it may overwrite (RFC 4861 §7.2.3, §7.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The sender of an ARP request or neighbor solicitation for one of our own addresses. The only
    /// evidence that makes an entry where there was none: anyone who asks for us is about to hear from
    /// us.
    Request,
    /// An ARP reply to us, or an advertisement with the solicited flag.
    Solicited {
        /// The override flag; true for ARP.
        overriding: bool,
    },
    /// A gratuitous ARP packet, or an advertisement without the solicited flag.
    Unsolicited {
        /// The override flag; true for ARP.
        overriding: bool,
    },
}

/// Neighbour states, RFC 4861 §7.3.2, and `Failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Asked for with multicast or broadcast, MAC unknown.
    Incomplete,
    /// Known to work until its time is over.
    Reachable,
    /// Known, not verified lately; verified when next used. Stays until its place is needed.
    Stale,
    /// Stale and in use: the upper layer has a moment to confirm it before it is probed.
    Delay,
    /// Being verified with unicast solicitations.
    Probe,
    /// Did not answer; held so that it is not asked for with every packet.
    Failed,
}

/// What can happen to an entry. `same`: the MAC heard is the one already recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Used,
    Heard {
        evidence: Evidence,
        same: bool,
    },
    Confirmed,
    Suspected,
    /// The entry's deadline passed; `exhausted` when all solicitations were sent.
    Timeout {
        exhausted: bool,
    },
}

/// What the cache does to the entry besides changing its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// Record the MAC; send what waited for it.
    Record,
    /// Ask (again).
    Solicit,
    /// Give the waiting frames up.
    GiveUp,
    /// Remove the entry.
    Remove,
}

impl State {
    /// RFC 4861 appendix C, with the row for `Failed` added.
    pub(super) const fn on(self, event: Event) -> (State, Action) {
        use Action::*;
        use Evidence::*;
        use State::*;
        match (self, event) {
            (
                Incomplete | Failed,
                Event::Heard {
                    evidence: Solicited { .. },
                    ..
                },
            ) => (Reachable, Record),
            (
                Incomplete | Failed,
                Event::Heard {
                    evidence: Request | Unsolicited { .. },
                    ..
                },
            ) => (Stale, Record),
            (Incomplete, Event::Timeout { exhausted: false }) => (Incomplete, Solicit),
            (Incomplete, Event::Timeout { exhausted: true }) => (Failed, GiveUp),
            (Failed, Event::Timeout { .. }) => (Failed, Remove),
            // Without a MAC there is nothing to use, confirm or suspect.
            (Incomplete | Failed, Event::Used | Event::Confirmed | Event::Suspected) => {
                (self, Nothing)
            }

            // RFC 4861 §7.2.5, II: override, or the same address, and solicited: forward progress
            // is proven.
            (
                _,
                Event::Heard {
                    evidence: Solicited { overriding: true },
                    ..
                },
            ) => (Reachable, Record),
            (
                _,
                Event::Heard {
                    evidence: Solicited { overriding: false },
                    same: true,
                },
            ) => (Reachable, Record),
            (
                _,
                Event::Heard {
                    evidence: Unsolicited { overriding: true } | Request,
                    same: false,
                },
            ) => (Stale, Record),
            // RFC 4861 §7.2.5, I: no override and another address: keep ours, but doubt it.
            (
                Reachable,
                Event::Heard {
                    evidence: Solicited { overriding: false } | Unsolicited { overriding: false },
                    same: false,
                },
            ) => (Stale, Nothing),
            (
                Stale | Delay | Probe,
                Event::Heard {
                    evidence: Solicited { overriding: false } | Unsolicited { overriding: false },
                    same: false,
                },
            ) => (self, Nothing),
            (
                _,
                Event::Heard {
                    evidence: Unsolicited { .. } | Request,
                    same: true,
                },
            ) => (self, Nothing),

            (_, Event::Confirmed) => (Reachable, Nothing),
            (Reachable, Event::Suspected | Event::Timeout { .. }) => (Stale, Nothing),
            (Stale | Delay | Probe, Event::Suspected) => (self, Nothing),
            (Reachable | Delay | Probe, Event::Used) => (self, Nothing),
            (Stale, Event::Used) => (Delay, Nothing),
            // RFC 4861 §7.3.3: nothing happens to it until it is used; nobody sets a timer.
            (Stale, Event::Timeout { .. }) => (Stale, Nothing),
            (Delay, Event::Timeout { .. }) => (Probe, Solicit),
            (Probe, Event::Timeout { exhausted: false }) => (Probe, Solicit),
            // RFC 4861 §7.3.3: the entry SHOULD be deleted; the next packet asks everybody.
            (Probe, Event::Timeout { exhausted: true }) => (Probe, Remove),
        }
    }

    /// How long an entry stays in this state before its timeout; `None` is for ever.
    pub(super) const fn lifetime(self) -> Option<Duration> {
        match self {
            State::Incomplete | State::Probe => Some(SOLICIT_INTERVAL),
            State::Reachable => Some(REACHABLE_TIME),
            State::Delay => Some(DELAY_FIRST_PROBE),
            State::Failed => Some(FAILED_HOLD),
            State::Stale => None,
        }
    }

    /// Which goes first when the table is full.
    pub(super) const fn eviction_rank(self) -> u8 {
        match self {
            State::Failed => 0,
            State::Incomplete => 1,
            State::Stale => 2,
            State::Delay | State::Probe => 3,
            State::Reachable => 4,
        }
    }

    /// Known, in use, and in doubt.
    pub(super) const fn is_in_doubt(self) -> bool {
        matches!(self, State::Delay | State::Probe)
    }

    pub(super) const fn has_mac(self) -> bool {
        !matches!(self, State::Incomplete | State::Failed)
    }
}
