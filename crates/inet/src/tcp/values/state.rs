//! The connection states of RFC 9293 §3.3.2 and the one table of transitions between them.
//!
//! The table performs nothing: it says where an event leads and what is owed for it. `None` means
//! that the event cannot happen in that state, or changes nothing there; every pair is spelled out
//! so that none is forgotten. Data and window processing are elsewhere: only what moves the state
//! is an event here.

use self::{Action::*, Event::*, State::*};

/// A connection's state (RFC 9293 §3.3.2).
#[derive(Copy, Clone, Debug, Eq, PartialEq, Hash)]
#[repr(u8)]
pub enum State {
    /// No connection.
    Closed,
    /// Waiting for anybody's SYN.
    Listen,
    /// Our SYN is out.
    SynSent,
    /// SYN received, our SYN-ACK is out.
    SynReceived,
    /// Data flows both ways.
    Established,
    /// We finished; our FIN is queued or out, not acknowledged.
    FinWait1,
    /// Our FIN is acknowledged, the peer may still send.
    FinWait2,
    /// The peer finished, we may still send.
    CloseWait,
    /// Both finished at once; our FIN is not acknowledged.
    Closing,
    /// The peer finished first, then we; our FIN is not acknowledged.
    LastAck,
    /// Both FINs are acknowledged; old segments are given time to die.
    TimeWait,
}

impl State {
    /// Every state, for tables and tests.
    pub const ALL: [State; 11] = [
        Closed,
        Listen,
        SynSent,
        SynReceived,
        Established,
        FinWait1,
        FinWait2,
        CloseWait,
        Closing,
        LastAck,
        TimeWait,
    ];

    /// True from the moment that both sides know both initial sequence numbers.
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Closed | Listen | SynSent | SynReceived)
    }

    /// True while the peer may still send data (its FIN has not been received).
    pub const fn can_receive(self) -> bool {
        matches!(self, Established | FinWait1 | FinWait2)
    }

    /// True while the program may still queue data.
    pub const fn can_send(self) -> bool {
        matches!(self, SynSent | SynReceived | Established | CloseWait)
    }

    /// True once the program has finished its half and the FIN is queued or sent.
    pub const fn has_finished(self) -> bool {
        matches!(self, FinWait1 | FinWait2 | Closing | LastAck | TimeWait)
    }

    /// True while our FIN is queued or sent but not acknowledged.
    pub const fn awaits_ack_of_fin(self) -> bool {
        matches!(self, FinWait1 | Closing | LastAck)
    }
}

/// What can move a connection from one state to another.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// The program waits for connections.
    PassiveOpen,
    /// The program connects.
    ActiveOpen,
    /// A SYN without an acceptable ACK.
    Syn,
    /// A SYN that acknowledges ours.
    SynAck,
    /// An ACK, without SYN, of our SYN.
    AckOfSyn,
    /// The peer's FIN, all data before it received.
    Fin,
    /// An ACK of our FIN.
    AckOfFin,
    /// The program finishes its half.
    Finish,
    /// The program gives the connection up.
    Abort,
    /// A reset that passed validation (RFC 5961 §3.2).
    Rst,
    /// Two maximum segment lifetimes are over.
    TimeWaitOver,
    /// Too many retransmissions, or a limit of the program's.
    GiveUp,
}

impl Event {
    /// Every event, for tables and tests.
    pub const ALL: [Event; 12] = [
        PassiveOpen,
        ActiveOpen,
        Syn,
        SynAck,
        AckOfSyn,
        Fin,
        AckOfFin,
        Finish,
        Abort,
        Rst,
        TimeWaitOver,
        GiveUp,
    ];
}

