//! How a handshake fails: the peer is told why by an alert (RFC 8446 §6.2), which rustls makes, for the keys are there.

use rustls::{HandshakeKind, PeerMisbehaved, ProtocolVersion};

use super::step::Side;
use super::{ALERT, Handshake, ILLEGAL_CHANGE, TOO_LONG};
use crate::TlsError;

/// The alert that a record has no place where it came, in plain text.
const UNEXPECTED: &[u8] = &[ALERT, 3, 3, 0, 2, 2, 10];

impl Handshake {
    /// Appends the alert with which rustls has failed. It gives what it has to send before it looks at what was received, and
    /// then it must not look: it remembers places there of messages that it will not come to.
    pub(super) fn say_why(&mut self, plain: &mut Vec<u8>, out: &mut Vec<u8>) {
        while self.side.common().wants_write() {
            let step = self
                .side
                .step(&mut self.incoming, &mut self.early, plain, out);
            if step.1.is_err() {
                return;
            }
        }
    }

    /// rustls has failed by the record of this length that came last. Some of its errors come without an alert: those about what records are, which it
    /// finds before it looks at messages. What has no place there is answered by unexpected_message (RFC 8446 §5, §5.1, §5.4). In plain text that
    /// is said here. Encrypted, rustls has to say it: the record has left no trace but its bytes here, and in its place comes one that is refused with
    /// that alert. Within a message there is none, for rustls takes no change of ciphers there and all else has to be encrypted by the peer: the
    /// peer is told decode_error then.
    pub(super) fn say_unsaid(
        &mut self,
        error: TlsError,
        len: usize,
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> TlsError {
        let TlsError::Handshake(rustls::Error::PeerMisbehaved(
            PeerMisbehaved::IllegalTlsInnerPlaintext
            | PeerMisbehaved::MessageInterleavedWithHandshakeMessage
            | PeerMisbehaved::RejectedEarlyDataInterleavedWithHandshakeMessage
            | PeerMisbehaved::TooManyEmptyFragments,
        )) = error
        else {
            return error;
        };
        let before = self.incoming.len().saturating_sub(len);
        self.incoming.truncate(before);
        if self.speaks_in_clear() {
            out.extend_from_slice(UNEXPECTED);
            return error;
        }
        let is_between_messages = self.is_encrypted() && before == 0;
        let by = if is_between_messages {
            ILLEGAL_CHANGE
        } else {
            TOO_LONG
        };
        self.refuse(by, error, plain, out)
    }

    /// What is sent now is not encrypted, for certain. In TLS 1.2 a server encrypts from its change of ciphers on, which ends a full handshake
    /// and begins a resumed one; a client's is not seen here.
    fn speaks_in_clear(&self) -> bool {
        let common = self.side.common();
        match common.protocol_version() {
            None => true,
            Some(ProtocolVersion::TLSv1_3) => !self.is_encrypted(),
            Some(_) => {
                matches!(self.side, Side::Server(_))
                    && common.handshake_kind() == Some(HandshakeKind::Full)
            }
        }
    }

    /// Something has come that rustls would take, or call by another name. It alone can tell the peer: it is made to, by what it
    /// refuses with the right alert.
    pub(super) fn refuse(
        &mut self,
        by: &[u8],
        error: TlsError,
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> TlsError {
        self.incoming.extend_from_slice(by);
        match self.go_on(plain, out) {
            Ok(()) | Err(_) => error,
        }
    }
}
