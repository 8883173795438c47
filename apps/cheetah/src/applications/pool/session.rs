//! A session of TLS on a connection to an upstream: plaintext to those who ask, records to the socket.
//!
//! What is sent before the session stands waits here. The end of a connection is the end of an answer only where the upstream has said so
//! inside the session: anybody on the way can end a connection (RFC 8446 §6.1).

use exos_tls::{Session, TlsError};

use crate::applications::encryption::{Encryption, failure};
use crate::limits::APPLICATION_READ_LEN;

/// A session, and what waits for it.
#[derive(Debug)]
pub(super) struct Secured {
    session: Session,
    /// Plaintext that waits for the handshake.
    waiting: Vec<u8>,
    /// Our side is to end behind that.
    is_ending: bool,
    failure: Option<String>,
}

impl Secured {
    /// A session begins, with these bytes for the upstream.
    pub(super) fn begin(encryption: &Encryption) -> Result<(Secured, Vec<u8>), TlsError> {
        let mut session = encryption.begin()?.with_unread_max(APPLICATION_READ_LEN);
        let mut hello = Vec::new();
        session.receive(&[], &mut hello)?;
        let secured = Secured {
            session,
            waiting: Vec::new(),
            is_ending: false,
            failure: None,
        };
        Ok((secured, hello))
    }

    /// Takes in records, and gives how many bytes of them; appends what goes to the upstream at once.
    pub(super) fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        if self.has_failed() {
            return bytes.len();
        }
        let received = self.session.receive(bytes, out);
        let taken = match received {
            Ok(taken) => taken,
            Err(error) => {
                self.failure = Some(failure(&error));
                return bytes.len();
            }
        };
        if self.session.is_established() && (!self.waiting.is_empty() || self.is_ending) {
            let waiting = std::mem::take(&mut self.waiting);
            self.send(&waiting, out);
            if self.is_ending {
                self.session.close(out);
            }
        }
        taken
    }

    /// Sends plaintext, or keeps it until the session stands.
    pub(super) fn send(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.session.is_handshaking() {
            self.waiting.extend_from_slice(bytes);
        } else if !self.has_failed()
            && !bytes.is_empty()
            && let Err(error) = self.session.seal(&[bytes], out)
        {
            self.failure = Some(failure(&error));
        }
    }

    /// Ends our side behind what was sent.
    pub(super) fn close(&mut self, out: &mut Vec<u8>) {
        self.is_ending = true;
        if self.session.is_established() {
            self.session.close(out);
        }
    }

    /// Plaintext that has come.
    pub(super) fn readable(&self) -> &[u8] {
        self.session.readable()
    }

    /// Takes this much of it.
    pub(super) fn consume(&mut self, count: usize) {
        self.session.consume(count);
    }

    /// Plaintext that waits.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// It stands.
    pub(super) fn stands(&self) -> bool {
        self.session.is_established()
    }

    /// The upstream has said that nothing more comes.
    pub(super) fn is_peer_closed(&self) -> bool {
        self.session.is_peer_closed()
    }

    /// There is no session any more.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Why there is none.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}