/// What a transition obliges to.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Nothing further.
    Nothing,
    /// Send a SYN.
    SendSyn,
    /// Send a SYN that acknowledges the peer's.
    SendSynAck,
    /// The connection stands: tell the program; acknowledge at once.
    ConnectedSendAck,
    /// The connection stands: tell the program.
    Connected,
    /// Acknowledge, soon.
    SendAck,
    /// Send a FIN after what is queued.
    SendFin,
    /// Finish as soon as the connection stands.
    FinishLater,
    /// Keep only what answers old segments, for two maximum segment lifetimes.
    StartTimeWait,
    /// Acknowledge, and keep only what answers old segments.
    SendAckStartTimeWait,
    /// Send a reset and forget the connection.
    SendRstRelease,
    /// Forget the connection.
    Release,
    /// Go back to waiting for anybody's SYN; only the half-open connection is forgotten.
    BackToListen,
}

impl std::fmt::Display for State {
    /// The RFC's name.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Closed => "CLOSED",
            Listen => "LISTEN",
            SynSent => "SYN-SENT",
            SynReceived => "SYN-RECEIVED",
            Established => "ESTABLISHED",
            FinWait1 => "FIN-WAIT-1",
            FinWait2 => "FIN-WAIT-2",
            CloseWait => "CLOSE-WAIT",
            Closing => "CLOSING",
            LastAck => "LAST-ACK",
            TimeWait => "TIME-WAIT",
        })
    }
}

