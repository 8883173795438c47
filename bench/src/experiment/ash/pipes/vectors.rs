//! What the compiler makes for vectors of what pipes do: the only unsafe code of the experiments, which calls it on machines that have
//! such vectors.

#![allow(unsafe_code)]

/// Passes for vectors of these features; sums are of words in the machine's order, to be folded.
macro_rules! vectors {
    ($name:ident, $features:literal) => {
        mod $name {
            #[target_feature(enable = $features)]
            fn sum(bytes: &[u8]) -> u64 {
                let words = bytes.as_chunks::<4>().0.iter();
                words.map(|word| u64::from(u32::from_le_bytes(*word))).sum()
            }

            #[target_feature(enable = $features)]
            fn swap(bytes: &mut [u8]) {
                bytes
                    .as_chunks_mut::<4>()
                    .0
                    .iter_mut()
                    .for_each(|word| word.reverse());
            }

            #[target_feature(enable = $features)]
            pub fn copy(from: &[u8], to: &mut [u8], swap: bool) -> u64 {
                let to = to.as_chunks_mut::<4>().0.iter_mut();
                let mut sum = 0;
                for (to, from) in to.zip(from.as_chunks::<4>().0) {
                    let word = u32::from_le_bytes(*from);
                    sum += u64::from(word);
                    *to = if swap { word.swap_bytes() } else { word }.to_le_bytes();
                }
                sum
            }

            #[target_feature(enable = $features)]
            pub fn passes(from: &[u8], to: &mut [u8], turn: bool) -> u64 {
                to.copy_from_slice(from);
                let sum = sum(std::hint::black_box(&mut *to));
                if turn {
                    swap(to);
                }
                sum
            }
        }
    };
}

vectors!(avx2, "avx2");
vectors!(avx512, "avx512f,avx512bw,avx512vl");

/// Vectors that this machine has: nobody else makes one.
#[derive(Clone, Copy)]
pub(super) struct Vectors(Kind);

#[derive(Clone, Copy)]
enum Kind {
    Avx2,
    Avx512,
}

impl Vectors {
    /// All that this machine has.
    pub fn available() -> Vec<Self> {
        let has_avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        let kinds = [
            (is_x86_feature_detected!("avx2"), Kind::Avx2),
            (has_avx512, Kind::Avx512),
        ];
        let there = kinds.into_iter().filter(|(is_there, _)| *is_there);
        there.map(|(_, kind)| Self(kind)).collect()
    }

    /// A copy in one loop, which may turn words round; the sum of the words.
    pub fn copy(self, from: &[u8], to: &mut [u8], swap: bool) -> u64 {
        // SAFETY: the machine has these vectors (`available`).
        unsafe {
            match self.0 {
                Kind::Avx2 => avx2::copy(from, to, swap),
                Kind::Avx512 => avx512::copy(from, to, swap),
            }
        }
    }

    /// Such a copy, the sum and the turning round in a pass each.
    pub fn passes(self, from: &[u8], to: &mut [u8], swap: bool) -> u64 {
        // SAFETY: the machine has these vectors (`available`).
        unsafe {
            match self.0 {
                Kind::Avx2 => avx2::passes(from, to, swap),
                Kind::Avx512 => avx512::passes(from, to, swap),
            }
        }
    }
}
