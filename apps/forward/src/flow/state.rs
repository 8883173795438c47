//! How a flow stands, by the segments of both sides that were seen, and for how long it is remembered in silence.
//!
//! The forwarder is no party to a connection: it does not know which sequence numbers its ends expect. So it believes
//! only what cannot do much harm when it is forged:
//!
//! - **Established** is a connection whose client has acknowledged the server's SYN, and so has seen it. Who floods us with
//!   SYNs from addresses that are not theirs has not, and all they make stays in [`Class::Opening`], which is bounded.
//! - **A reset** moves an established flow to where it is soon forgotten, if its sequence number says that its sender knows
//!   the connection ([`numbers`](super::numbers)). What shows that the connection goes on all the same moves it back.
//! - **Both FINs** end a connection; then only a SYN begins another.
//!
//! Where servers answer clients by themselves ([`Reach::Direct`]) only the client is heard, and nothing that
//! it says proves anything: who forges a SYN forges the segment after it too. So such flows are never established here, but
//! in a class of their own ([`Class::Claimed`]), which is given up before any that has shown to be there. And after the
//! client's FIN, which may or may not be the end of it, a flow is closing.

use std::time::Duration;

use crate::limits::{
    ANSWERED_TIME, CLOSING_TIME, ESTABLISHED_TIME, OPENING_TIME, TALKING_TIME, WELL_KNOWN_PORTS,
};
use crate::packets::packet::Transport;
use crate::packets::reach::Reach;

/// How a flow stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::VariantArray)]
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
    /// TCP, of which the client alone is heard: it has sent a SYN.
    Asked,
    /// TCP, the same: it goes on after that.
    GoesOn,
    /// TCP, the same: it has sent all it had.
    SaidAll,
    /// TCP, the same: it has reset the connection.
    GivenUp,
    /// UDP, of which the client alone is heard: it has sent more than one.
    Repeated,
    /// UDP to a well-known port: the server has answered, and the client has said nothing more.
    Answered,
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

/// What flows are alike in: how long they may be silent, and which go first when there is no room, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum Class {
    /// Over, but for segments that are sent again.
    Closing,
    /// A connection of which nobody has shown to be there.
    Opening,
    /// Datagrams that nobody has answered.
    OneWay,
    /// One question and its answer.
    Answered,
    /// A connection by what the client alone says.
    Claimed,
    /// Datagrams both ways, or several where one way alone is seen.
    Talking,
    /// A connection.
    Established,
}

impl Class {
    /// Those of flows of datagrams, in the same order.
    pub const DATAGRAMS: [Self; 3] = [Self::OneWay, Self::Answered, Self::Talking];

    /// That of flows which have just begun.
    pub const fn first(transport: Transport) -> Self {
        match transport {
            Transport::Tcp => Self::Opening,
            Transport::Udp => Self::OneWay,
        }
    }

    /// How long a flow may be silent.
    pub const fn time(self) -> Duration {
        match self {
            Self::Opening | Self::OneWay => OPENING_TIME,
            Self::Answered => ANSWERED_TIME,
            Self::Closing => CLOSING_TIME,
            Self::Talking => TALKING_TIME,
            Self::Claimed | Self::Established => ESTABLISHED_TIME,
        }
    }

    /// In seconds, how exactly flows are known by the order in which they were last seen: a part of how long they may be silent.
    #[inline]
    pub const fn period(self) -> u32 {
        match self {
            Self::Answered => 1,
            Self::Closing | Self::Opening | Self::OneWay => 2,
            Self::Talking => 8,
            Self::Claimed | Self::Established => 32,
        }
    }

    /// True for what is given up without harm to anybody who is there.
    #[inline]
    pub const fn is_spare(self) -> bool {
        match self {
            Self::Closing | Self::Opening | Self::OneWay | Self::Answered => true,
            Self::Claimed | Self::Talking | Self::Established => false,
        }
    }
}

impl State {
    /// How a flow stands that has just begun.
    pub(crate) const fn first(reach: Reach, transport: Transport) -> Self {
        match (transport, reach.hears_servers()) {
            (Transport::Tcp, true) => Self::SynSeen,
            (Transport::Tcp, false) => Self::Asked,
            (Transport::Udp, _) => Self::OneWay,
        }
    }

    /// Of which protocol a flow is that stands so.
    pub const fn transport(self) -> Transport {
        match self {
            Self::OneWay | Self::BothWays | Self::Repeated | Self::Answered => Transport::Udp,
            _ => Transport::Tcp,
        }
    }

