//! What comes out of a resolver: what its caller is to do, and what becomes of lookups.

use crate::error::Error;
use crate::family::Family;
use exos_inet::Instant;
use std::net::{IpAddr, SocketAddr};

/// The number of a lookup.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct LookupId(pub(crate) u64);

/// The number of a query, which has a socket of its own. Never used twice.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct QueryId(pub(crate) u64);

/// What the caller is to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Bind a UDP socket to this port, send the message to the server, and give what arrives there to
    /// [`Resolver::handle_datagram`](crate::Resolver::handle_datagram). If the port is taken, [`Resolver::handle_port_in_use`](crate::Resolver::handle_port_in_use).
    Datagram {
        /// Whose socket it is.
        query: QueryId,
        /// The local port.
        port: u16,
        /// The server.
        server: SocketAddr,
        /// The datagram's payload.
        message: Vec<u8>,
    },
    /// Connect to the server by TCP, write the bytes, and give what arrives to [`Resolver::handle_stream`](crate::Resolver::handle_stream). When it cannot be
    /// connected, or ends, [`Resolver::handle_failure`](crate::Resolver::handle_failure).
    Stream {
        /// Whose connection it is.
        query: QueryId,
        /// The server.
        server: SocketAddr,
        /// What to write.
        bytes: Vec<u8>,
    },
    /// The query is over: close its socket, if it has one.
    Close {
        /// Whose socket.
        query: QueryId,
    },
}

/// What becomes of a lookup.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// All addresses of one family, perhaps none, while the other may still be asked for. Said only where the name has
    /// addresses.
    Family {
        /// Of which lookup.
        lookup: LookupId,
        /// The family.
        family: Family,
        /// Its addresses, in the order of the answer.
        addresses: Vec<IpAddr>,
    },
    /// The lookup's end.
    Done {
        /// Which lookup.
        lookup: LookupId,
        /// All addresses, IPv6 first, or why there are none.
        result: Result<Vec<IpAddr>, Error>,
        /// Until when the addresses hold, by the least TTL of theirs; `None` where no server has told them.
        until: Option<Instant>,
        /// The family of which nobody could say whether the name has addresses, and why, where it has some of the other.
        failed: Option<(Family, Error)>,
    },
}
