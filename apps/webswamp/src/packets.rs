//! The engine's connections on a stack of our own.

use exos::via::Via;
use exos_buf::Slice;
use exos_inet::tcp::{ConnectionId, OpenError, Options};
use exos_inet::{Instant, Stack};
use std::net::SocketAddr;

use crate::ports::Ports;
use crate::transport::{NOBODY, Transport};

/// A stack for the time of a turn.
pub struct Packets<'a> {
    /// The turn's time.
    pub now: Instant,
    /// The stack.
    pub stack: &'a mut Stack,
    /// What connections are opened with.
    pub options: &'a Options,
    /// The server.
    pub to: SocketAddr,
    /// Where a daemon lends the link: what of it is ours.
    pub lent: Option<Lent<'a>>,
}

/// A link that a daemon lends.
pub struct Lent<'a> {
    /// The daemon.
    pub via: &'a mut Via,
    /// Ports that were claimed.
    pub ports: &'a mut Ports,
}

impl Transport for Packets<'_> {
    fn open(&mut self, token: u64) -> Result<ConnectionId, OpenError> {
        let (now, to, stack) = (self.now, self.to, &mut self.stack);
        let id = match &mut self.lent {
            None => stack.tcp.connect(now, None, to, self.options)?,
            Some(Lent { via, ports }) => ports.open(
                || via.claim_ephemeral(to).map_err(|e| e.to_string()),
                |from| stack.tcp.connect(now, Some(from), to, self.options),
            )?,
        };
        stack.tcp.set_token(id, token);
        Ok(id)
    }

    fn send(&mut self, id: ConnectionId, bytes: &Slice) {
        // A connection that is gone says so by its event.
        self.stack.tcp.send(id, bytes.clone());
    }

    fn readable(&self, id: ConnectionId) -> &[u8] {
        self.stack.tcp.readable(id)
    }

    fn consume(&mut self, id: ConnectionId, count: usize) {
        self.stack.tcp.consume(id, count);
    }

    fn skip(&mut self, id: ConnectionId, count: u32) -> u32 {
        self.stack.tcp.skip(id, count)
    }

    fn skipping(&self, id: ConnectionId) -> Option<u32> {
        let connection = self.stack.tcp.connection(id);
        connection.map(|it| it.skipping())
    }

    fn acknowledge(&mut self, id: ConnectionId) {
        self.stack.tcp.acknowledge_now(id);
    }

    fn finish(&mut self, id: ConnectionId) {
        self.stack.tcp.finish(id);
    }

    fn leave(&mut self, id: ConnectionId) {
        self.stack.tcp.finish(id);
        self.stack.tcp.set_token(id, NOBODY);
    }

    fn abort(&mut self, id: ConnectionId) {
        self.stack.tcp.abort(id);
    }
}
