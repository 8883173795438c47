//! The handshake messages of one direction, put together from the records that carry them.

use crate::TlsError;
use crate::limits::FRAGMENTS_LEN_MAX;

/// Type and length.
const HEADER_LEN: usize = 4;

/// What has come of messages: those up to `at` were taken out.
#[derive(Default)]
pub(super) struct Messages {
    bytes: Vec<u8>,
    at: usize,
}

impl Messages {
    /// Takes what a record has. All whole messages of before have been taken out.
    ///
    /// # Errors
    ///
    /// A message is longer than any that is accepted.
    pub(super) fn push(&mut self, fragment: &[u8]) -> Result<(), TlsError> {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(fragment);
        match self.bytes.len() > FRAGMENTS_LEN_MAX {
            true => Err(TlsError::TooLong),
            false => Ok(()),
        }
    }

    /// Takes out the first message with its header, if it is whole.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let rest = &self.bytes[self.at..];
        let whole = rest.first_chunk::<HEADER_LEN>().and_then(|header| {
            let &[_, a, b, c] = header;
            rest.get(..HEADER_LEN + u32::from_be_bytes([0, a, b, c]) as usize)
        });
        match whole {
            Some(message) => {
                self.at += message.len();
                Some(message.to_vec())
            }
            None => {
                if rest.is_empty() {
                    (self.bytes, self.at) = (Vec::new(), 0); // Most of the time there is none.
                }
                None
            }
        }
    }

    /// Memory that it takes beside itself.
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity()
    }
}
