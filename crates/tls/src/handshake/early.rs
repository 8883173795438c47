//! What is sent before a handshake is over: a client's early data, which goes with its hello (RFC 8446 §4.2.10), and what a server
//! answers to that behind its own Finished.
//!
//! A client keeps its early data until it knows whether the server has taken it.

use super::DATA;
use crate::limits::HEADER_LEN;
use crate::record::TAG_LEN;

/// What encryption adds to a record of TLS 1.3: its real type, and the tag.
pub(super) const EXPANSION: usize = 1 + TAG_LEN;

/// A record of a message that is nothing but its header. In a client's last flight EndOfEarlyData alone is.
const EMPTY_MESSAGE_LEN: usize = HEADER_LEN + 4 + EXPANSION;

/// How far it has come.
#[derive(Default)]
pub(super) struct Early {
    /// The client's hello says that early data follows.
    pub(super) is_announced: bool,
    /// The server takes it. rustls tells neither side, and a client ends it only where the server does.
    pub(super) is_taken: bool,
    /// Plaintext may be sent now.
    pub(super) may_send: bool,
    /// A client's, and how much of it has left.
    given: Vec<u8>,
    left_len: usize,
}

impl Early {
    /// Whether it was taken, where there was some.
    pub(super) fn fate(&self) -> Option<bool> {
        self.is_announced.then_some(self.is_taken)
    }

    /// A client's record, encrypted and understood: perhaps the end of early data.
    pub(super) fn note_end(&mut self, record: &[u8]) {
        let is_end = record.len() == EMPTY_MESSAGE_LEN && record[0] == DATA;
        self.is_taken |= self.is_announced && is_end;
    }

    /// A client gives this.
    pub(super) fn give(&mut self, mut plain: Vec<u8>) {
        self.is_announced = true;
        self.given.append(&mut plain);
    }

    /// What of a client's has not left.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.given[self.left_len..]
    }

    /// Of that, this many bytes leave.
    pub(super) fn leaves(&mut self, len: usize) {
        self.left_len += len;
    }

    /// What of a client's the server has not.
    pub(super) fn into_unsent(mut self) -> Vec<u8> {
        match self.is_taken {
            true => self.given.split_off(self.left_len),
            false => self.given,
        }
    }
}