    /// True for how a flow may stand by this reach.
    pub const fn is_of(self, reach: Reach) -> bool {
        match self {
            Self::OneWay => true,
            Self::Asked | Self::GoesOn | Self::SaidAll | Self::GivenUp | Self::Repeated => {
                !reach.hears_servers()
            }
            _ => reach.hears_servers(),
        }
    }

    /// What it is alike with.
    #[inline]
    pub const fn class(self) -> Class {
        match self {
            Self::SynSeen | Self::SynAnswered | Self::Asked => Class::Opening,
            Self::OneWay => Class::OneWay,
            Self::Answered => Class::Answered,
            Self::Established | Self::ClientFinished | Self::ServerFinished => Class::Established,
            Self::Finished | Self::Refused | Self::Reset => Class::Closing,
            Self::SaidAll | Self::GivenUp => Class::Closing,
            Self::GoesOn => Class::Claimed,
            Self::BothWays | Self::Repeated => Class::Talking,
        }
    }

    /// True for what is over, but for segments that are sent again.
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
            // Anyone who has a connection answers a SYN with an acknowledgement (RFC 9293 §3.10.7.4).
            (Established, Syn | SynAck | Proof | Other) => Established,
            (ClientFinished, ServerFin) | (ServerFinished, ClientFin) => Finished,
            (ClientFinished, Syn | SynAck | Proof | ClientFin | Other) => ClientFinished,
            (ServerFinished, Syn | SynAck | Proof | ServerFin | Other) => ServerFinished,

            // The client uses its port again.
            (Finished | Refused, Syn) => SynSeen,
            (Finished, SynAck | Proof | ClientFin | ServerFin | Rst | Other) => Finished,
            // The reset was forged: the server answers the SYN, or the client has seen that it did.
            (Refused, SynAck) => SynAnswered,
            (Refused, Proof) => Established,
            (Refused, ClientFin | ServerFin | Rst | Other) => Refused,
            // Somebody goes on: the reset was not for real, or is repeated now.
            (Reset, Proof | ClientFin | ServerFin | Other) => Established,
            // A SYN alone may be forged as the reset before it: whether the client begins again, the server says.
            (Reset, SynAck) => SynAnswered,
            (Reset, Syn | Rst) => Reset,

            // The client alone is heard: nobody else is answered, acknowledged or finished.
            (Asked, Syn | SynAck | Proof | ServerFin) => Asked,
            (Asked, Other) => GoesOn,
            (Asked | GoesOn, ClientFin) => SaidAll,
            (Asked | GoesOn, Rst) => GivenUp,
            (GoesOn, Syn | SynAck | Proof | ServerFin | Other) => GoesOn,
            // Acknowledgements of what the server still sends, until the client uses its port again.
            (SaidAll, SynAck | Proof | ClientFin | ServerFin | Rst | Other) => SaidAll,
            (SaidAll | GivenUp, Syn) => Asked,
            // The reset was forged, or overtaken by what was sent before it: another segment has to say so too.
            (GivenUp, Other) => Asked,
            (GivenUp, ClientFin) => SaidAll,
            (GivenUp, SynAck | Proof | ServerFin | Rst) => GivenUp,

