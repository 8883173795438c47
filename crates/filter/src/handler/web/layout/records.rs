//! The fields of what lies in the memory: bytes from the beginning of each.

/// A connection that was handed up.
pub mod handed {
    /// Its number and one more, once the rest is written.
    pub const NUMBER: u64 = 0;
    /// Addresses, and behind them the ports, as in a slot.
    pub const ENDS: u64 = 8;
    /// The next sequence number of the peer, then ours, four bytes each.
    pub const NUMBERS: u64 = 48;
    /// Timestamps, as in a slot.
    pub const STAMPS: u64 = 56;
    /// What the cookie kept, and the window, as in a slot.
    pub const KEPT: u64 = 64;
    /// The peer's sequence number that the connection began with, four bytes.
    pub const FIRST: u64 = 72;
    /// The note of the last response, four bytes.
    pub const NOTE: u64 = 76;
    /// Of the response that was sent and is not acknowledged the version, four bytes, which is 0 where all is, and the entry, as in a slot.
    pub const SENT: u64 = 80;
    /// When the request that it answers came, as in a slot.
    pub const BEGUN: u64 = 88;
    /// The first of our sequence numbers that is not acknowledged, four bytes.
    pub const UNA: u64 = 96;
    /// Our next one with all that has left, four bytes: one beyond that of [`NUMBERS`] where our FIN has left, too.
    pub const END: u64 = 100;
    /// When something last came, as in a slot.
    pub const TIME: u64 = 104;
}

/// A slot.
pub mod slot {
    /// 0, or 1 while somebody changes it.
    pub const LOCK: u64 = 0;
    /// The server's address, then the peer's, as [`ends`](super::super::ends) has them.
    pub const ENDS: u64 = 8;
    /// Behind them the server's port in the upper half of four bytes, the peer's in the lower.
    pub const PORTS: u64 = ENDS + 32;
    /// How often the last response was sent again, four bytes.
    pub const RESENT: u64 = 44;
    /// One of the states below.
    pub const STATE: u64 = 48;
    /// The next sequence number of the peer, four bytes.
    pub const RCV: u64 = 56;
    /// Ours, four bytes.
    pub const NXT: u64 = 60;
    /// The first of ours that the peer has not acknowledged, four bytes.
    pub const UNA: u64 = 64;
    /// Where the last request began, four bytes.
    pub const LAST: u64 = 68;
    /// Where the entry of the last response is, from the first on, four bytes.
    pub const ENTRY: u64 = 72;
    /// The peer's sequence number that the connection began with, four bytes.
    pub const FIRST: u64 = 76;
    /// Index of the MSS, then bits of the timestamp (`exos_wire::tcp::cookie`): as the cookie has it, four bytes.
    pub const KEPT: u64 = 80;
    /// The window that the peer last announced, as it stands in the segment, and above it, from [`CORE_SHIFT`] on, the core that the
    /// segment's queue belongs to: four bytes.
    pub const WINDOW: u64 = 84;
    /// Bits of the window.
    pub const CORE_SHIFT: u32 = 16;
    /// When something last came, in milliseconds of the monotonic clock.
    pub const TIME: u64 = 88;
    /// The peer's last timestamp, and what it echoed, four bytes each.
    pub const STAMPS: u64 = 96;
    /// The version of the last response, four bytes.
    pub const VERSION: u64 = 104;
    /// The note of the last response, four bytes.
    pub const NOTE: u64 = 108;
    /// No connection may begin in this slot until then.
    pub const CLOSED: u64 = 112;
    /// When the request came whose answer is to be reported, in nanoseconds of the monotonic clock; 0 where none is.
    pub const BEGUN: u64 = 120;

    /// Those that stand have [`ROOM`](super::super::ROOM), from [`OPEN`] to [`LAST_ACK`]: it goes up with them, or is given back.
    /// Free.
    pub const FREE: i32 = 0;
    /// The connection stands.
    pub const OPEN: i32 = 1;
    /// Our FIN has left with the response.
    pub const FINISHED: i32 = 2;
    /// The peer's FIN has come, and been answered with ours.
    pub const LAST_ACK: i32 = 3;
    /// Both have, and were acknowledged.
    pub const DONE: i32 = 4;
}

/// The word of a peer: from its lowest bits on, how many connections the peer has, here and in the server together; then how many
/// connections of others with this word the server has ([`BESIDE_SHIFT`](peer::BESIDE_SHIFT)); then the peer's
/// [tag](peer::TAG_SHIFT), which says nothing where it has none. While others have some, none begins here.
pub mod peer {
    /// The most that is counted of either.
    pub const MOST: u64 = (1 << BESIDE_SHIFT) - 1;
    /// See above.
    pub const BESIDE_SHIFT: u32 = 20;
    /// See above.
    pub const TAG_SHIFT: u32 = 40;
}

/// An entry.
pub mod entry {
    /// The request's hash, which is not 0; 0 where the entry answers nothing any more.
    pub const TAG: u64 = 0;
    /// Bytes of the request.
    pub const REQUEST_LEN: u64 = 8;
    /// Which response is up to date, four bytes: no other has this number, which is not 0, and whose lowest bit says which copy it is.
    pub const VERSION: u64 = 16;
    /// How often it was sent as an answer.
    pub const HITS: u64 = 24;
    /// Two copies of the response; behind them the request ([`Entries::request`](super::super::Entries::request)), then zeros.
    pub const COPIES: u64 = 64;
}

/// A copy of a response.
pub mod copy {
    /// The sum of its bytes (RFC 1071).
    pub const SUM: u64 = 0;
    /// How many there are.
    pub const LEN: u64 = 8;
    /// 1 where our FIN follows, four bytes.
    pub const CLOSES: u64 = 16;
    /// What the server calls it in reports, four bytes.
    pub const NOTE: u64 = 20;
    /// They.
    pub const BYTES: u64 = 24;
}

/// A report.
pub mod report {
    /// Its number and one more, once the rest is written.
    pub const NUMBER: u64 = 0;
    /// The peer's address, as [`ends`](super::super::ends) has it.
    pub const PEER: u64 = 8;
    /// The response's note.
    pub const NOTE: u64 = 24;
    /// When the request came, in nanoseconds of the monotonic clock.
    pub const BEGUN: u64 = 32;
    /// When the response was taken, or the connection over.
    pub const ENDED: u64 = 40;
    /// 1 where the peer has acknowledged the response, else 0.
    pub const IS_TAKEN: u64 = 48;
}
