//! Every bound, with its reason.

use std::time::Duration;

/// Bytes of a response's head: what browsers take.
pub const HEAD_LEN_MAX: usize = 256 * 1024;

/// Fields of a head.
pub const FIELDS_MAX: usize = 128;

/// How long a load lasts when nothing is said: long enough for stable numbers, short enough to be no attack.
pub const LOAD_TIME: Duration = Duration::from_secs(30);

/// How long a request may take. What it may not take longer would be hidden in no percentile: it is an error.
pub const REQUEST_TIME: Duration = Duration::from_secs(10);

/// How long a server that said that it closes may take to do so, before we do.
pub const CLOSING_TIME: Duration = Duration::from_secs(1);

/// How long connections that are ending may take to do so when the load is over, before they are reset: a few round trips.
pub const GOODBYE_TIME: Duration = Duration::from_secs(1);

/// How long a server may take to accept the connection that is made before the load: a SYN is sent twice again in that time.
pub const PROBE_TIME: Duration = Duration::from_secs(4);

/// How long a client waits that could not open a connection, for want of a port or of memory.
pub const RETRY_TIME: Duration = Duration::from_millis(10);

/// The longest time that a histogram tells apart from longer ones, in microseconds: an hour.
pub const HISTOGRAM_MICROS_MAX: u64 = 3_600_000_000;

/// Digits of a time that histograms keep: a thousandth.
pub const HISTOGRAM_DIGITS: u8 = 3;

/// Clients, or connections in an open loop: what a stack holds.
pub const CONNECTIONS_MAX: u32 = 1 << 20;

/// Clients of a closed loop whose first connection is being opened at the same time: what the backlog of common servers
/// holds (nginx: 511), and far less than the rings of a link.
pub const OPENING_MAX: u32 = 500;

/// Connections reset in one go when a load ends: a quarter of the answers that a stack queues.
pub const ABORTS_AT_ONCE: usize = exos_inet::limits::REPLIES_MAX / 4;

/// The pause between two such goes. Resets are not sent again, so what the other side has no room for leaves a
/// connection open there: a quarter of a million in a second is what a server takes in beside its work.
pub const ABORTS_PAUSE: Duration = Duration::from_millis(4);

/// Connections of an open loop when nothing is said.
pub const OPEN_CONNECTIONS: u32 = 10_000;

/// Different requests that a driver may have: half a gigabyte of them.
pub const REQUESTS_MAX: usize = 1 << 20;

/// Requests of a log that is replayed: 16 bytes each.
pub const LOG_LINES_MAX: usize = 100_000_000;

/// Bytes of a line of a log: the longest that servers write with a head of the usual bounds, all of it escaped.
pub const LOG_LINE_LEN_MAX: usize = 128 * 1024;

/// From the first line of a log that is replayed by its times to the last.
pub const LOG_SPAN_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Requests under way on a connection: more than any server takes in at once.
pub const PIPELINE_MAX: u32 = 1024;

/// Streams under way on a connection of HTTP/2: more than any server takes at once.
pub const STREAMS_MAX: u32 = 1024;

/// The last number of a stream of ours (RFC 9113 §5.1.1).
pub const STREAM_NUMBER_MAX: u32 = (1 << 31) - 1;

/// What a server may send on a stream, and on all of a connection, before it hears of us: what comes is only counted, and windows
/// are not to be the limit. As nghttp2's h2load has it.
pub const WINDOW: u32 = 1 << 30;

/// Streams that a server may open by itself over HTTP/3, in one direction: its control stream, two of QPACK's, and some that mean nothing
/// (RFC 9114 §6.2).
pub const QUIC_SERVER_STREAMS_MAX: u32 = 16;

/// Bytes of requests that are under way on a connection of QUIC at most: what a body fills of a path of ten gigabits a second and 6 ms.
pub const QUIC_UPLOAD_LEN_MAX: u64 = 8 << 20;

