//! What the engine asks of whatever carries its connections: a stack of its own, or the kernel's sockets.

use exos_buf::Slice;
use exos_inet::tcp::OpenError;

/// Connections. Their events are handed to the engine with the token that was given last.
pub trait Transport {
    /// A connection's name.
    type Id: Copy;

    /// Opens one.
    ///
    /// # Errors
    ///
    /// There is no room for it.
    fn open(&mut self, token: u64) -> Result<Self::Id, OpenError>;

    /// Sends this, all of it.
    fn send(&mut self, id: Self::Id, bytes: &Slice);

    /// Bytes that came in order and were not consumed.
    fn readable(&self, id: Self::Id) -> &[u8];

    /// Takes so many of them.
    fn consume(&mut self, id: Self::Id, count: usize);

    /// Acknowledges by itself what has come, instead of with what is sent next.
    fn acknowledge(&mut self, id: Self::Id);

    /// Sends nothing more.
    fn finish(&mut self, id: Self::Id);

    /// Gives it up at once: the peer is reset.
    fn abort(&mut self, id: Self::Id);

    /// Its events get another token.
    fn set_token(&mut self, id: Self::Id, token: u64);
}
