//! How a flow stands, by the segments of both sides that were seen, and for how long it is remembered in silence.
//!
//! The forwarder is no party to a connection: it does not know which sequence numbers its ends expect. So it believes
//! only what cannot do much harm when it is forged:
//!
//! - **Established** is a connection whose client has acknowledged the server's SYN, and so has seen it. Who floods us with
//!   SYNs from addresses that are not his has not, and all he makes stays in [`Class::Opening`], which is bounded.
//! - **A reset** moves an established flow to where it is soon forgotten, but any other segment after it moves it back.
//!   Whoever had really reset the connection answers that segment with a reset again.
//! - **Both FINs** end a connection; then only a SYN begins another.

use std::time::Duration;

use crate::limits::{CLOSING_TIME, ESTABLISHED_TIME, OPENING_TIME, TALKING_TIME};
use crate::packet::Transport;

/// How a flow stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// TCP: the client has sent a SYN.
    SynSeen,
    /// TCP: the server has answered it.
    SynAnswered,
    /// TCP: the client has seen the answer.
    Established,
    /// TCP: the client has sent all it had.
    ClientFinished,
    /// TCP: the server has.
    ServerFinished,
    /// TCP: both have.
    Finished,
    /// TCP: somebody refused the connection before it stood.
    Refused,
    /// TCP: somebody reset an established connection.
    Reset,
    /// UDP: the client has sent something.
    OneWay,
    /// UDP: the server has answered.
    BothWays,
}

/// What a segment says of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The client asks for a connection.
    Syn,
    /// The server agrees.
    SynAck,
    /// The client acknowledges the server's SYN, before all else that the segment says.
    Proof,
    /// The client has sent all it had.
    ClientFin,
    /// The server has.
    ServerFin,
    /// Either of them resets the connection.
    Rst,
    /// Nothing of these.
    Other,
}

/// What flows are alike in: how long they may be silent, and which go first when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// Over, but for segments that are sent again.
    Closing,
    /// Nobody has shown to be there.
    Opening,
    /// Datagrams both ways.
    Talking,
    /// A connection.
    Established,
}

impl Class {
    /// In the order in which they are given up.
    pub const ALL: [Self; 4] = [
        Self::Closing,
        Self::Opening,
        Self::Talking,
        Self::Established,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Closing => "closing",
            Self::Talking => "talking",
            Self::Established => "established",
        }
    }

    /// How long a flow may be silent.
    pub const fn time(self) -> Duration {
        match self {
            Self::Opening => OPENING_TIME,
            Self::Closing => CLOSING_TIME,
            Self::Talking => TALKING_TIME,
            Self::Established => ESTABLISHED_TIME,
        }
    }

    /// True for what is given up without harm to anybody who is there.
    #[inline]
    pub const fn is_spare(self) -> bool {
        matches!(self, Self::Opening | Self::Closing)
    }
}

impl State {
    /// All of them.
    pub const ALL: [Self; 10] = {
        use State::*;
        [
            SynSeen,
            SynAnswered,
            Established,
            ClientFinished,
            ServerFinished,
            Finished,
            Refused,
            Reset,
            OneWay,
            BothWays,
        ]
    };

    /// Of which protocol a flow is that stands so.
    pub const fn transport(self) -> Transport {
        match self {
            Self::OneWay | Self::BothWays => Transport::Udp,
            _ => Transport::Tcp,
        }
    }

    /// What it is alike with.
    #[inline]
    pub const fn class(self) -> Class {
        match self {
            Self::SynSeen | Self::SynAnswered | Self::OneWay => Class::Opening,
            Self::Established | Self::ClientFinished | Self::ServerFinished => Class::Established,
            Self::Finished | Self::Refused | Self::Reset => Class::Closing,
            Self::BothWays => Class::Talking,
        }
    }

    /// True when a SYN of the client begins another connection.
    #[inline]
    pub const fn is_over(self) -> bool {
        matches!(self.class(), Class::Closing)
    }

