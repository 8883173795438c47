//! Reading on in a message of which the end may not be there: what its lengths contradict is an error, what only the capture has cut
//! off is not.

use crate::WireError;

/// A place in a message.
///
/// Invariant: `bytes.len() <= left`. As soon as something was cut off, `bytes` is empty.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    /// What is there from the place on.
    bytes: &'a [u8],
    /// What the message has from the place on.
    left: usize,
    is_cut: bool,
    layer: &'static str,
}

impl<'a> Cursor<'a> {
    /// At the begin of a message of this length.
    pub(crate) fn new(bytes: &'a [u8], length: usize, layer: &'static str) -> Self {
        Self {
            bytes: bytes.get(..length).unwrap_or(bytes),
            left: length,
            is_cut: bytes.len() < length,
            layer,
        }
    }

    /// A part of the message is not there.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// What the message has from the place on, where no length before it was cut off.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// The message has nothing more, or nothing more of it is there.
    pub(crate) fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All that is there from the place on.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// `N` bytes.
    ///
    /// # Errors
    /// They are not all there, or the message has not as many.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], WireError> {
        let have = self.bytes.len();
        match self.bytes.split_first_chunk() {
            Some((array, rest)) => {
                (self.bytes, self.left) = (rest, self.left - N);
                Ok(array)
            }
            None if self.left < N => Err(self.too_long(N)),
            None => Err(WireError::Truncated {
                layer: self.layer,
                need: N,
                have,
            }),
        }
    }

    /// So many bytes, or those of them that are there.
    ///
    /// # Errors
    /// The message has not as many.
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        if count > self.left {
            return Err(self.too_long(count));
        }
        self.left -= count;
        let (taken, rest) = self.bytes.split_at_checked(count).unwrap_or_else(|| {
            self.is_cut = true;
            (self.bytes, &[])
        });
        self.bytes = rest;
        Ok(taken)
    }

    /// A vector behind a length of one byte, as [`Cursor::bytes`].
    ///
    /// # Errors
    /// It is longer than what the message has left.
    pub(crate) fn vector_u8(&mut self) -> Result<&'a [u8], WireError> {
        match self.bytes(1)? {
            &[length] => self.bytes(length.into()),
            _ => Ok(&[]),
        }
    }

    /// A vector behind a length of two bytes, as [`Cursor::bytes`].
    ///
    /// # Errors
    /// It is longer than what the message has left.
    pub(crate) fn vector_u16(&mut self) -> Result<&'a [u8], WireError> {
        match self.bytes(2)? {
            &[high, low] => self.bytes(u16::from_be_bytes([high, low]).into()),
            _ => Ok(&[]),
        }
    }

    fn too_long(&self, length: usize) -> WireError {
        WireError::BadLength {
            layer: self.layer,
            length,
        }
    }
}
