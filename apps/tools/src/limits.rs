//! The limits of the small programs, each with its reason.

use std::time::Duration;

/// Connections at once. Each may have its receive buffer filled; the stack's policy bounds those
/// together, this the control blocks.
pub const CONNECTIONS_MAX: usize = 16 * 1024;

/// Bytes that one echo connection may have queued and not acknowledged: what arrived beyond it stays in
/// the receive buffer, whose window then closes. Enough for 1 Gbit/s at 8 ms.
pub const ECHO_QUEUE_MAX: usize = 1024 * 1024;

/// Bytes that one may have queued when many share [`ECHO_BYTES_MAX`]: a few segments, so that each goes on.
pub const ECHO_QUEUE_MIN: usize = 8 * 1024;

/// Bytes that all echo connections together may have queued, as long as [`ECHO_QUEUE_MIN`] for each is
/// less than that.
pub const ECHO_BYTES_MAX: usize = 256 * 1024 * 1024;

const _: () = assert!(
    CONNECTIONS_MAX * ECHO_QUEUE_MIN <= ECHO_BYTES_MAX,
    "the least queue of every connection fits what all may have"
);

/// Slices that one echo connection may have queued: peers that send byte by byte make slices of one byte,
/// which cost a hundred times that.
pub const ECHO_SLICES_MAX: usize = 1024;

/// Bytes of pattern queued beyond what is sent, at least; else a congestion window. A turn of the loop
/// sends no more than that before the program is asked again, and a limit of time is overshot by no more.
pub const CHARGEN_AHEAD_MIN: usize = 256 * 1024;

/// The longest slice of pattern queued at once.
pub const CHARGEN_SLICE_MAX: usize = 128 * 1024;

/// A connection on which nothing moves for so long is reset, so that clients that have gone do not hold
/// their places for ever.
pub const IDLE_TIME: Duration = Duration::from_secs(300);

/// How long a connection that we have finished may go without progress until the peer finishes too.
pub const LINGER_TIME: Duration = Duration::from_secs(30);

/// How long a stop waits for peers to finish before they are reset: a few round trips.
pub const GOODBYE_TIME: Duration = Duration::from_secs(1);

/// Connections reset in one go: a quarter of the answers that a stack queues.
pub const ABORTS_AT_ONCE: usize = exos_inet::limits::REPLIES_MAX / 4;

/// Connections that are listed in statistics, of those open and of those that have ended.
pub const LISTED_MAX: usize = 32;

/// Datagrams answered in one turn, so that they leave connections their time; a socket's queue holds
/// fewer than this of any useful size.
pub const DATAGRAMS_PER_TURN: usize = 256;

/// Ports of the well-known services (RFC 6335 §6). What comes from there is itself an answer, perhaps to a
/// datagram that somebody forged: to answer it could go on for ever between two services.
pub const WELL_KNOWN_PORTS: std::ops::Range<u16> = 0..1024;

/// Bytes of standard input, or for standard output, that travel at once.
pub const CHUNK_LEN: usize = 64 * 1024;

/// Chunks that wait between a stream and the connection, each way.
pub const CHUNKS_MAX: usize = 16;

/// Bytes of standard input queued on the connection and not acknowledged: enough for 1 Gbit/s at 30 ms.
pub const CAT_QUEUE_MAX: usize = 4 * 1024 * 1024;
