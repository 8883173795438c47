//! One name and family on its way from server to server: what each event leads to.
//!
//! Servers are asked one at a time. A query is a datagram at first; over TCP it is repeated where the answer did not fit,
//! or where the answer's letters raise the doubt that another may have sent it. An answer that can be taken ends the exchange by
//! every transport, and is not in the table.

/// How a server is being asked.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Transport {
    /// By a datagram.
    Datagram,
    /// Over TCP, as configured or because the answer did not fit into a datagram.
    Stream,
    /// Over TCP, because an answer came with other letters than were sent: there nobody can forge it who is not on the path.
    Proof,
}

/// What happens to a query.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Event {
    /// Its answer did not fit into the datagram.
    Truncated,
    /// Its answer has the name in other letters.
    CaseLost,
    /// There were enough wrong messages that somebody may be guessing.
    Guesses,
    /// It does not understand EDNS.
    EdnsRefused,
    /// It cannot or will not answer.
    Failure,
    /// It cannot be reached, or closed the connection.
    Unreachable,
    /// It was silent for as long as is configured.
    TimedOut,
    /// The local port is another's.
    PortInUse,
}

/// What is done then.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    /// The server is asked again, by this transport.
    Again(Transport),
    /// Again without EDNS, from now on.
    WithoutEdns(Transport),
    /// Again with letters as they are, from now on.
    WithoutCase,
    /// Again from another port.
    OtherPort,
    /// The next server is asked.
    NextServer,
}

impl Transport {
    /// The table of transitions. What it does not end is bounded elsewhere: servers and their attempts are counted, each
    /// server loses EDNS and case once, and ports are tried [`PORT_TRIES_MAX`](crate::limits::PORT_TRIES_MAX) times.
    pub(crate) const fn on(self, event: Event) -> Step {
        use Event::*;
        use Transport::*;
        match (self, event) {
            // RFC 7766 §5; and RFC 5452 §9.3: what cannot be forged is asked over TCP.
            (Datagram, Truncated | Guesses) => Step::Again(Stream),
            (Datagram, CaseLost) => Step::Again(Proof),
            // Over TCP nothing is cut off, and letters prove nothing.
            (Stream | Proof, Truncated | CaseLost | Guesses) => Step::NextServer,
            // RFC 6891 §6.2.2.
            (Datagram | Stream | Proof, EdnsRefused) => Step::WithoutEdns(self),
            (Datagram | Stream | Proof, Failure) => Step::NextServer,
            (Datagram | Stream, Unreachable | TimedOut) => Step::NextServer,
            // A server without TCP that loses the case: another datagram must be forged with a new port and identifier.
            (Proof, Unreachable | TimedOut) => Step::WithoutCase,
            (Datagram, PortInUse) => Step::OtherPort,
            // TCP takes its ports by itself.
            (Stream | Proof, PortInUse) => Step::NextServer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair of a transport and an event, spelled out a second time.
    #[test]
    fn table() {
        use Step::*;
        let events = [
            Event::Truncated,
            Event::CaseLost,
            Event::Guesses,
            Event::EdnsRefused,
            Event::Failure,
            Event::Unreachable,
            Event::TimedOut,
            Event::PortInUse,
        ];
        let (again, edns) = (Step::Again, Step::WithoutEdns);
        let table = [
            (
                Transport::Datagram,
                [
                    again(Transport::Stream),
                    again(Transport::Proof),
                    again(Transport::Stream),
                    edns(Transport::Datagram),
                    NextServer,
                    NextServer,
                    NextServer,
                    OtherPort,
                ],
            ),
            (
                Transport::Stream,
                [
                    NextServer,
                    NextServer,
                    NextServer,
                    edns(Transport::Stream),
                    NextServer,
                    NextServer,
                    NextServer,
                    NextServer,
                ],
            ),
            (
                Transport::Proof,
                [
                    NextServer,
                    NextServer,
                    NextServer,
                    edns(Transport::Proof),
                    NextServer,
                    WithoutCase,
                    WithoutCase,
                    NextServer,
                ],
            ),
        ];
        for (transport, steps) in table {
            for (event, step) in events.into_iter().zip(steps) {
                assert_eq!(transport.on(event), step, "{transport:?} on {event:?}");
            }
        }
    }
}
