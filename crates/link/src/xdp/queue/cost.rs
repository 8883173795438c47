//! What sending a batch costs by each of two ways, learned while sending.
//!
//! By the ring each frame costs the same, and the first one little; a call that sends many costs more by itself, and each
//! frame of it less. Where they meet depends on the machine, on the frames, and on who receives them: so batches of about
//! one size are timed, each way is tried again now and then, and the cheaper one is taken.
//!
//! Losing frames is cheap for the one that loses them. So of some batches it is looked at how many were lost, and a way
//! that loses frames counts as dearer than it is.

use std::time::Duration;

use super::super::open::TransmitChoice;

/// A way for a batch to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Descriptors in the transmit ring.
    Ring,
    /// A call that sends all of it ([`Batches`](super::Batches)).
    Batch,
}

/// Frames are long from this mean length on, in bytes.
const LONG: usize = 512;

/// Sizes of batches that are told apart: by their powers of two, the last for all above.
const SIZES: usize = 10;

/// One batch in this many of a size is for the way that seems dearer.
const TRY_EVERY: u32 = 64;

/// And one in this many where it is dearer by more than [`FAR`].
const TRY_FAR_EVERY: u32 = 1024;

/// How many times as dear is far.
const FAR: f32 = 2.0;

/// The weight of one batch in the mean.
const WEIGHT: f32 = 1.0 / 8.0;

/// A batch counts for this many times the mean at most: what took longer was interrupted.
const OUTLIER: f32 = 4.0;

/// Of one batch in this many it is looked at how many frames were lost, which takes some 5 µs. Every second time it is one that
/// is tried the dearer way, or with a way that is far dearer one in 32.
const WATCH_EVERY: u32 = 32;

const _: () =
    assert!(TRY_EVERY.is_multiple_of(WATCH_EVERY) && TRY_FAR_EVERY.is_multiple_of(WATCH_EVERY));

/// How many frames sent a lost one counts for: it is missed a round trip later, sent again, and its connection is slowed
/// down. One in a hundred makes a way twice as dear.
const LOST_WEIGHT: f32 = 100.0;

/// What one way has cost.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Nanoseconds a frame; 0 while unknown.
    nanos: f32,
    /// The part of the frames that was lost.
    lost: f32,
}

impl Cost {
    /// Nanoseconds a frame, with what those that are lost cost others.
    fn weighed(self) -> f32 {
        self.nanos * (1.0 + LOST_WEIGHT * self.lost)
    }

    fn learn(&mut self, nanos: f32) {
        // One that is much cheaper than the mean says that the mean was of cold caches, or interrupted.
        self.nanos = if self.nanos == 0.0 || nanos < self.nanos / 2.0 {
            nanos
        } else {
            self.nanos + (nanos.min(OUTLIER * self.nanos) - self.nanos) * WEIGHT
        };
    }
}

/// What batches of about one size have cost.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    ring: Cost,
    batch: Cost,
    batches: u32,
}

impl Costs {
    fn by(&mut self, way: Way) -> &mut Cost {
        match way {
            Way::Ring => &mut self.ring,
            Way::Batch => &mut self.batch,
        }
    }
}

/// What batches have cost, by their size.
#[derive(Debug)]
pub(super) struct BatchCosts {
    choice: TransmitChoice,
    /// Fewer frames go by the ring, untimed.
    frames_min: usize,
    short: [Costs; SIZES],
    long: [Costs; SIZES],
}

impl BatchCosts {
    /// Nothing is known. Fewer than `frames_min` go by the ring if there is a choice.
    pub(super) fn new(choice: TransmitChoice, frames_min: usize) -> Self {
        Self {
            choice,
            frames_min,
            short: [Costs::default(); SIZES],
            long: [Costs::default(); SIZES],
        }
    }

    /// Whether a batch of this many frames may leave another way than by the ring.
    pub(super) fn may_batch(&self, frames: usize) -> bool {
        match self.choice {
            TransmitChoice::Cheaper => frames >= self.frames_min,
            TransmitChoice::Ring => false,
            TransmitChoice::Batches => frames > 0,
        }
    }

    /// The way for a batch of this many frames, with this many bytes altogether.
    pub(super) fn choose(&mut self, frames: usize, bytes: usize) -> Way {
        if self.choice == TransmitChoice::Batches {
            return Way::Batch;
        }
        let costs = self.of(frames, bytes);
        costs.batches = costs.batches.wrapping_add(1);
        let (ring, batch) = (costs.ring.weighed(), costs.batch.weighed());
        let (cheaper, low, high) = if batch <= ring {
            (Way::Batch, batch, ring)
        } else {
            (Way::Ring, ring, batch)
        };
        if low == 0.0 {
            // One of them is unknown, the ring first.
            return if ring == 0.0 { Way::Ring } else { Way::Batch };
        }
        let every = if high > FAR * low {
            TRY_FAR_EVERY
        } else {
            TRY_EVERY
        };
        match (costs.batches % every, cheaper) {
            (0, Way::Ring) => Way::Batch,
            (0, Way::Batch) => Way::Ring,
            _ => cheaper,
        }
    }

