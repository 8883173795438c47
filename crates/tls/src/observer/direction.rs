//! One side of an observed connection: which key its next record has.

use std::ops::Range;

use super::keys::Suite;
use super::messages::Messages;
use super::{Obstacle, Side};
use crate::keylog::{KeyLog, Label, RANDOM_LEN};
use crate::record::{Cipher, ContentType, Header};

/// Under which key the side sends, in this order.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Phase {
    /// None, up to TLS 1.3's handshake keys and to a ChangeCipherSpec of TLS 1.2.
    #[default]
    Clear,
    /// A client's early data, of which the server may or may not make use.
    Early,
    /// What follows a hello of TLS 1.3.
    Handshake,
    /// Everything behind that side's Finished; of TLS 1.2 everything behind its ChangeCipherSpec.
    Traffic,
}

/// One side.
#[derive(Default)]
pub(super) struct Direction {
    pub(super) phase: Phase,
    pub(super) messages: Messages,
    /// The key of this phase, as soon as something was decrypted with it.
    cipher: Option<Cipher>,
    /// Of TLS 1.3: the secret that the key was made of.
    secret: Vec<u8>,
}

impl Direction {
    /// The next record has another key.
    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.cipher = None;
        if phase != Phase::Clear {
            self.messages = Messages::default(); // None goes on under another key (RFC 8446 §5.1).
        }
    }

    /// Changes the key of TLS 1.3 (RFC 8446 §7.2).
    pub(super) fn update(&mut self, suite: Suite) -> Result<(), Obstacle> {
        let next = suite.next_secret(&self.secret);
        let next = next.map_err(|_| Obstacle::Unexpected)?;
        let cipher = suite.cipher_13(&next).map_err(|_| Obstacle::Unexpected)?;
        (self.secret, self.cipher) = (next, Some(cipher));
        Ok(())
    }

    /// The key is known, or the log has what it is made of.
    pub(super) fn finds_key_13(
        &mut self,
        side: Side,
        suite: Suite,
        log: &KeyLog,
        random: &[u8; RANDOM_LEN],
    ) -> Result<bool, Obstacle> {
        if self.cipher.is_some() {
            return Ok(true);
        }
        let label = match (self.phase, side) {
            (Phase::Early, _) => Label::ClientEarly,
            (Phase::Clear | Phase::Handshake, Side::Client) => Label::ClientHandshake,
            (Phase::Clear | Phase::Handshake, Side::Server) => Label::ServerHandshake,
            (Phase::Traffic, Side::Client) => Label::ClientTraffic,
            (Phase::Traffic, Side::Server) => Label::ServerTraffic,
        };
        let Some(secret) = log.secret(random, label) else {
            return Ok(false);
        };
        self.cipher = Some(suite.cipher_13(secret).map_err(|_| Obstacle::WrongKey)?);
        self.secret = secret.to_vec();
        Ok(true)
    }

    /// Sets the key of TLS 1.2, unless it is set.
    pub(super) fn set_key_12(&mut self, make: impl FnOnce() -> Option<Cipher>) -> bool {
        if self.cipher.is_none() {
            self.cipher = make();
        }
        self.cipher.is_some()
    }

    /// Decrypts a record, and says of what type it is and where in `plain` its plaintext.
    pub(super) fn open(
        &mut self,
        header: Header,
        payload: &[u8],
        plain: &mut Vec<u8>,
    ) -> Option<(ContentType, Range<usize>)> {
        let from = plain.len();
        let opened = self.cipher.as_mut()?.open(header, payload, plain).ok()?;
        Some((opened.content_type, from..from + opened.len))
    }
}
