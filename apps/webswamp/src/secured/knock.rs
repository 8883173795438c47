//! A handshake by which nothing is asked: it shows whether TLS is agreed upon.

use exos_buf::Buffer;
use exos_inet::tcp::ConnectionId;
use exos_tls::client::{Client, Way};
use exos_tls::{Session, TlsError};

use crate::transport::Transport;

/// The handshake, on a connection that stands.
pub struct Knock {
    id: ConnectionId,
    session: Session,
}

impl Knock {
    /// Sends the client's hello.
    ///
    /// # Errors
    ///
    /// There is no session to be had.
    pub fn begin(
        client: &Client,
        id: ConnectionId,
        transport: &mut impl Transport,
    ) -> Result<Self, TlsError> {
        let session = client.begin(Way::Full)?;
        let mut knock = Self { id, session };
        knock.receive(transport)?;
        Ok(knock)
    }

    /// Both have agreed on this protocol above TLS.
    pub fn has_agreed(&self, protocol: &str) -> bool {
        self.session.about().protocol.as_deref() == Some(protocol.as_bytes())
    }

    /// Takes in what has come, and goes on. True when it is over, and the session with it.
    ///
    /// # Errors
    ///
    /// TLS is not agreed upon.
    pub fn receive(&mut self, transport: &mut impl Transport) -> Result<bool, TlsError> {
        let mut out = Vec::new();
        let taken = self.session.receive(transport.readable(self.id), &mut out);
        let is_over = taken.is_ok() && self.session.is_established();
        if is_over {
            self.session.close(&mut out);
        }
        if !out.is_empty() {
            transport.send(self.id, &Buffer::from(out).whole());
        }
        transport.consume(self.id, taken?);
        Ok(is_over)
    }
}
