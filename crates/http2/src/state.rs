//! The states of a stream, and what takes it from one to another (RFC 9113 §5.1), for the server's side, which promises nothing.

use crate::error::Fault;

/// A stream's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing was sent on it.
    Idle,
    /// Both may send.
    Open,
    /// We have ended our side.
    HalfClosedLocal,
    /// The peer has ended its side.
    HalfClosedRemote,
    /// Nothing more is sent.
    Closed,
}

/// What happens to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamEvent {
    /// A header block has come.
    ReceiveHeaders,
    /// One that ends the peer's side.
    ReceiveLastHeaders,
    /// Data has come.
    ReceiveData,
    /// Data that ends the peer's side.
    ReceiveLastData,
    /// The peer has given it up.
    ReceiveReset,
    /// The peer opens its window.
    ReceiveWindowUpdate,
    /// A header block or data is sent.
    Send,
    /// One that ends our side.
    SendLast,
    /// We give it up.
    SendReset,
}

impl State {
    /// All of them.
    pub const ALL: [State; 5] = [
        State::Idle,
        State::Open,
        State::HalfClosedLocal,
        State::HalfClosedRemote,
        State::Closed,
    ];

    /// What follows.
    ///
    /// # Errors
    ///
    /// What the peer did wrong; for our own events it says that these have no place there.
    #[inline]
    pub const fn on(self, event: StreamEvent) -> Result<State, Fault> {
        use State::*;
        use StreamEvent as E;
        Ok(match (self, event) {
            (Idle, E::ReceiveHeaders) => Open,
            (Idle, E::ReceiveLastHeaders) => HalfClosedRemote,
            (
                Idle,
                E::ReceiveData
                | E::ReceiveLastData
                | E::ReceiveReset
                | E::ReceiveWindowUpdate
                | E::Send
                | E::SendLast
                | E::SendReset,
            ) => return Err(Fault::IdleStream),

            // Behind the head only what ends the stream may be another one: trailers (§8.1).
            (Open | HalfClosedLocal, E::ReceiveHeaders) => return Err(Fault::Malformed),
            (Open, E::ReceiveLastHeaders | E::ReceiveLastData) => HalfClosedRemote,
            (Open, E::ReceiveData | E::ReceiveWindowUpdate | E::Send) => Open,
            (Open, E::SendLast) => HalfClosedLocal,

            (HalfClosedLocal, E::ReceiveLastHeaders | E::ReceiveLastData) => Closed,
            (HalfClosedLocal, E::ReceiveData | E::ReceiveWindowUpdate) => HalfClosedLocal,

            (HalfClosedRemote, E::ReceiveWindowUpdate | E::Send) => HalfClosedRemote,
            (HalfClosedRemote, E::SendLast) => Closed,
            (
                HalfClosedRemote,
                E::ReceiveHeaders | E::ReceiveLastHeaders | E::ReceiveData | E::ReceiveLastData,
            ) => return Err(Fault::ClosedStream),

            (Open | HalfClosedLocal | HalfClosedRemote, E::ReceiveReset | E::SendReset) => Closed,

            // They may have been under way (§5.1, closed).
            (Closed, E::ReceiveReset | E::ReceiveWindowUpdate | E::SendReset) => Closed,
            (
                Closed,
                E::ReceiveHeaders | E::ReceiveLastHeaders | E::ReceiveData | E::ReceiveLastData,
            ) => return Err(Fault::ClosedStream),
            (Closed | HalfClosedLocal, E::Send | E::SendLast) => return Err(Fault::ClosedStream),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [(StreamEvent, &str); 9] = [
        (StreamEvent::ReceiveHeaders, "headers"),
        (StreamEvent::ReceiveLastHeaders, "last headers"),
        (StreamEvent::ReceiveData, "data"),
        (StreamEvent::ReceiveLastData, "last data"),
        (StreamEvent::ReceiveReset, "reset"),
        (StreamEvent::ReceiveWindowUpdate, "window"),
        (StreamEvent::Send, "send"),
        (StreamEvent::SendLast, "send last"),
        (StreamEvent::SendReset, "send reset"),
    ];

    /// Every state with every event, as RFC 9113 §5.1 has them.
    #[test]
    fn the_whole_table() {
        use Fault::{ClosedStream as C, IdleStream as I, Malformed as M};
        use State::{Closed, HalfClosedLocal as L, HalfClosedRemote as R, Open as O};
        let gone = Ok(Closed);
        let (to, no) = (Ok::<State, Fault>, Err::<State, Fault>);
        for (state, wanted) in [
            (
                State::Idle,
                [
                    to(O),
                    to(R),
                    no(I),
                    no(I),
                    no(I),
                    no(I),
                    no(I),
                    no(I),
                    no(I),
                ],
            ),
            (
                O,
                [no(M), to(R), to(O), to(R), gone, to(O), to(O), to(L), gone],
            ),
            (
                L,
                [no(M), gone, to(L), gone, gone, to(L), no(C), no(C), gone],
            ),
            (
                R,
                [no(C), no(C), no(C), no(C), gone, to(R), to(R), gone, gone],
            ),
            (
                Closed,
                [no(C), no(C), no(C), no(C), gone, gone, no(C), no(C), gone],
            ),
        ] {
            for ((event, name), wanted) in EVENTS.into_iter().zip(wanted) {
                assert_eq!(state.on(event), wanted, "{state:?}, {name}");
            }
        }
    }

    /// No way leads out of the closed state, and each state is reached.
    #[test]
    fn closed_is_the_end() {
        let reached: Vec<State> = State::ALL
            .into_iter()
            .flat_map(|state| {
                EVENTS
                    .into_iter()
                    .filter_map(move |(event, _)| state.on(event).ok())
            })
            .collect();
        assert!(State::ALL[1..].iter().all(|state| reached.contains(state)));
        assert!(
            EVENTS
                .iter()
                .all(|(event, _)| State::Closed.on(*event) != Ok(State::Open))
        );
    }
}
