//! Records on their way into a pipe: headers and short bytes are put together in a draft, long bytes go by reference.

use crate::limits::{DRAFT_LEN, GATHERED_LEN_MAX};
use crate::record::Header;
use exos_iolite::{Aggregate, Pool, Result, Sender, Slice};

/// What a side has to say.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pool: Pool,
    /// Behind what is in `ready`.
    bytes: Vec<u8>,
    ready: Aggregate,
}

impl Outgoing {
    pub fn new(pool: Pool) -> Self {
        Self {
            pool,
            bytes: Vec::new(),
            ready: Aggregate::new(),
        }
    }

    /// All was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.ready.is_empty()
    }

    /// A record whose bytes are copied.
    pub fn push(&mut self, header: Header, bytes: &[u8]) {
        self.bytes.extend(header.bytes());
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= DRAFT_LEN {
            self.seal();
        }
    }

    /// A record whose bytes go by reference, unless they are few and not kept.
    pub fn pass(&mut self, header: Header, bytes: Aggregate) {
        if !header.is_kept && bytes.len() < GATHERED_LEN_MAX {
            return self.push(header, &bytes.to_vec());
        }
        self.bytes.extend(header.bytes());
        self.seal();
        self.ready.concatenate(bytes);
    }

    /// What was put together goes.
    fn seal(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        if let Some(few) = Slice::of_few(&bytes) {
            self.ready.append(few);
            return;
        }
        match self.pool.copy(&bytes) {
            Ok(copy) => self.ready.concatenate(copy),
            // No buffer is left: the pipe copies it when there is one.
            Err(_) => self
                .ready
                .append(exos_buf::Buffer::from(bytes).whole().into()),
        }
    }

    /// Writes as much as there is room for; true when all was written.
    pub fn write(&mut self, sender: &mut Sender) -> Result<bool> {
        self.seal();
        if !self.ready.is_empty() {
            sender.write(&mut self.ready)?;
        }
        Ok(self.ready.is_empty())
    }
}
