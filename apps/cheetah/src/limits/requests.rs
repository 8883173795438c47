//! What one client and its requests may take, in time and in memory, by whichever version of HTTP.

use std::time::Duration;

use super::tls::SEALED_AHEAD_LEN;

/// The longest request line, method and version included: what nginx and Apache allow, and more
/// than any browser's address bar sends. Beyond it the answer is 414.
pub const REQUEST_LINE_LEN_MAX: usize = 8 * 1024;

/// The longest request head. It must fit the TCP receive buffer whole, because an unfinished head
/// stays there: a connection has no buffer of its own. Beyond it the answer is 431.
pub const HEAD_LEN_MAX: usize = 16 * 1024;

/// What a connection may have received and not yet been answered: four of the longest heads. Clients
/// that send requests and read no answers fill it, so it bounds what each of them costs us.
pub const RECEIVE_BUFFER_LEN: u32 = 64 * 1024;

const _: () = assert!(
    HEAD_LEN_MAX <= RECEIVE_BUFFER_LEN as usize,
    "the longest head fits the receive buffer"
);

/// Header fields in one request. Browsers send about 20; Apache allows 100.
pub const FIELDS_MAX: usize = 64;

/// An unfinished head up to this length is parsed afresh with every segment, which answers a bad
/// one early; a longer one only when another line has ended, so that a client which sends byte
/// by byte cannot have kilobytes parsed for each.
pub const REPARSE_FREELY_LEN: usize = 1024;

/// The longest request body that is read and dropped so that the connection can go on: about
/// what an initial window brings. For more, the connection closes after the answer.
pub const BODY_SKIP_LEN_MAX: u64 = 64 * 1024;

const _: () = assert!(
    REQUEST_LINE_LEN_MAX < HEAD_LEN_MAX,
    "414 is reached before 431"
);

/// How long a request's head may take from its first byte (or a connection's first request from
/// the connection's beginning): nginx's `client_header_timeout` is 60 s, Apache's 20 to 40 s.
pub const REQUEST_TIME: Duration = Duration::from_secs(20);

/// How long a connection may idle between requests: nginx's `keepalive_timeout`.
pub const IDLE_TIME: Duration = Duration::from_secs(75);

/// How long a response may make no progress: nginx's `send_timeout`.
pub const SEND_TIME: Duration = Duration::from_secs(60);

/// How long a request waits for its document to be read: what a disk takes that is asked for far too
/// much. Then the answer is 503.
pub const FETCH_TIME: Duration = Duration::from_secs(30);

/// How long a response waits for its next part to be read, or for memory to read it into: so long that those who hold
/// memory and take nothing of their responses are given up before.
pub const READ_TIME: Duration = Duration::from_secs(90);

const _: () = assert!(
    READ_TIME.as_secs() > SEND_TIME.as_secs(),
    "anyone who waits comes to have memory"
);

/// How long a connection that we have finished waits for the client to finish too: nginx's
/// `lingering_time`.
pub const LINGER_TIME: Duration = Duration::from_secs(30);

/// Response bytes queued on one connection before further pipelined requests wait. The bytes are
/// references to documents; the bound is for what a client can make us remember.
pub const QUEUE_LEN_MAX: usize = 1024 * 1024;

/// What is left of a connection's window of HTTP/2 where nobody takes the bodies that have used it up: not much comes of that.
pub const WINDOW_REST_LEN: usize = 1024;

/// Requests of one connection that are answered in one turn: a receive buffer holds thousands that differ in nothing, and all other
/// connections would wait for their answers. It is more than what clients have under way: HTTP/2 allows 128 streams.
pub const REQUESTS_AT_ONCE: usize = 256;

/// Parts of a document in one answer. Players and download managers ask for one or a few; more is an
/// attack on servers that copy each (RFC 9110 §17.15).
pub const RANGES_MAX: usize = 32;

/// Bytes between two parts that are sent along, as one part: about what the head of a part takes.
pub const RANGE_GAP_LEN: u64 = 128;

/// How long a client is watched before it is said to take its responses too slowly: long enough for a path that
/// loses packets to recover.
pub const READ_RATE_TIME: Duration = Duration::from_secs(20);

/// How long a head may take whatever its rate: several retransmissions of its first segment.
pub const HEAD_GRACE_TIME: Duration = Duration::from_secs(5);

/// How long a request's body may make no progress: nginx's `client_body_timeout`.
pub const BODY_TIME: Duration = Duration::from_secs(60);

/// The longest chunked body that is kept in memory until it is whole, because an application wants to know its length. What is longer
/// goes on in chunks to upstreams, and is refused where they are none.
pub const CHUNKED_BODY_LEN_MAX: u64 = 1024 * 1024;

/// Chunked bodies that are collected at once, in each loop, and not yet handed on: more are answered with 503.
pub const COLLECTED_LEN_MAX: usize = 64 * 1024 * 1024;

/// One client has this part of what all have together of an application, that is a quarter, so that nobody takes the others' room.
pub const CLIENT_SHARE: usize = 4;

/// Of chunked bodies one client's: 16 of the longest.
pub const COLLECTED_PEER_LEN_MAX: usize = COLLECTED_LEN_MAX / CLIENT_SHARE;

/// The line before a chunk, its extensions included, which nobody sends.
pub const CHUNK_LINE_LEN_MAX: usize = 256;

/// Fields behind a chunked body: nobody sends more than a checksum and a status there.
pub const TRAILER_LEN_MAX: usize = 4 * 1024;

/// The longest header of the PROXY protocol: addresses, and what proxies say of a client's certificate beside.
pub const PROXY_HEADER_LEN_MAX: usize = 4 * 1024;

/// How long a proxy may take to say for whom it connects: it knows that when it does.
pub const PROXY_HEADER_TIME: Duration = Duration::from_secs(5);

/// Bytes of responses that a client of HTTP/2 takes, or lets go by its windows, until that counts as progress: less than a segment is none.
pub const PROGRESS_LEN: usize = 1024;

/// Frames of HTTP/2 that wait on a connection to be sent: with more, none are made of what is queued, so that what becomes urgent
/// overtakes it. As much as records of TLS.
pub const FRAMED_AHEAD_LEN: usize = SEALED_AHEAD_LEN;

/// How long a client may remember that HTTP/3 is spoken, without hearing it again (RFC 7838 §3.1): what is usual.
pub const ALTERNATIVE_TIME: Duration = Duration::from_secs(24 * 3600);
