//! The handshake messages of one direction, put together from the records that carry them.

use crate::TlsError;
use crate::limits::FRAGMENTS_LEN_MAX;

/// Type and length.
const HEADER_LEN: usize = 4;

/// What has come of a message that is not whole.
#[derive(Default)]
pub(super) struct Messages(Vec<u8>);

impl Messages {
    /// Takes what a record has.
    ///
    /// # Errors
    ///
    /// A message is longer than any that is accepted.
    pub(super) fn push(&mut self, fragment: &[u8]) -> Result<(), TlsError> {
        self.0.extend_from_slice(fragment);
        match self.0.len() > FRAGMENTS_LEN_MAX {
            true => Err(TlsError::TooLong),
            false => Ok(()),
        }
    }

    /// Takes out the first message with its header, if it is whole.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let &[_, a, b, c] = self.0.first_chunk::<HEADER_LEN>()?;
        let len = HEADER_LEN + u32::from_be_bytes([0, a, b, c]) as usize;
        let message = self.0.get(..len)?.to_vec();
        self.0.drain(..len);
        Some(message)
    }
}
