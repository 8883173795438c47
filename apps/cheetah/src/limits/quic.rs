//! Connections of QUIC, and HTTP/3.

use std::time::Duration;

use super::requests::RECEIVE_BUFFER_LEN;

/// Connections of QUIC of a loop, unless configured otherwise: each costs some ten kilobytes beside its windows.
pub const QUIC_CONNECTIONS_MAX: usize = 64 * 1024;

/// Requests of a connection of HTTP/3 at once: as many as streams of HTTP/2.
pub const QUIC_STREAMS_MAX: u32 = exos_http2::limits::STREAMS_MAX;

/// Streams in one direction that a client may have open: three are known, and some are opened to see what becomes of it.
pub const QUIC_UNI_STREAMS_MAX: u32 = 8;

/// What a client may have sent on a stream and nobody has consumed: as on a connection of HTTP/1.1.
pub const QUIC_STREAM_WINDOW: u32 = RECEIVE_BUFFER_LEN;

/// What it may have sent on all streams of a connection together: four bodies at their full speed.
pub const QUIC_RECEIVE_WINDOW: u32 = 4 * QUIC_STREAM_WINDOW;

/// Bytes of a connection's requests that wait for the server, beyond which each request may have as many as the second says: a megabyte,
/// and one more where all streams have their share. A body that is taken as it comes needs no more.
pub const QUIC_WAITING_LEN_MAX: usize = 1024 * 1024;
/// What each may have then.
pub const QUIC_WAITING_LEN_SHARE: usize = 8 * 1024;

/// Bytes of responses that QUIC has copied and the client has not acknowledged, at most: 100 Mbit/s over 80 ms. Twice the congestion
/// window where that is less.
pub const QUIC_SEND_WINDOW: u64 = 1024 * 1024;
/// The least of these, also where the congestion window is smaller.
pub const QUIC_SEND_WINDOW_MIN: u64 = 64 * 1024;

/// How long a connection on which nothing comes stands. A client that says that it is there is ended by [`IDLE_TIME`].
pub const QUIC_IDLE_TIME: Duration = Duration::from_secs(30);

/// Connections whose first packet waits for a turn, and what may be kept for each until then: a hello takes two packets.
pub const QUIC_INCOMING_MAX: usize = 256;
/// Bytes of those packets.
pub const QUIC_INCOMING_LEN: usize = 16 * 1024;

/// Handshakes under way, beyond which clients have to show first that they receive at their address.
pub const QUIC_HANDSHAKES_FREE: usize = 64;

/// Priorities of requests that have not come (RFC 9218 §7.2).
pub const QUIC_EARLY_PRIORITIES: usize = 8;

/// How long datagrams wait that the interface or the kernel does not take, until it is asked again.
pub const QUIC_ROOM_PAUSE: Duration = Duration::from_millis(1);

/// How often it is looked what has waited for too long.
pub const QUIC_LOOK_TIME: Duration = Duration::from_secs(1);

/// The length of datagrams that each path takes which carries QUIC (RFC 9000 §14).
pub const QUIC_DATAGRAM_LEN: u16 = 1200;

/// The longest datagrams on sockets of the kernel's, where the path is found to take them: what Ethernet takes of either family.
pub const QUIC_DATAGRAM_LEN_MAX: u16 = 1452;

/// Bytes of packets that are no datagram's: the headers of IPv6, which are longer than those of IPv4, and of UDP.
pub const QUIC_HEADERS_LEN: usize = 40 + 8;

/// Datagrams of one connection that are made at once: of full packets, what a link may take as one.
pub const QUIC_SEGMENTS_MAX: usize = 40;

/// Bytes that QUIC is given in one piece: it counts all of a piece as unacknowledged until nothing of it is.
pub const QUIC_PIECE_LEN: usize = 16 * 1024;

/// A part of a body up to this length is copied beside its frame's head, which costs less than a piece of its own.
pub const QUIC_COPIED_LEN_MAX: usize = 2048;

/// Requests that are over whose memory is kept for others: those of two connections.
pub const QUIC_SPARE_REQUESTS_MAX: usize = 2 * QUIC_STREAMS_MAX as usize;
/// Bytes of a buffer that is kept so: those of usual heads. Half a megabyte of all, in two buffers each.
pub const QUIC_SPARE_LEN_MAX: usize = 1024;

/// Field sections of responses that are kept: of as many documents, where they are asked for often. A hundred kilobytes or so.
pub const QUIC_SECTIONS_MAX: usize = 256;
/// The longest header block whose section is kept: longer ones are an application's, and others each time.
pub const QUIC_SECTION_LEN_MAX: usize = 1024;

/// Datagrams that are taken in a turn: others have their turn then.
pub const QUIC_DATAGRAMS_PER_TURN: usize = 256;

/// Datagrams that answer what is of no connection (Retry, refusals, resets) and wait to leave: those of a turn.
pub const QUIC_ANSWERS_MAX: usize = QUIC_DATAGRAMS_PER_TURN;

/// Calls that read datagrams from a socket of the kernel's in a turn: as many datagrams, or more, where several come as one.
pub const QUIC_CALLS_PER_TURN: usize = QUIC_DATAGRAMS_PER_TURN / 8;

/// Bytes that wait for a socket of QUIC, in the kernel in each direction, or in our stack.
pub const QUIC_SOCKET_LEN: usize = 2 * 1024 * 1024;
