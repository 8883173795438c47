//! A piece of a buffer while it is written.

use super::owner::{Core, OwnBuffer};
use crate::error::{Error, Result};
use crate::limits::DRAFT_ALIGN;
use crate::slice::Slice;
use std::rc::Rc;

/// Bytes of a pool that this process alone has, to be written and frozen.
#[derive(Debug)]
pub struct Draft {
    buffer: Rc<OwnBuffer>,
    start: u32,
    len: u32,
}

impl Draft {
    pub(crate) fn new(core: &Rc<Core>, len: usize) -> Result<Self> {
        let most = core.shape.buffer_len as usize;
        if len > most {
            return Err(Error::TooLong { len, most });
        }
        let room = len.next_multiple_of(DRAFT_ALIGN) as u32;
        let (buffer, start) = core.room(room)?;
        let len = len as u32;
        Ok(Self { buffer, start, len })
    }

    /// The bytes. At first they are those of what was there before.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self.start as usize;
        // SAFETY: no two drafts are given the same room of a buffer as long as it is used, and slices are made of drafts that are no
        // more: only this draft refers to these bytes.
        unsafe { self.buffer.bytes_mut(start..start + self.len as usize) }
    }

    /// From now on these bytes do not change.
    #[inline]
    pub fn freeze(self) -> Slice {
        Slice::own(self.buffer, self.start, self.len)
    }

    /// The first of these bytes, frozen.
    ///
    /// # Panics
    ///
    /// When there are fewer.
    pub fn freeze_first(self, len: usize) -> Slice {
        self.freeze().sub(0..len)
    }
}
