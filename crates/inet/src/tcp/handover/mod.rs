//! Connections as values: taken out of one stack, put into another, also in another process.
//!
//! A [`DetachedConnection`](detached::DetachedConnection) is bytes, owned and `Send`: what both sides have agreed on, the numbers, the
//! bytes queued and received, and what is known of the path. Times are told as ages, and the clock of
//! timestamps by what it showed, so that the stacks' clocks need not have the same start.
//!
//! What does not travel: when each segment in flight left (the whole flight counts as one that has left
//! just now and measures nothing), a repair in progress, the neighbour, the listener, the pacing of the
//! moment. The congestion window travels.
//!
//! **Between the stacks** the peer goes on sending. The old stack remembers the flow (`silence`) and is
//! silent about its segments for [`HANDED_OVER_HOLD`](crate::limits::HANDED_OVER_HOLD), and for as long again
//! after each that still comes. Until then the caller brings the flow's packets to the new stack; what is lost
//! on the way is sent again by its sender.
//!
//! **The bytes**, all numbers little-endian:
//!
//! ```text
//! 0   "EXTC"
//! 4   version, 2 bytes
//! 6   length of all, 4 bytes
//! 10  the flow: our address and the peer's, 16 bytes each (IPv4 in its mapped form), our port and theirs
//! 46  the other fields, in the order of the list in `connection::travel`, each as `codec` says of its kind;
//!     the send queue is the last but one of the list; then the full MSS (2 bytes), congestion control (the name
//!     as a block, four numbers of 8 bytes), the received bytes (a block), what waits beyond gaps:
//!     how many ranges (4 bytes), of each its first sequence number and the bytes (a block, zeros
//!     where they are skipped), and how many more bytes are skipped (4 bytes)
//! ```
//!
//! They come from another process, so they are judged like a packet: [`decode`](detached::DetachedConnection::decode) gives a
//! connection of which all holds that this stack relies on, or says what does not. They are not signed:
//! anyone who can write them can send and read as the program that takes them.

pub mod detached;