            // UDP has none of these.
            (OneWay, _) => OneWay,
            (BothWays, _) => BothWays,
            (Repeated, _) => Repeated,
            (Answered, _) => Answered,
        }
    }

    /// How datagrams stand when the server has sent one, of a flow to this port of ours.
    #[inline]
    pub const fn on_answer(self, port: u16) -> Self {
        match self {
            Self::OneWay | Self::Answered if port <= WELL_KNOWN_PORTS => Self::Answered,
            _ => Self::BothWays,
        }
    }

    /// How they stand when the client has sent one more.
    #[inline]
    pub const fn on_question(self) -> Self {
        match self {
            Self::Answered => Self::BothWays,
            _ => self,
        }
    }

    /// True where a server that refuses a SYN says that there is no connection.
    #[inline]
    pub(crate) const fn may_be_refused(self) -> bool {
        matches!(self, Self::SynSeen | Self::Reset)
    }

    /// True where a SYN of the client begins another connection by itself.
    #[inline]
    pub const fn begins_by_syn(self) -> bool {
        self.is_over() && !matches!(self, Self::Reset)
    }

    /// True where a reset has to show that its sender knows the connection.
    #[inline]
    pub const fn doubts_resets(self) -> bool {
        match self.class() {
            Class::Established | Class::Claimed => true,
            Class::Closing | Class::Opening | Class::OneWay | Class::Answered | Class::Talking => {
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Event::*;
    use strum::VariantArray as _;

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

    /// Whatever else comes, no flow is established without a SYN-ACK and then a proof, which there is none of before.
    #[test]
    fn nobody_is_established_unproven() {
        // All sequences of six events.
        for number in 0..7usize.pow(6) {
            let events: Vec<Event> = (0..6).map(|n| EVENTS[number / 7usize.pow(n) % 7]).collect();
            let answered = events.iter().position(|&e| e == SynAck);
            if events[..answered.unwrap_or(6)].contains(&Proof) {
                continue;
            }
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
        let in_handshake = after(&[SynAck, Rst]);
        assert_eq!(in_handshake.on(Proof), State::Established);
    }

    /// A reset and a SYN may both be forged: only the server's answer says that a connection begins.
    #[test]
    fn a_reset_and_a_syn_take_nothing_away() {
        let asked = after(&[SynAck, Proof, Rst, Syn]);
        assert_eq!(asked, State::Reset);
        assert_eq!(asked.on(Other), State::Established);
        assert_eq!(asked.on(SynAck), State::SynAnswered);
        assert_eq!(asked.on(SynAck).on(Proof), State::Established);
    }

    #[test]
    fn a_question_and_its_answer() {
        let answered = State::OneWay.on_answer(53);
        assert_eq!(answered, State::Answered);
        assert_eq!(answered.on_answer(53), State::Answered);
        assert_eq!(answered.on_question(), State::BothWays);
        assert_eq!(State::BothWays.on_answer(53), State::BothWays);
        assert_eq!(State::OneWay.on_answer(5060), State::BothWays);
        assert_eq!(State::OneWay.on_question(), State::OneWay);
    }

    /// What a client does, as the forwarder hears it.
    const CLIENT_EVENTS: [Event; 4] = [Syn, Other, ClientFin, Rst];

    fn after_client(events: &[Event]) -> State {
        let begin = State::Asked;
        events.iter().fold(begin, |state, &event| state.on(event))
    }

    #[test]
    fn the_usual_life_of_which_half_is_heard() {
        assert_eq!(after_client(&[Syn, Syn]).class(), Class::Opening);
        assert_eq!(after_client(&[Other, Other]).class(), Class::Claimed);
        let over = after_client(&[Other, ClientFin, Other, Other]);
        assert_eq!((over, over.class()), (State::SaidAll, Class::Closing));
        assert_eq!(over.on(Syn), State::Asked);
        assert_eq!(after_client(&[Other, Rst]).class(), Class::Closing);
    }

    /// All sequences of seven things that a client may do. It is never established; a FIN and a reset end what it claims; after
    /// a FIN it claims something only by another SYN and going on after that, and after a reset by going on twice.
    #[test]
    fn a_client_alone_only_claims() {
        for number in 0..4usize.pow(7) {
            let events: Vec<Event> = (0..7)
                .map(|n| CLIENT_EVENTS[number / 4usize.pow(n) % 4])
                .collect();
            let class = after_client(&events).class();
            let ended = matches!(events[6], ClientFin | Rst);
            assert!(!ended || class == Class::Closing, "{events:?}");
            assert!([Class::Opening, Class::Claimed, Class::Closing].contains(&class));
            if class != Class::Claimed {
                continue;
            }
            let since = |event| {
                let last = events.iter().rposition(|&e| e == event);
                last.map(|at| &events[at + 1..])
            };
            let goes_on_after = |events: &[Event], first: &[Event]| {
                let begun = events.iter().position(|e| first.contains(e));
                begun.is_some_and(|at| events[at + 1..].contains(&Other))
            };
            let finished = since(ClientFin).is_none_or(|rest| goes_on_after(rest, &[Syn]));
            let reset = since(Rst).is_none_or(|rest| goes_on_after(rest, &[Syn, Other]));
            assert!(events.contains(&Other) && finished && reset, "{events:?}");
        }
    }

    /// What a server would say changes nothing where it is not heard; and a state stays of its kind.
    #[test]
    fn servers_that_are_not_heard_say_nothing() {
        for &state in State::VARIANTS {
            let one_sided = state.is_of(Reach::Direct) && state != State::OneWay;
            assert_eq!(one_sided, !state.is_of(Reach::Nat), "{state:?}");
            for event in EVENTS {
                assert_eq!(
                    state.on(event).is_of(Reach::Direct),
                    state.is_of(Reach::Direct)
                );
            }
            if one_sided {
                assert!(
                    [SynAck, Proof, ServerFin]
                        .iter()
                        .all(|&e| state.on(e) == state)
                );
            }
        }
    }

    #[test]
    fn only_a_syn_begins_anew() {
        for event in EVENTS {
            let begins = State::Finished.on(event) != State::Finished;
            assert_eq!(begins, event == Syn, "{event:?}");
        }
    }
}