/// The longest datagram that is taken (RFC 9000 §18.2, `max_udp_payload_size`): as long as there can be one.
pub const QUIC_DATAGRAM_LEN_MAX: u16 = 65_527;

/// The longest datagrams that are sent, where the path is found to take them: what Ethernet takes of either family.
pub const QUIC_DATAGRAM_SENT_LEN_MAX: u16 = 1452;

/// Bytes of packets that are no datagram's: the headers of IPv6, which are longer than those of IPv4, and of UDP.
pub const QUIC_HEADERS_LEN: usize = 40 + 8;

/// Datagrams of one length that leave together: half of what kernels cut at most.
pub const QUIC_SEGMENTS_MAX: usize = 32;

/// Sockets over which the connections of a core are spread: a server's cores get theirs by ports, so there are some for each.
pub const QUIC_SOCKETS_MAX: usize = 64;

/// Those of them on a link that a daemon lends: each is claimed.
pub const QUIC_SOCKETS_LENT_MAX: usize = 8;

/// How long datagrams wait that the interface or the kernel does not take, until it is asked again.
pub const QUIC_ROOM_PAUSE: Duration = Duration::from_millis(1);

/// Bytes that may wait in a socket of our stack: what the frames of a link's receive ring carry, which come in one turn.
pub const QUIC_QUEUE_LEN: usize = 4 << 20;

/// Bytes that may wait in the kernel for each socket of datagrams.
pub const QUIC_SOCKET_LEN: usize = 4 << 20;

/// Calls that read from a socket of datagrams in a turn.
pub const QUIC_CALLS_PER_TURN: u32 = 16;

/// Frames in a row by which a server answers nothing: settings, pings, windows. One that goes on is left.
pub const IDLE_FRAMES_MAX: u32 = 10_000;

/// Requests of an open loop that may wait for a connection. Beyond them they are not begun, and counted.
pub const WAITING_MAX: usize = 1 << 20;

/// How long before the load begins its cores are told when: they wake up, and make their clients. Where several are to begin
/// together, none begins late for that.
pub const START_AHEAD: Duration = Duration::from_millis(10);

/// Ports that are claimed of a daemon before a load begins, as many as clients of a closed loop when nothing is said. Claiming is
/// asking another process, and who waits for it begins late.
pub const PORTS_AHEAD: usize = 64;

/// Seconds of which every time is kept, in as much memory as some ten megabytes; later ones have their percentiles.
pub const SECONDS_WITH_TIMES_MAX: usize = 3600;

/// Results of a load in a file: beyond this it is none of ours.
pub const RESULTS_LEN_MAX: u64 = 256 << 20;

/// What the results of a load count together, at most, bytes included: a hundred gigabits a second for a week. What is added up of
/// files has room in 64 bits.
pub const COUNTS_MAX: u64 = 1 << 53;

/// Processor time of a load at most: a thousand cores as long as a load lasts.
pub const PROCESSOR_SECS_MAX: f64 = 1000.0 * LOAD_SECS_MAX;

/// Seconds of a run by which noise can be told at all.
pub const SECONDS_FOR_NOISE: usize = 5;

/// Seconds that a load in a file lasted at most: a week, and what more merged ones may have.
pub const LOAD_SECS_MAX: f64 = 1e6;

/// What windows of a loop's connections promise together to a server that is near: 1,536 full segments of 1,448 bytes, three quarters of
/// the 2,048 frames that a link's receive ring holds (`exos_link::limits::RX_RING_SIZE`). The rest is for segments that are not full.
pub const WINDOWS_LEN: u64 = 1536 * 1448;

/// The narrowest of them, however many there are: a record of TLS, which has to be there whole, and most of the next.
pub const WINDOW_LEN_MIN: u32 = 32 * 1024;

/// A server that takes a connection in less is near: on a longer path less is under way to a ring than on the path. It is as long as our
/// thread is away at worst, which the ring bridges.
pub const NEAR_TIME: Duration = Duration::from_millis(5);
