//! A stream of bytes that knows where it is and never takes more memory than it was told to.

use std::io::{ErrorKind, Read};

use super::error::FileError;

/// A reader with its position, and the bytes of the item under way.
pub(super) struct Input<R> {
    from: R,
    at: u64,
    item: Vec<u8>,
}

impl<R: Read> Input<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from,
            at: 0,
            item: Vec::new(),
        }
    }

    /// Something is wrong with what was just read.
    pub(super) fn bad(&self, what: impl Into<String>) -> FileError {
        FileError::Bad {
            at: self.at,
            what: what.into(),
        }
    }

    /// `N` bytes; an error when the file ends before.
    pub(super) fn array<const N: usize>(&mut self, of: &str) -> Result<[u8; N], FileError> {
        match self.array_or_end(of)? {
            Some(bytes) => Ok(bytes),
            None => Err(self.bad(format!("the file ends before {of}"))),
        }
    }

    /// `N` bytes, or `None` when the file ends exactly here.
    pub(super) fn array_or_end<const N: usize>(
        &mut self,
        of: &str,
    ) -> Result<Option<[u8; N]>, FileError> {
        let mut bytes = [0; N];
        let mut have = 0;
        while have < N {
            match self.from.read(&mut bytes[have..]) {
                Ok(0) if have == 0 => return Ok(None),
                Ok(0) => return Err(self.bad(format!("the file ends inside {of}"))),
                Ok(n) => have += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.at += N as u64;
        Ok(Some(bytes))
    }

    /// Reads an item of `len` bytes, which [`Self::item`] then shows. The caller has checked `len`
    /// against its limit.
    pub(super) fn read_item(&mut self, len: usize, of: &str) -> Result<(), FileError> {
        self.item.clear();
        let wanted = len as u64;
        let have = Read::by_ref(&mut self.from)
            .take(wanted)
            .read_to_end(&mut self.item)?;
        if have < len {
            return Err(self.bad(format!("the file ends inside {of}")));
        }
        self.at += wanted;
        Ok(())
    }

    /// What [`Self::read_item`] read.
    pub(super) fn item(&self) -> &[u8] {
        &self.item
    }
}
