//! Hashes of what the operator names, for tables, and of contents for entity tags.

use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use crate::message::Coding;

/// Hashes paths of documents, addresses of applications and numbers of our own, eight bytes at a time by multiply and fold.
///
/// Not keyed: only what the operator has named or we have counted is ever inserted, so a client cannot make them
/// collide, it can only ask for what is not there.
#[derive(Default)]
pub struct PathHasher(u64);

impl PathHasher {
    #[inline]
    fn mix(&mut self, word: u64) {
        const ODD: u128 = 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(self.0 ^ word) * ODD;
        self.0 = self.0.rotate_left(29) ^ (product as u64) ^ (product >> 64) as u64;
    }
}

impl Hasher for PathHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in chunks.by_ref() {
            self.mix(u64::from_le_bytes(chunk.try_into().expect("eight bytes")));
        }
        let mut last = [0; 8];
        last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
        self.mix(u64::from_le_bytes(last));
    }

    #[inline]
    fn write_usize(&mut self, len: usize) {
        self.mix(len as u64 | 1 << 63); // Slices begin with their length.
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A hash of content and its coding for entity tags: the same in every run and on every machine.
pub(crate) fn content_hash(bytes: &[u8], coding: Option<Coding>) -> u64 {
    let mut hasher = BuildHasherDefault::<PathHasher>::default().build_hasher();
    hasher.write_usize(bytes.len());
    hasher.write(bytes);
    if let Some(coding) = coding {
        hasher.write(coding.name().as_bytes());
    }
    hasher.finish()
}
