//! What the programs of a simulation do with their connections: a [`Plan`] each, and what came of
//! it.
//!
//! Plans are data, so that a test can be read: send this many bytes, wait for the peer first or not,
//! finish or abort, read at once, slowly or not at all, echo. The bytes sent are a pattern that
//! both sides can compute ([`pattern`]), so that every received byte can be checked.

use exos_inet::tcp::{ConnectionId, Reason};
use exos_inet::{Duration, Instant};

/// How a program takes what arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Everything, at once.
    Promptly,
    /// At most this many bytes each time.
    Slowly {
        /// Bytes taken.
        bytes: usize,
        /// Time between.
        every: Duration,
    },
    /// Not at all, so that the window closes.
    Never,
}

/// What a program does when all that it has to send is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing more.
    Stay,
    /// Finish: a FIN follows.
    Finish,
    /// Abort once the peer has all of it: a reset follows.
    Abort,
}

/// What a program does with one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Bytes of the pattern to send.
    pub send: usize,
    /// Begin to send when this many bytes have arrived.
    pub after: usize,
    /// What to do behind them.
    pub then: Then,
    /// Send back whatever arrives.
    pub echo: bool,
    /// Finish when the peer has finished, and everything is queued.
    pub finish_with_peer: bool,
    /// How to read.
    pub reading: Reading,
    /// Largest slice given to the stack at once, in bytes.
    pub slice_max: usize,
}

impl Plan {
    /// Do nothing but read: the test gives the commands.
    pub const MANUAL: Plan = Plan {
        send: 0,
        after: 0,
        then: Then::Stay,
        echo: false,
        finish_with_peer: false,
        reading: Reading::Promptly,
        slice_max: 4_000,
    };

    /// Read, and finish when the peer does.
    pub const LISTEN: Plan = Plan {
        finish_with_peer: true,
        ..Plan::MANUAL
    };

    /// Send everything back, and finish when the peer does.
    pub const ECHO: Plan = Plan {
        echo: true,
        finish_with_peer: true,
        ..Plan::MANUAL
    };

    /// Send `bytes` and finish.
    pub const fn upload(bytes: usize) -> Plan {
        Plan {
            send: bytes,
            then: Then::Finish,
            ..Plan::MANUAL
        }
    }

    /// Send `bytes` as soon as a request has come, and finish.
    pub const fn serve(bytes: usize) -> Plan {
        Plan {
            after: 1,
            ..Plan::upload(bytes)
        }
    }

    /// Send a request of 100 bytes, read the answer, finish when the peer does.
    pub const fn fetch() -> Plan {
        Plan {
            send: 100,
            finish_with_peer: true,
            ..Plan::MANUAL
        }
    }
}

/// The pattern's byte at `offset`, of the side that opened the connection or of the other.
pub fn pattern(active: bool, offset: usize) -> u8 {
    // Multiplication spreads the offset over the word: no two places within a window look alike for
    // long.
    let word =
        (offset as u64 + if active { 1 << 40 } else { 0 }).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> 56) as u8
}

/// A connection as its program sees it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub(crate) id: ConnectionId,
    pub(crate) plan: Plan,
    /// This side opened it.
    pub active: bool,
    /// Bytes of the pattern given to the stack.
    pub sent: usize,
    /// All bytes taken from the stack.
    pub received: Vec<u8>,
    /// It stands, or has stood.
    pub established: bool,
    /// The peer has finished, and everything before that was read.
    pub peer_finished: bool,
    /// It is over, and why.
    pub closed: Option<Reason>,
    pub(crate) echoed: usize,
    pub(crate) finished: bool,
    pub(crate) saw_fin: bool,
    pub(crate) read_at: Instant,
}

impl Endpoint {
    pub(crate) fn new(id: ConnectionId, plan: Plan, active: bool, now: Instant) -> Endpoint {
        Endpoint {
            id,
            plan,
            active,
            sent: 0,
            received: Vec::new(),
            established: false,
            peer_finished: false,
            closed: None,
            echoed: 0,
            finished: false,
            saw_fin: false,
            read_at: now,
        }
    }

    /// Bytes of the pattern that the program would like to hand over now.
    pub(crate) fn wants_to_send(&self) -> usize {
        if self.received.len() < self.plan.after {
            0
        } else {
            self.plan.send - self.sent
        }
    }

    /// True when nothing is left to be queued.
    pub(crate) fn has_queued_all(&self) -> bool {
        self.sent == self.plan.send && (!self.plan.echo || self.echoed == self.received.len())
    }

    /// True when what arrived is the beginning of the peer's pattern, of any length.
    pub fn received_pattern(&self) -> bool {
        self.received
            .iter()
            .enumerate()
            .all(|(offset, &byte)| byte == pattern(!self.active, offset))
    }
}
