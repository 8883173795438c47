//! What carries the bytes: the connection, or TLS on it.

use exos_buf::Buffer;
use exos_inet::Stack;
use exos_inet::tcp::ConnectionId;
use exos_tls::{Session, TlsError};

/// The connection's bytes as the standard streams have them.
#[derive(Default)]
pub(super) struct Carrier {
    session: Option<Session>,
}

impl Carrier {
    /// With TLS on the connection.
    pub(super) fn secured(session: Session) -> Self {
        Self {
            session: Some(session),
        }
    }

    /// The connection stands: takes in what has come, and goes on with the handshake.
    ///
    /// # Errors
    ///
    /// TLS cannot go on. What tells the server is queued.
    pub(super) fn turn(&mut self, stack: &mut Stack, id: ConnectionId) -> Result<(), TlsError> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        loop {
            let mut out = Vec::new();
            let taken = session.receive(stack.tcp.readable(id), &mut out);
            if !out.is_empty() {
                stack.tcp.send(id, Buffer::from(out).whole());
            }
            let taken = taken?;
            stack.tcp.consume(id, taken);
            if taken == 0 {
                return Ok(());
            }
        }
    }

    /// Whether there is TLS. It has no half that is closed alone: what is under way would be lost (RFC 5246 §7.2.1).
    pub(super) fn is_secured(&self) -> bool {
        self.session.is_some()
    }

    /// Bytes may be sent.
    pub(super) fn is_ready(&self) -> bool {
        self.session.as_ref().is_none_or(Session::is_established)
    }

    /// Sends this. False when nothing can be sent any more.
    pub(super) fn send(&mut self, stack: &mut Stack, id: ConnectionId, bytes: Vec<u8>) -> bool {
        let records = match &mut self.session {
            None => bytes,
            Some(session) => {
                let mut records = Vec::new();
                if session.seal(&[&bytes], &mut records).is_err() {
                    return false;
                }
                records
            }
        };
        stack.tcp.send(id, Buffer::from(records).whole())
    }

    /// What has come and was not consumed.
    pub(super) fn readable<'a>(&'a self, stack: &'a Stack, id: ConnectionId) -> &'a [u8] {
        match &self.session {
            None => stack.tcp.readable(id),
            Some(session) => session.readable(),
        }
    }

    /// Takes this many of it.
    pub(super) fn consume(&mut self, stack: &mut Stack, id: ConnectionId, count: usize) {
        match &mut self.session {
            None => stack.tcp.consume(id, count),
            Some(session) => session.consume(count),
        }
    }

    /// The peer's end, by a connection that has finished, is one that nobody else can have made.
    pub(super) fn is_finished(&self) -> bool {
        self.session.as_ref().is_none_or(Session::is_peer_closed)
    }

    /// Sends nothing more. TLS is ended where the peer has not gone without ending it: such a one would reset the connection.
    pub(super) fn finish(&mut self, stack: &mut Stack, id: ConnectionId, is_peer_gone: bool) {
        if let Some(session) = &mut self.session
            && (session.is_peer_closed() || !is_peer_gone)
        {
            let mut out = Vec::new();
            session.close(&mut out);
            if !out.is_empty() {
                stack.tcp.send(id, Buffer::from(out).whole());
            }
        }
        stack.tcp.finish(id);
    }
}
