//! What a program hears: news of its connections, why one is over, why one could not be made.

use crate::tcp::values::id::ConnectionId;

/// News of a connection.
#[derive(Copy, Clone, Debug)]
pub struct Event {
    /// Which connection.
    pub connection: ConnectionId,
    /// The program's word for it.
    pub token: u64,
    /// What happened.
    pub set: EventSet,
    /// Why it is over, where `set` says so.
    pub reason: Reason,
}

/// Why a listener or a connection could not be made.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum OpenError {
    /// Something listens on that address and port already.
    PortTaken,
    /// There is a connection between these addresses and ports already.
    FlowTaken,
    /// Every local port is used towards that peer.
    NoPort,
    /// The stack holds as many connections as it may.
    Full,
    /// No route, or no address of ours, leads there.
    NoRoute,
    /// The address is a group's or everybody's (RFC 9293 §3.9.2.3, MUST-46).
    NotAHost,
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::PortTaken => "something listens on that address and port already",
            Self::FlowTaken => "there is a connection between these addresses and ports already",
            Self::NoPort => "every local port is used towards that peer; use another source address",
            Self::Full => "the stack holds as many connections as it may; raise the limit or close some",
            Self::NoRoute => "no address or route of this stack leads there; give an address in its network, or a gateway",
            Self::NotAHost => "that is a multicast or broadcast address; a connection is to one host",
        })
    }
}

impl std::error::Error for OpenError {}

/// What a program hears of a connection. Several may come at once.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct EventSet(u8);

impl EventSet {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// A listener's connection stands.
    pub const ACCEPTED: Self = Self(1);
    /// A connection that the program opened stands.
    pub const CONNECTED: Self = Self(2);
    /// There are bytes to read that the program has not seen.
    pub const READABLE: Self = Self(4);
    /// The peer has acknowledged more of what the program sent.
    pub const ACKNOWLEDGED: Self = Self(8);
    /// The peer has finished: after the readable bytes nothing more comes.
    pub const FINISHED: Self = Self(16);
    /// The connection is over; its identity means nothing any more.
    pub const CLOSED: Self = Self(32);

    /// As a number.
    pub(in crate::tcp) const fn bits(self) -> u8 {
        self.0
    }

    /// From that number, of a connection that is not over.
    pub(in crate::tcp) const fn from_bits(bits: u8) -> Option<Self> {
        if bits < Self::CLOSED.0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// True when all of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True when there is nothing to hear.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Both.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in this set and not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// Why a connection is over.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Reason {
    /// Both sides finished, all data was delivered.
    Done,
    /// The peer reset the connection.
    Reset,
    /// Nobody listens there: a reset answered our SYN.
    Refused,
    /// The peer did not answer for too long.
    TimedOut,
    /// The program gave the connection up.
    Aborted,
    /// ICMP says that the peer cannot be reached.
    Unreachable,
}
