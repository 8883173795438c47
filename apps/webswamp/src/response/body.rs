//! A body that comes, whichever way its end is known.

use super::chunks::{Chunks, Taken};
use super::malformed::Malformed;

/// What is left of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// This many bytes.
    Length(u64),
    /// Chunks (RFC 9112 §7.1).
    Chunked(Chunks),
    /// All until the server finishes.
    UntilEnd,
}

impl Body {
    /// Nothing more comes.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunks) => chunks.is_done(),
            Self::UntilEnd => false,
        }
    }

    /// How many of the bytes that come next need not be looked at to know where it ends, as far as that can be said at once.
    pub fn countable(&self) -> u32 {
        match self {
            Self::Length(left) => u32::try_from(*left).unwrap_or(u32::MAX),
            Self::Chunked(_) => 0,
            Self::UntilEnd => u32::MAX,
        }
    }

    /// This many of these have come.
    pub fn counted(&mut self, count: u32) {
        if let Self::Length(left) = self {
            *left -= u64::from(count);
        }
    }

    /// Takes in what belongs to it: how many bytes that is, and how many of these are content, which is shown as it comes.
    ///
    /// # Errors
    ///
    /// A chunk is none.
    pub fn take(&mut self, bytes: &[u8], mut show: impl FnMut(&[u8])) -> Result<Taken, Malformed> {
        match self {
            Self::Length(left) => {
                let count = bytes
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= count as u64;
                show(&bytes[..count]);
                Ok(Taken::all(count))
            }
            Self::Chunked(chunks) => chunks.take(bytes, show),
            Self::UntilEnd => {
                show(bytes);
                Ok(Taken::all(bytes.len()))
            }
        }
    }
}