    /// What a batch has cost.
    pub(super) fn learn(&mut self, frames: usize, bytes: usize, way: Way, took: Duration) {
        let nanos = (took.as_nanos() as f32 / frames as f32).max(1.0);
        self.of(frames, bytes).by(way).learn(nanos);
    }

    /// Whether it is to be looked at how many frames are lost of the next batch of this size.
    pub(super) fn is_watched(&mut self, frames: usize, bytes: usize) -> bool {
        let next = self.of(frames, bytes).batches.wrapping_add(1);
        next.is_multiple_of(WATCH_EVERY)
    }

    /// How many frames of a batch were lost.
    pub(super) fn learn_lost(&mut self, frames: usize, bytes: usize, way: Way, lost: u64) {
        let part = (lost as f32 / frames as f32).min(1.0);
        let mean = &mut self.of(frames, bytes).by(way).lost;
        *mean += (part - *mean) * WEIGHT;
    }

    fn of(&mut self, frames: usize, bytes: usize) -> &mut Costs {
        let table = if bytes / frames.max(1) < LONG {
            &mut self.short
        } else {
            &mut self.long
        };
        &mut table[(frames.max(1).ilog2() as usize).min(SIZES - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends batches of a size whose ways cost so much; how many of the last thousand did not go by the ring.
    fn many_of_a_thousand(costs: &mut BatchCosts, ring: u64, many: u64) -> usize {
        let mut send = || {
            let way = costs.choose(64, 64 * 60);
            let nanos = if way == Way::Ring { ring } else { many };
            costs.learn(64, 64 * 60, way, Duration::from_nanos(nanos));
            way == Way::Batch
        };
        for _ in 0..5_000 {
            send();
        }
        (0..1_000).filter(|_| send()).count()
    }

    #[test]
    fn the_cheaper_way_is_taken_and_the_other_tried_now_and_then() {
        let mut costs = BatchCosts::new(TransmitChoice::Cheaper, 8);
        assert!((1..=20).contains(&many_of_a_thousand(&mut costs, 10_000, 15_000)));
        assert!((980..=999).contains(&many_of_a_thousand(&mut costs, 15_000, 10_000)));
        assert!(
            many_of_a_thousand(&mut costs, 10_000, 90_000) <= 1,
            "seldom where it is far dearer"
        );
        assert!(many_of_a_thousand(&mut costs, 90_000, 10_000) >= 999);
    }

    /// One that drops frames is quick: it is left, and taken again when it has stopped.
    #[test]
    fn a_way_that_loses_frames_is_not_cheap() {
        let mut costs = BatchCosts::new(TransmitChoice::Cheaper, 8);
        let (frames, bytes) = (64, 64 * 60);
        let mut batches_of = |count: u32, lost: u64| {
            let mut send = || {
                let is_watched = costs.is_watched(frames, bytes);
                let way = costs.choose(frames, bytes);
                let (nanos, lost) = match way {
                    Way::Ring => (20_000, 0),
                    Way::Batch => (10_000, lost),
                };
                costs.learn(frames, bytes, way, Duration::from_nanos(nanos));
                if is_watched {
                    costs.learn_lost(frames, bytes, way, lost);
                }
                way == Way::Batch
            };
            (0..count).filter(|_| send()).count()
        };
        assert!(batches_of(1_000, 0) > 900);
        batches_of(1_000, 8);
        assert!(batches_of(2_048, 8) <= 32, "an eighth of them is lost");
        batches_of(60_000, 0);
        assert!(batches_of(1_000, 0) > 900);
    }

    #[test]
    fn one_interrupted_batch_does_not_turn_the_choice() {
        let mut costs = BatchCosts::new(TransmitChoice::Cheaper, 8);
        many_of_a_thousand(&mut costs, 20_000, 10_000);
        costs.learn(64, 64 * 60, Way::Batch, Duration::from_millis(20));
        assert_eq!(costs.choose(64, 64 * 60), Way::Batch);
    }

    /// What was interrupted the first time is tried again, and costs little then.
    #[test]
    fn a_first_batch_that_was_interrupted_is_forgotten() {
        let mut costs = BatchCosts::new(TransmitChoice::Cheaper, 8);
        let (frames, bytes) = (64, 64 * 60);
        costs.learn(frames, bytes, Way::Ring, Duration::from_micros(20));
        costs.learn(frames, bytes, Way::Batch, Duration::from_millis(20));
        let mut many = || {
            let way = costs.choose(frames, bytes);
            let micros = if way == Way::Ring { 20 } else { 10 };
            costs.learn(frames, bytes, way, Duration::from_micros(micros));
            way == Way::Batch
        };
        assert!((0..2 * TRY_FAR_EVERY).filter(|_| many()).count() > 900);
    }

    #[test]
    fn short_and_long_frames_and_sizes_of_batches_are_apart() {
        let mut costs = BatchCosts::new(TransmitChoice::Cheaper, 8);
        many_of_a_thousand(&mut costs, 20_000, 10_000);
        assert_eq!(
            costs.choose(64, 64 * 1514),
            Way::Ring,
            "nothing is known of long ones"
        );
        assert_eq!(costs.choose(16, 16 * 60), Way::Ring, "nor of few");
        costs.choose(1 << 20, 0);
        costs.choose(0, 0);
    }
}
