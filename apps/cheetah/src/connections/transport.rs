//! What the server asks of whatever carries its connections: a stack of its own, or the kernel's sockets.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use exos_buf::Slice;
use exos_inet::tcp::{ConnectionId, Event};
use exos_tls::About;

use crate::site::long::OpenFile;

/// Why a connection is reset. A client hears of it on a stream; a connection of TCP has one kind of reset alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// Something failed here, or behind this server.
    Failed,
    /// Nothing failed: the client sends more than it may, or takes nothing, or the other end of a tunnel was reset; or the server ends.
    Cancelled,
    /// Nothing was done of what is asked: it may be asked again elsewhere.
    Untouched,
}

impl Abort {
    /// What a client of HTTP/2 hears (RFC 9113 §7, RFC 8441 §5).
    pub(crate) const fn by_http2(self) -> exos_http2::ErrorCode {
        match self {
            Abort::Failed => exos_http2::ErrorCode::INTERNAL_ERROR,
            Abort::Cancelled => exos_http2::ErrorCode::CANCEL,
            Abort::Untouched => exos_http2::ErrorCode::REFUSED_STREAM,
        }
    }

    /// What a client of HTTP/3 hears (RFC 9114 §4.1.1, §8.1; RFC 9220 §3).
    pub(crate) const fn by_http3(self) -> exos_http3::ErrorCode {
        match self {
            Abort::Failed => exos_http3::ErrorCode::INTERNAL_ERROR,
            Abort::Cancelled => exos_http3::ErrorCode::REQUEST_CANCELLED,
            Abort::Untouched => exos_http3::ErrorCode::REQUEST_REJECTED,
        }
    }
}

/// Connections. A call about one that is gone does nothing.
pub trait Transport {
    /// Whether it sends parts of files by itself on this connection, so that nobody has to read them before
    /// ([`Transport::send_file`]).
    fn sends_files(&self, _id: ConnectionId) -> bool {
        false
    }

    /// Nobody reads on the way what is sent: it is HTTPS.
    fn is_encrypted(&self, _id: ConnectionId) -> bool {
        false
    }

    /// What its session of TLS has come to, where it is HTTPS and that is known.
    fn tls(&self, _id: ConnectionId) -> Option<&Arc<About>> {
        None
    }

    /// It is HTTPS, and its handshake has come to no session.
    fn is_handshaking(&self, _id: ConnectionId) -> bool {
        false
    }

    /// It is HTTPS, and what is read came before its handshake was over: somebody may have sent it again (RFC 8446 §8).
    fn is_early(&self, _id: ConnectionId) -> bool {
        false
    }

    /// It was HTTPS, until something went wrong: what was sent and not taken never will be.
    fn has_failed(&self, _id: ConnectionId) -> bool {
        false
    }

    /// The client and we have agreed on HTTP/2 while the session of TLS began (RFC 9113 §3.2).
    fn speaks_http2(&self, _id: ConnectionId) -> bool {
        false
    }

    /// It is a request of HTTP/3, which is as a connection.
    fn speaks_http3(&self, _id: ConnectionId) -> bool {
        false
    }

    /// The next news of a connection.
    fn poll_event(&mut self) -> Option<Event>;

    /// The client's address.
    fn peer(&self, id: ConnectionId) -> Option<IpAddr>;

    /// Our end, and the client's.
    fn ends(&self, id: ConnectionId) -> Option<(SocketAddr, SocketAddr)>;

    /// Whether the kernel has answered it before.
    fn is_from_kernel(&self, _id: ConnectionId) -> bool {
        false
    }

    /// Bytes that came in order and were not consumed. There is a limit to them: while a request waits, its client does.
    fn readable(&self, id: ConnectionId) -> &[u8];

    /// Takes this many of them.
    fn consume(&mut self, id: ConnectionId, count: usize);

    /// Queues bytes.
    fn send(&mut self, id: ConnectionId, bytes: Slice);

    /// Queues the header block of a stream's response: how many bytes of it count as queued.
    fn send_head(&mut self, _id: ConnectionId, _block: &[Slice]) -> usize {
        unreachable!("this transport carries text");
    }

    /// Tells the client of a stream that it may send its body (RFC 9110 §10.1.1).
    fn send_leave(&mut self, _id: ConnectionId) {
        unreachable!("this transport carries text");
    }

    /// Queues the header block of an answer of a stream's before the last one, where the client is told of those.
    fn send_interim(&mut self, _id: ConnectionId, _block: &[u8]) {}

    /// Queues the header block behind the content of a stream's response, which nothing follows.
    fn send_trailers(&mut self, _id: ConnectionId, _block: &[u8]) {
        unreachable!("this transport carries text");
    }

    /// Queues a part of a file, where [`sends_files`](Transport::sends_files) says so. The connection breaks if the file
    /// changes meanwhile.
    fn send_file(&mut self, _id: ConnectionId, _file: &Rc<OpenFile>, _range: Range<u64>) {
        unreachable!("this transport sends bytes only");
    }

    /// Bytes that were queued and that the client has not taken, as far as is known.
    fn unacknowledged(&self, id: ConnectionId) -> usize;

    /// Those of them that are not under way to the client either.
    fn unsent(&self, id: ConnectionId) -> usize;

    /// How many bytes of a file may be read ahead, of those that are wanted: all, but on a stream, which has its client's windows
    /// and a share of what its connection may hold. It holds this many chunks. What is refused is told of when it may be, as if
    /// something had been acknowledged.
    fn read_ahead(&mut self, _id: ConnectionId, wanted: usize, _chunks: usize) -> usize {
        wanted
    }

    /// Ends our side behind what is queued.
    fn finish(&mut self, id: ConnectionId);

    /// Throws away what has come and still comes.
    fn discard_received(&mut self, id: ConnectionId);

    /// Resets the client.
    fn abort(&mut self, id: ConnectionId, why: Abort);
}
