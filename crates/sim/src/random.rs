//! The simulator's own random numbers, so that a seed means the same run for ever.
//!
//! xoshiro256++ (Blackman and Vigna, 2019), seeded by SplitMix64 as its authors say. Not for
//! secrets. No crate is used because a run must not change when a dependency does.

/// A seed; printed by every failing simulation, and all it takes to run it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of a seed. Streams of different `lane`s are independent: adding a consumer of
    /// random numbers does not disturb the others.
    pub fn new(seed: Seed, lane: u64) -> Random {
        let mut x = seed.0 ^ lane.wrapping_mul(0xa076_1d64_78bd_642f);
        let mut next = || {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Random {
            state: [next(), next(), next(), next()],
        }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound`, which is not zero. The bias is below 2⁻³² for the bounds used here.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below zero");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True with the given probability. Draws a number whatever the probability is, so that
    /// changing one probability to or from zero does not shift all other decisions.
    pub fn chance(&mut self, probability: f64) -> bool {
        // 53 bits are what an f64 holds exactly.
        ((self.next_u64() >> 11) as f64) < probability * (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of the authors' reference program for the state 1, 2, 3, 4.
    #[test]
    fn agrees_with_the_reference() {
        let mut random = Random {
            state: [1, 2, 3, 4],
        };
        let expected = [41943041, 58720359, 3588806011781223, 3591011842654386];
        assert_eq!([(); 4].map(|()| random.next_u64()), expected);
    }

    #[test]
    fn lanes_differ_and_seeds_repeat() {
        let draw = |seed, lane| Random::new(Seed(seed), lane).next_u64();
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
    }

    #[test]
    fn chances_are_kept() {
        let mut random = Random::new(Seed(1), 0);
        let hits = (0..100_000).filter(|_| random.chance(0.1)).count();
        assert!((9_500..10_500).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| !random.chance(0.0)));
        assert!((0..1000).all(|_| random.chance(1.0)));
        assert!((0..1000).all(|_| random.below(3) < 3));
    }
}
