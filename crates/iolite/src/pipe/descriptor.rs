//! What stands in a slot of a ring: bytes by reference, or few bytes themselves, in 7 words.

use crate::limits::INLINE_LEN_MAX;

pub(super) const KIND_BUFFER: u64 = 1;
pub(super) const KIND_INLINE: u64 = 2;

/// What goes through a pipe: bytes by reference, or few bytes themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Descriptor {
    Buffer(Reference),
    Inline {
        len: u32,
        bytes: [u8; INLINE_LEN_MAX],
    },
}

/// Bytes of a buffer of one of the pipe's pools.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reference {
    pub pool: u8,
    pub buffer: u32,
    pub generation: u64,
    pub start: u32,
    pub len: u32,
}

/// A slot's words behind its turn. The low half of the third is the length, whatever the kind.
pub(super) type Words = [u64; 7];

impl Descriptor {
    /// Bytes of which it tells.
    #[inline]
    pub fn len(&self) -> u64 {
        match self {
            Self::Buffer(reference) => reference.len.into(),
            Self::Inline { len, .. } => (*len).into(),
        }
    }

    #[inline]
    pub fn encode(self) -> Words {
        let mut words = [0; 7];
        match self {
            Self::Buffer(r) => {
                words[0] = KIND_BUFFER << 56 | u64::from(r.pool) << 48 | u64::from(r.buffer);
                words[1] = r.generation;
                words[2] = u64::from(r.start) << 32 | u64::from(r.len);
            }
            Self::Inline { len, bytes } => {
                words[0] = KIND_INLINE << 56;
                words[2] = len.into();
                let (chunks, _) = bytes.as_chunks();
                for (word, bytes) in words[3..].iter_mut().zip(chunks) {
                    *word = u64::from_le_bytes(*bytes);
                }
            }
        }
        words
    }

    /// What another process wrote; `None` where it has no meaning. What stands behind few bytes is nothing: sent on, it would go from one
    /// process to another past this one.
    #[inline]
    pub fn decode(words: Words) -> Option<Self> {
        let len = words[2] as u32;
        match words[0] >> 56 {
            KIND_BUFFER if len > 0 => Some(Self::Buffer(Reference {
                pool: (words[0] >> 48) as u8,
                buffer: words[0] as u32,
                generation: words[1],
                start: (words[2] >> 32) as u32,
                len,
            })),
            KIND_INLINE if len > 0 && len as usize <= INLINE_LEN_MAX => {
                let mut bytes = [0; INLINE_LEN_MAX];
                let (chunks, _) = bytes.as_chunks_mut();
                let mut left = len;
                for (bytes, word) in chunks.iter_mut().zip(&words[3..]) {
                    let mask = u64::MAX >> (64 - 8 * left.min(8));
                    *bytes = (word & mask).to_le_bytes();
                    left = left.saturating_sub(8);
                    if left == 0 {
                        break;
                    }
                }
                Some(Self::Inline { len, bytes })
            }
            _ => None,
        }
    }
}
