//! Aggregates of what is no pipe of ours and no file of the cache: a plain descriptor, from and to which the kernel copies.

use exos_iolite::{Aggregate, Pool, Slice};
use std::io::{self, Read, Write};

/// Bytes that were copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copied {
    /// From descriptors into buffers.
    pub read: u64,
    /// From buffers to descriptors.
    pub written: u64,
}

impl Copied {
    /// Reads what is there, at most a buffer of the pool; nothing at the end.
    ///
    /// # Errors
    ///
    /// The descriptor's; or no buffer is left.
    pub fn read(&mut self, mut from: impl Read, pool: &Pool) -> io::Result<Aggregate> {
        let len = pool.shape().buffer_len as usize;
        let mut draft = pool.draft(len).map_err(io::Error::other)?;
        loop {
            match from.read(draft.bytes_mut()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(len) => {
                    self.read += len as u64;
                    return Ok(draft.freeze_first(len).into());
                }
            }
        }
    }

    /// Writes all of an aggregate.
    ///
    /// # Errors
    ///
    /// The descriptor's.
    pub fn write(&mut self, mut to: impl Write, aggregate: &Aggregate) -> io::Result<()> {
        let mut buffer = Vec::new();
        for slice in aggregate.slices() {
            to.write_all(contiguous(slice, &mut buffer))?;
            self.written += slice.len() as u64;
        }
        Ok(())
    }
}

/// The bytes of a slice in one piece: in place where nobody can change them, else copied into a buffer.
pub fn contiguous<'a>(slice: &'a Slice, buffer: &'a mut Vec<u8>) -> &'a [u8] {
    if let Some(bytes) = slice.as_bytes() {
        return bytes;
    }
    buffer.resize(slice.len(), 0);
    slice.copy_to(0, buffer);
    buffer
}
