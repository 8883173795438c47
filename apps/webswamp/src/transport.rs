//! What the engine asks of whatever carries its connections: a stack of its own, or the kernel's sockets.

use exos_buf::Slice;
use exos_inet::tcp::{ConnectionId, OpenError};

use crate::http3;

/// The token of connections that nobody wants to hear of.
pub const NOBODY: u64 = u32::MAX as u64;

/// Connections. Their events are handed to the engine with the token that it was opened with.
pub trait Transport {
    /// Opens one.
    ///
    /// # Errors
    ///
    /// There is no room for it.
    fn open(&mut self, token: u64) -> Result<ConnectionId, OpenError>;

    /// Sends this, all of it.
    fn send(&mut self, id: ConnectionId, bytes: &Slice);

    /// Bytes that came in order and were not consumed.
    fn readable(&self, id: ConnectionId) -> &[u8];

    /// Takes this many of them.
    fn consume(&mut self, id: ConnectionId, count: usize);

    /// Connections are to be secured before anything is asked on them, and it is told when they are.
    fn is_secured(&self) -> bool {
        false
    }

    /// Connections are of HTTP/3: each carries requests on streams of its own, and is secured when it stands.
    fn speaks_http3(&self) -> bool {
        false
    }

    /// What is spoken on a connection of HTTP/3 that stands. It may have something to send after this.
    fn http3(&mut self, _id: ConnectionId) -> Option<&mut http3::Connection> {
        None
    }

    /// Has the next bytes counted where they arrive, and not handed over: gives how many of them are still to come. Their
    /// end is told as an event, or what follows them. A transport that hands all bytes over gives 0 for none.
    fn skip(&mut self, _id: ConnectionId, _count: u32) -> u32 {
        0
    }

    /// How many of these are still to come; `None` of a connection that is gone.
    fn skipping(&self, _id: ConnectionId) -> Option<u32> {
        None
    }

    /// Acknowledges by itself what has come, instead of with what is sent next.
    fn acknowledge(&mut self, id: ConnectionId);

    /// Sends nothing more.
    fn finish(&mut self, id: ConnectionId);

    /// Ends it in good order; nobody wants to hear of it any more.
    fn leave(&mut self, id: ConnectionId);

    /// Gives it up at once: the peer is reset.
    fn abort(&mut self, id: ConnectionId);
}