    /// How a connection stands after an event.
    #[inline]
    pub const fn on(self, event: Event) -> Self {
        use Event::*;
        use State::*;
        match (self, event) {
            (SynSeen, SynAck) => SynAnswered,
            (SynSeen | SynAnswered, Rst) => Refused,
            // Without a SYN-ACK there is nothing to prove, nor to finish.
            (SynSeen, Syn | Proof | ClientFin | ServerFin | Other) => SynSeen,
            (SynAnswered, Proof) => Established,
            (SynAnswered, Syn | SynAck | ClientFin | ServerFin | Other) => SynAnswered,

            (Established, ClientFin) => ClientFinished,
            (Established, ServerFin) => ServerFinished,
            (Established | ClientFinished | ServerFinished, Rst) => Reset,
            // Whoever has a connection answers a SYN with an acknowledgement (RFC 9293 §3.10.7.4).
            (Established, Syn | SynAck | Proof | Other) => Established,
            (ClientFinished, ServerFin) | (ServerFinished, ClientFin) => Finished,
            (ClientFinished, Syn | SynAck | Proof | ClientFin | Other) => ClientFinished,
            (ServerFinished, Syn | SynAck | Proof | ServerFin | Other) => ServerFinished,

            // The client uses its port again.
            (Finished | Refused | Reset, Syn) => SynSeen,
            (Finished, SynAck | Proof | ClientFin | ServerFin | Rst | Other) => Finished,
            // The answer to a SYN whose reset was forged.
            (Refused, SynAck) => SynAnswered,
            (Refused, Proof | ClientFin | ServerFin | Rst | Other) => Refused,
            // Somebody goes on: the reset was not for real, or is repeated now.
            (Reset, SynAck | Proof | ClientFin | ServerFin | Other) => Established,
            (Reset, Rst) => Reset,

            // UDP has none of these.
            (OneWay, _) => OneWay,
            (BothWays, _) => BothWays,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Event::*;

    const EVENTS: [Event; 7] = [Syn, SynAck, Proof, ClientFin, ServerFin, Rst, Other];

    fn after(events: &[Event]) -> State {
        let begin = State::SynSeen;
        events.iter().fold(begin, |state, &event| state.on(event))
    }

    #[test]
    fn the_usual_life() {
        assert_eq!(after(&[SynAck, Proof]), State::Established);
        assert_eq!(
            after(&[SynAck, Proof, ClientFin, Other, ServerFin]),
            State::Finished
        );
        assert_eq!(
            after(&[SynAck, Proof, ServerFin, ClientFin, Other]),
            State::Finished
        );
        assert_eq!(after(&[Rst]), State::Refused);
        assert_eq!(
            after(&[SynAck, Proof, ServerFin, ClientFin, Syn]),
            State::SynSeen
        );
    }

    /// Whatever else comes, no flow is established without a SYN-ACK and then a proof.
    #[test]
    fn nobody_is_established_unproven() {
        // All sequences of six events.
        for number in 0..7usize.pow(6) {
            let events: Vec<Event> = (0..6).map(|n| EVENTS[number / 7usize.pow(n) % 7]).collect();
            let answered = events.iter().position(|&e| e == SynAck);
            let proven = answered.is_some_and(|at| events[at..].contains(&Proof));
            let established = after(&events).class() == Class::Established;
            assert!(proven || !established, "{events:?}");
        }
    }

    /// A forged reset is made good by the next segment, and a real one is repeated.
    #[test]
    fn resets_are_not_the_last_word() {
        let reset = after(&[SynAck, Proof, Rst]);
        assert_eq!(reset.class(), Class::Closing);
        assert_eq!(reset.on(Other), State::Established);
        assert_eq!(reset.on(Other).on(Rst), State::Reset);
    }

    #[test]
    fn only_a_syn_begins_anew() {
        for event in EVENTS {
            let begins = State::Finished.on(event) != State::Finished;
            assert_eq!(begins, event == Syn, "{event:?}");
        }
    }
}
