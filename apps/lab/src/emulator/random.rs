//! The emulator's random numbers: one stream for each direction of each seed, one place for each decision.
//!
//! SplitMix64 (Steele, Lea, Flood, 2014) used by position: the number for decision d on frame n is element
//! n * [`Decision::COUNT`] + d of the stream. So what happens to a frame depends on the seed, its direction, its
//! number and the setting in question alone: turning another setting on or off leaves it as it was. Written
//! here because a seed must mean the same run whatever becomes of a dependency. Not for secrets.

/// What a number is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Decision {
    Loss = 0,
    BurstTurn = 1,
    BurstLoss = 2,
    Jitter = 3,
    Reorder = 4,
    Duplicate = 5,
    Corrupt = 6,
    CorruptWhere = 7,
}

impl Decision {
    /// Places in the stream for each frame; room for more decisions without moving those that there are.
    const COUNT: u64 = 16;
}

/// What SplitMix64 adds from number to number: 2^64 divided by the golden ratio, made odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The numbers of one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    begin: u64,
}

/// The numbers of one frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameRandom {
    begin: u64,
}

impl Stream {
    /// The stream of a direction. Streams of neighbouring seeds and directions begin far apart.
    pub(super) fn new(seed: u64, direction: u64) -> Self {
        let begin = mix(mix(seed.wrapping_add(STEP)) ^ direction);
        Self { begin }
    }

    /// The numbers of the frame with this number.
    pub(super) fn frame(&self, number: u64) -> FrameRandom {
        let at = number.wrapping_mul(Decision::COUNT);
        FrameRandom {
            begin: self.begin.wrapping_add(at.wrapping_mul(STEP)),
        }
    }
}

impl FrameRandom {
    fn bits(&self, decision: Decision) -> u64 {
        let at = decision as u64;
        mix(self.begin.wrapping_add(at.wrapping_mul(STEP)))
    }

    /// True with the given probability.
    pub(super) fn chance(&self, decision: Decision, probability: f64) -> bool {
        // 53 bits are what an f64 holds exactly.
        const SCALE: f64 = (1u64 << 53) as f64;
        ((self.bits(decision) >> 11) as f64) < probability * SCALE
    }

    /// A number below `bound`, which is not zero. The bias is below 2^-30 for bounds below 2^34.
    pub(super) fn below(&self, decision: Decision, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below zero");
        ((u128::from(self.bits(decision)) * u128::from(bound)) >> 64) as u64
    }
}

/// SplitMix64's output function: every bit of the input moves every bit of the output.
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of the authors' program for the seed 1234567.
    #[test]
    fn agrees_with_the_reference() {
        let outputs = [1, 2, 3].map(|n: u64| mix(1_234_567_u64.wrapping_add(n.wrapping_mul(STEP))));
        assert_eq!(
            outputs,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn seeds_directions_frames_and_decisions_differ_and_repeat() {
        let draw = |seed, direction, frame, decision| {
            Stream::new(seed, direction).frame(frame).bits(decision)
        };
        let one = draw(7, 0, 3, Decision::Loss);
        assert_eq!(one, draw(7, 0, 3, Decision::Loss));
        for other in [
            draw(8, 0, 3, Decision::Loss),
            draw(7, 1, 3, Decision::Loss),
            draw(7, 0, 4, Decision::Loss),
            draw(7, 0, 3, Decision::Jitter),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn chances_are_kept_and_those_of_two_decisions_are_independent() {
        let stream = Stream::new(1, 0);
        let mut counts = [0_u32; 3];
        for n in 0..100_000 {
            let random = stream.frame(n);
            let (loss, reorder) = (
                random.chance(Decision::Loss, 0.1),
                random.chance(Decision::Reorder, 0.1),
            );
            counts[0] += u32::from(loss);
            counts[1] += u32::from(reorder);
            counts[2] += u32::from(loss && reorder);
            assert!(!random.chance(Decision::Corrupt, 0.0));
            assert!(random.chance(Decision::Corrupt, 1.0));
            assert!(random.below(Decision::Jitter, 3) < 3);
        }
        // Five standard deviations: 95 of the first two, 31 of the third.
        assert!((9_525..=10_475).contains(&counts[0]), "{counts:?}");
        assert!((9_525..=10_475).contains(&counts[1]), "{counts:?}");
        assert!((845..=1_155).contains(&counts[2]), "{counts:?}");
    }
}
