//! Random choices that a seed repeats.

/// SplitMix64 (Steele, Lea and Flood, 2014): good enough to choose test cases, and its state is the seed.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "it has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = self.0;
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Eight of them.
    pub fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    /// `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.byte()).collect()
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// True so often of a hundred times.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Damages bytes as a fuzzer does: up to five times some are changed, cut off, doubled or inserted.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>) {
        const TELLING: [u8; 11] = [0, 1, 2, 4, 8, 0x45, 0x7f, 0x80, 0xc0, 0xfe, 0xff];
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            match (self.below(6), bytes.get_mut(at)) {
                (0, Some(byte)) => *byte ^= 1 << self.below(8),
                (1, Some(byte)) => *byte = self.pick(&TELLING),
                (2, Some(byte)) => *byte = self.byte(),
                (3, _) => bytes.truncate(at),
                (4, _) => bytes.insert(at, self.byte()),
                (_, _) => bytes.extend_from_within(at..bytes.len().min(at + 8)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    /// The first outputs of the authors' program for the seed 1234567.
    #[test]
    fn agrees_with_the_reference() {
        let mut random = Random(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!([(); 3].map(|()| random.next()), expected);
    }

    #[test]
    fn mutations_differ_and_repeat() {
        let mutated = |seed| {
            let mut bytes = vec![7; 40];
            Random(seed).mutate(&mut bytes);
            bytes
        };
        assert_eq!(mutated(1), mutated(1));
        let changed = (0..100).filter(|seed| mutated(*seed) != [7; 40]).count();
        assert!(changed > 90, "{changed} of 100");
        let mut nothing = Vec::new();
        (0..100).for_each(|seed| Random(seed).mutate(&mut nothing));
    }
}
