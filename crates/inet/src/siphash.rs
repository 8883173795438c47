//! SipHash-1-3, keyed: a fast hash that outsiders cannot steer without the key.
//!
//! Used for the connection table (no chosen collisions) and for initial sequence numbers
//! (RFC 6528 §3 asks for a pseudorandom function of the four-tuple and a secret).
//! Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012.

/// The secret of one stack.
#[derive(Copy, Clone)]
pub struct SipKey {
    k0: u64,
    k1: u64,
}

impl SipKey {
    /// A key drawn from a seed; as secret as the seed is.
    pub fn from_seed(seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self {
            k0: random.next_u64(),
            k1: random.next_u64(),
        }
    }

    /// The key itself, for who hashes elsewhere.
    pub const fn words(&self) -> [u64; 2] {
        [self.k0, self.k1]
    }

    /// The hash of `words`.
    #[inline]
    pub fn hash(&self, words: &[u64]) -> u64 {
        let mut v = self.start();
        for &word in words {
            v[3] ^= word;
            round(&mut v);
            v[0] ^= word;
        }
        // The length in bytes, in the last block's top byte.
        finish(v, (words.len() as u64 * 8) << 56)
    }

    /// The hash of `words` and four bytes more: one round less than with a word more.
    #[inline]
    pub fn hash_and_half<const N: usize>(&self, words: [u64; N], half: u32) -> u64 {
        let mut v = self.start();
        for word in words {
            v[3] ^= word;
            round(&mut v);
            v[0] ^= word;
        }
        finish(v, (N as u64 * 8 + 4) << 56 | u64::from(half))
    }

    #[inline]
    fn start(&self) -> [u64; 4] {
        [
            self.k0 ^ 0x736f_6d65_7073_6575,
            self.k1 ^ 0x646f_7261_6e64_6f6d,
            self.k0 ^ 0x6c79_6765_6e65_7261,
            self.k1 ^ 0x7465_6462_7974_6573,
        ]
    }
}

/// The last block, and the three rounds after it.
#[inline]
fn finish(mut v: [u64; 4], last: u64) -> u64 {
    v[3] ^= last;
    round(&mut v);
    v[0] ^= last;
    v[2] ^= 0xff;
    round(&mut v);
    round(&mut v);
    round(&mut v);
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

/// One SipRound.
#[inline]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

/// SplitMix64: numbers that need to be different, not secret (identification fields, port starts).
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence that begins at `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard library's hasher is SipHash-1-3 with a zero key.
    #[test]
    fn agrees_with_the_standard_library() {
        use std::hash::Hasher;
        #[allow(deprecated)]
        for len in 0..6u64 {
            let words: Vec<u64> = (0..len)
                .map(|n| n.wrapping_mul(0x0123_4567_89ab_cdef))
                .collect();
            let mut theirs = std::collections::hash_map::DefaultHasher::new();
            words.iter().for_each(|w| theirs.write_u64(*w));
            assert_eq!(SipKey { k0: 0, k1: 0 }.hash(&words), theirs.finish());
        }
        #[allow(deprecated)]
        let mut theirs = std::collections::hash_map::DefaultHasher::new();
        [5u64, 6, 7].iter().for_each(|&w| theirs.write_u64(w));
        theirs.write_u32(0x89ab_cdef);
        let ours = SipKey { k0: 0, k1: 0 }.hash_and_half([5, 6, 7], 0x89ab_cdef);
        assert_eq!(ours, theirs.finish());
    }
}