impl State {
    /// The transition for `event`, or `None` where the event does not change this state.
    ///
    /// RFC 9293 §3.3.2 Figure 5, with §3.10 for the pairs that the figure leaves out. A listener
    /// is its own object here, so a SYN at `Listen` makes a connection in `SynReceived`.
    pub const fn on(self, event: Event) -> Option<(State, Action)> {
        Some(match (self, event) {
            (Closed, PassiveOpen) => (Listen, Nothing),
            (Closed, ActiveOpen) => (SynSent, SendSyn),
            (Listen, Syn) => (SynReceived, SendSynAck),
            (Listen, ActiveOpen) => (SynSent, SendSyn),
            (Listen, Finish | Abort) => (Closed, Release),

            (SynSent, SynAck) => (Established, ConnectedSendAck),
            (SynSent, Syn) => (SynReceived, SendSynAck), // Simultaneous open.
            (SynSent, Finish) => (SynSent, FinishLater),
            (SynReceived, AckOfSyn) => (Established, Connected),
            (SynReceived, SynAck) => (Established, ConnectedSendAck), // The other half of a simultaneous open.
            (SynReceived, Finish) => (SynReceived, FinishLater),
            (SynReceived, Fin) => (CloseWait, SendAck),
            (SynReceived, Rst) => (Closed, BackToListen),

            (Established, Finish) => (FinWait1, SendFin),
            (Established, Fin) => (CloseWait, SendAck),
            (CloseWait, Finish) => (LastAck, SendFin),
            (FinWait1, AckOfFin) => (FinWait2, Nothing),
            (FinWait1, Fin) => (Closing, SendAck), // Simultaneous close.
            (FinWait2, Fin) => (TimeWait, SendAckStartTimeWait),
            (Closing, AckOfFin) => (TimeWait, StartTimeWait),
            (LastAck, AckOfFin) => (Closed, Release),
            (TimeWait, Fin) => (TimeWait, SendAckStartTimeWait), // A retransmitted FIN restarts the wait.
            (TimeWait, TimeWaitOver) => (Closed, Release),

            // A reset, an abort and giving up end whatever there is.
            (
                SynSent | Established | FinWait1 | FinWait2 | CloseWait | Closing | LastAck
                | TimeWait,
                Rst,
            ) => (Closed, Release),
            (SynSent | TimeWait, Abort | GiveUp) => (Closed, Release),
            // In silence: a peer that still tries may come through with its next SYN, where a reset
            // would tell it that nobody listens; and a forged SYN gets one answer less.
            (SynReceived, GiveUp) => (Closed, Release),
            (SynReceived, Abort) => (Closed, SendRstRelease),
            (Established | FinWait1 | FinWait2 | CloseWait | Closing | LastAck, Abort | GiveUp) => {
                (Closed, SendRstRelease)
            }

            // What follows changes nothing.
            // Opening what is already open.
            (Listen, PassiveOpen) => return None,
            (
                SynSent | SynReceived | Established | FinWait1 | FinWait2 | CloseWait | Closing
                | LastAck | TimeWait,
                PassiveOpen | ActiveOpen,
            ) => return None,
            // A segment for what does not exist is answered statelessly; nothing else reaches it.
            (
                Closed,
                Syn | SynAck | AckOfSyn | Fin | AckOfFin | Finish | Abort | Rst | TimeWaitOver
                | GiveUp,
            ) => return None,
            (Listen, SynAck | AckOfSyn | Fin | AckOfFin | Rst | TimeWaitOver | GiveUp) => {
                return None;
            }
            // Before the peer's SYN nothing else of it is acceptable.
            (SynSent, AckOfSyn | Fin | AckOfFin | TimeWaitOver) => return None,
            (SynReceived, Syn | AckOfFin | TimeWaitOver) => return None,
            // Once synchronized a SYN is answered with a challenge (RFC 5961 §4.2) and moves nothing.
            (
                Established | FinWait1 | FinWait2 | CloseWait | Closing | LastAck | TimeWait,
                Syn | SynAck | AckOfSyn,
            ) => return None,
            // The peer's FIN was received before.
            (CloseWait | Closing | LastAck, Fin) => return None,
            // Our FIN is not sent, or is acknowledged already.
            (Established | CloseWait | FinWait2 | TimeWait, AckOfFin) => return None,
            // Finished before.
            (FinWait1 | FinWait2 | Closing | LastAck | TimeWait, Finish) => return None,
            // The wait has not begun.
            (Established | FinWait1 | FinWait2 | CloseWait | Closing | LastAck, TimeWaitOver) => {
                return None;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashSet, VecDeque};

    #[test]
    fn every_state_is_reachable_and_leads_back_to_closed() {
        for start in State::ALL {
            let mut seen = HashSet::from([start]);
            let mut queue = VecDeque::from([start]);
            while let Some(state) = queue.pop_front() {
                for (next, _) in Event::ALL.iter().filter_map(|&e| state.on(e)) {
                    if seen.insert(next) {
                        queue.push_back(next);
                    }
                }
            }
            assert!(seen.contains(&Closed), "{start:?} never closes");
            if start == Closed {
                assert_eq!(seen.len(), State::ALL.len());
            }
        }
    }

    #[test]
    fn a_release_always_ends_in_closed_and_nothing_else_does() {
        for state in State::ALL {
            for event in Event::ALL {
                if let Some((next, action)) = state.on(event) {
                    let releases = matches!(action, Release | SendRstRelease | BackToListen);
                    assert_eq!(releases, next == Closed, "{state:?} {event:?}");
                }
            }
        }
    }

    /// The ways through a whole life, as in RFC 9293 Figures 6, 7, 12 and 13.
    #[test]
    fn lives() {
        let walk = |path: &[Event]| {
            path.iter()
                .fold(Closed, |s, &e| s.on(e).expect("a meaningful event").0)
        };
        assert_eq!(walk(&[ActiveOpen, SynAck]), Established);
        assert_eq!(walk(&[PassiveOpen, Syn, AckOfSyn]), Established);
        assert_eq!(walk(&[ActiveOpen, Syn, SynAck]), Established);
        assert_eq!(walk(&[ActiveOpen, SynAck, Finish, AckOfFin, Fin]), TimeWait);
        assert_eq!(
            walk(&[ActiveOpen, SynAck, Finish, Fin, AckOfFin, TimeWaitOver]),
            Closed
        );
        assert_eq!(
            walk(&[PassiveOpen, Syn, AckOfSyn, Fin, Finish, AckOfFin]),
            Closed
        );
    }
}
