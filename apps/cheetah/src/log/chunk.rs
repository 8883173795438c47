//! What loops and the thread that writes their lines pass to each other: lines in chunks, and counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Some whole lines.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: u64,
}

#[cfg(test)]
impl From<&str> for Chunk {
    fn from(text: &str) -> Chunk {
        Chunk {
            bytes: text.as_bytes().to_vec(),
            lines: text.lines().count() as u64,
        }
    }
}

/// What the thread and its owners share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Open the file again before the next lines.
    pub(super) reopen: AtomicBool,
    /// Of each owner.
    pub(super) lines: Box<[Lines]>,
}

/// What became of an owner's lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Could not be written.
    pub(super) lost: AtomicU64,
    /// Were left out because the thread had too many already.
    pub(super) dropped: AtomicU64,
}

impl Shared {
    pub(super) fn lost(&self) -> u64 {
        self.sum(|lines| &lines.lost)
    }

    pub(super) fn dropped(&self) -> u64 {
        self.sum(|lines| &lines.dropped)
    }

    fn sum(&self, of: impl Fn(&Lines) -> &AtomicU64) -> u64 {
        let counts = self
            .lines
            .iter()
            .map(|lines| of(lines).load(Ordering::Relaxed));
        counts.sum()
    }
}
