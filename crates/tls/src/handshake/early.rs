//! What is sent before a handshake is over: a client's early data, which goes with its hello (RFC 8446 §4.2.10), and what a server
//! answers to that behind its own Finished.
//!
//! A client keeps its early data until it knows whether the server has taken it.

/// How far it has come.
#[derive(Default)]
pub(super) struct Early {
    /// The client's hello says that early data follows.
    pub(super) is_announced: bool,
    /// The server takes it. A server knows that by the first of it.
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

    /// A client gives this.
    pub(super) fn give(&mut self, mut plain: Vec<u8>) {
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
