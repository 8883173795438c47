//! What sending a batch costs by each path that there is, learned while sending.
//!
//! By the ring each frame costs the same, and the first one little; a call that sends many costs more by itself, and each
//! frame of it less. Where they meet depends on the machine, on the frames, and on who receives them: so batches of about
//! one size are timed, each path is tried again now and then, and the cheapest one is taken.
//!
//! Losing frames is cheap for the one that loses them. So of some batches it is looked at how many were lost, and a path
//! that loses frames counts as dearer than it is.

use std::time::Duration;

use super::super::send_path::{SendPath, TransmitChoice};
use crate::learned::Learned;

/// How many there are.
const PATHS: usize = 3;

impl SendPath {
    /// How many frames it may be worth for. A call of live frames costs more than fewer do by the ring on any machine seen;
    /// one of the daemon's saves even a lone frame the virtual interface.
    const fn frames_min(self) -> usize {
        match self {
            Self::Ring | Self::Batch => 1,
            Self::Live => 8,
        }
    }
}

/// Frames are long from this mean length on, in bytes.
const LONG: usize = 512;

/// Sizes of batches that are told apart: by their powers of two, the last for all above.
const SIZES: usize = 10;

/// Once in this many batches of a size each path that seems dearer is tried.
const TRY_EVERY: u32 = 128;

/// And once in this many where it is dearer by more than [`FAR`].
const TRY_FAR_EVERY: u32 = 1024;

/// With this many batches in a row: the first one pays for caches in which nothing of that path is left, and says nothing of what the
/// next ones would cost.
const TRY_RUN: u32 = 3;

/// How many times as dear is far.
const FAR: f32 = 2.0;

/// The weight of one batch in the mean of frames lost.
const LOST_WEIGHT_OF_ONE: f32 = 1.0 / 8.0;

/// Of one batch in this many it is looked at how many frames were lost, which takes some 5 µs. One of four is one
/// that tries a dearer path, or one of 32 where that is far dearer.
const WATCH_EVERY: u32 = 32;

const _: () =
    assert!(TRY_EVERY.is_multiple_of(WATCH_EVERY) && TRY_FAR_EVERY.is_multiple_of(WATCH_EVERY));

/// How many frames sent a lost one counts for: it is missed a round trip later, sent again, and its connection is slowed
/// down. One in a hundred makes a path twice as dear.
const LOST_WEIGHT: f32 = 100.0;

/// What one path has cost.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Nanoseconds a frame.
    nanos: Learned,
    /// The part of the frames that was lost.
    lost: f32,
}

impl Cost {
    /// Nanoseconds a frame, with what those that are lost cost others; 0 while unknown.
    fn weighed(self) -> f32 {
        self.nanos.get().unwrap_or_default() * (1.0 + LOST_WEIGHT * self.lost)
    }
}

/// What batches of about one size have cost.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    by: [Cost; PATHS],
    batches: u32,
    /// The present one is the first that tries another path.
    is_cold: bool,
}

/// What batches have cost, by their size.
#[derive(Debug)]
pub(super) struct BatchCosts {
    choice: TransmitChoice,
    /// Those that there are, the ring first.
    paths: &'static [SendPath],
    short: [Costs; SIZES],
    long: [Costs; SIZES],
}

impl BatchCosts {
    /// Nothing is known.
    pub(super) fn new(choice: TransmitChoice, paths: &'static [SendPath]) -> Self {
        Self {
            choice,
            paths,
            short: [Costs::default(); SIZES],
            long: [Costs::default(); SIZES],
        }
    }

    /// Whether a batch of this many frames may leave by another path than the ring.
    pub(super) fn may_batch(&self, frames: usize) -> bool {
        let is_worth = |path: &SendPath| *path != SendPath::Ring && path.frames_min() <= frames;
        match self.choice {
            TransmitChoice::Cheaper => self.paths.iter().any(is_worth),
            TransmitChoice::Ring => false,
            TransmitChoice::Batches | TransmitChoice::LiveFrames => frames > 0,
        }
    }

    /// The path for a batch of this many frames, with this many bytes altogether.
    pub(super) fn choose(&mut self, frames: usize, bytes: usize) -> SendPath {
        let paths = self.paths;
        match (self.choice, paths) {
            (TransmitChoice::Batches, [_, first, ..]) => return *first,
            (TransmitChoice::LiveFrames, [.., SendPath::Live]) => return SendPath::Live,
            _ => {}
        }
        let costs = self.of(frames, bytes);
        costs.batches = costs.batches.wrapping_add(1);
        let batches = costs.batches;
        let cost = |path: SendPath| costs.by[path as usize].weighed();
        let paths = || {
            paths
                .iter()
                .copied()
                .filter(|path| path.frames_min() <= frames)
        };
        // One that is unknown, the ring first.
        if let Some(unknown) = paths().find(|path| cost(*path) == 0.0) {
            return unknown;
        }
        let cheapest = paths().min_by(|a, b| cost(*a).total_cmp(&cost(*b)));
        let cheapest = cheapest.unwrap_or(SendPath::Ring);
        // How many it has had of this run.
        let tries = |number: u32, path: SendPath| {
            let is_far = cost(path) > FAR * cost(cheapest);
            let every = if is_far { TRY_FAR_EVERY } else { TRY_EVERY };
            (batches % every).wrapping_sub(number * WATCH_EVERY)
        };
        let others = paths().filter(|path| *path != cheapest);
        let tried = (0..).zip(others).find_map(|(number, path)| {
            let tries = tries(number, path);
            (tries < TRY_RUN).then_some((path, tries == 0))
        });
        let (path, is_cold) = tried.unwrap_or((cheapest, false));
        costs.is_cold = is_cold;
        path
    }

    /// What a batch has cost.
    pub(super) fn learn(&mut self, frames: usize, bytes: usize, path: SendPath, took: Duration) {
        let nanos = (took.as_nanos() as f32 / frames as f32).max(1.0);
        let costs = self.of(frames, bytes);
        if !std::mem::take(&mut costs.is_cold) {
            costs.by[path as usize].nanos.learn(nanos);
        }
    }

    /// Whether it is to be looked at how many frames are lost of the next batch of this size.
    pub(super) fn is_watched(&mut self, frames: usize, bytes: usize) -> bool {
        let next = self.of(frames, bytes).batches.wrapping_add(1);
        next.is_multiple_of(WATCH_EVERY)
    }

    /// How many frames of a batch were lost.
    pub(super) fn learn_lost(&mut self, frames: usize, bytes: usize, path: SendPath, lost: u64) {
        let part = (lost as f32 / frames as f32).min(1.0);
        let mean = &mut self.of(frames, bytes).by[path as usize].lost;
        *mean += (part - *mean) * LOST_WEIGHT_OF_ONE;
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

    /// Sends batches of a size whose paths cost so much; how many of the last thousand did not go by the ring.
    fn many_of_a_thousand(costs: &mut BatchCosts, ring: u64, many: u64) -> usize {
        let mut send = || {
            let path = costs.choose(64, 64 * 60);
            let nanos = if path == SendPath::Ring { ring } else { many };
            costs.learn(64, 64 * 60, path, Duration::from_nanos(nanos));
            path == SendPath::Live
        };
        for _ in 0..5_000 {
            send();
        }
        (0..1_000).filter(|_| send()).count()
    }

    #[test]
    fn the_cheaper_path_is_taken_and_the_other_tried_now_and_then() {
        let mut costs = BatchCosts::new(TransmitChoice::Cheaper, &[SendPath::Ring, SendPath::Live]);
        assert!((1..=24).contains(&many_of_a_thousand(&mut costs, 10_000, 15_000)));
        assert!((976..=999).contains(&many_of_a_thousand(&mut costs, 15_000, 10_000)));
        assert!(
            many_of_a_thousand(&mut costs, 10_000, 90_000) <= 3,
            "seldom where it is far dearer"
        );
        assert!(many_of_a_thousand(&mut costs, 90_000, 10_000) >= 997);
    }

    /// One that drops frames is quick: it is left, and taken again when it has stopped.
    #[test]
    fn a_path_that_loses_frames_is_not_cheap() {
        let mut costs = BatchCosts::new(TransmitChoice::Cheaper, &[SendPath::Ring, SendPath::Live]);
        let (frames, bytes) = (64, 64 * 60);
        let mut batches_of = |count: u32, lost: u64| {
            let mut send = || {
                let is_watched = costs.is_watched(frames, bytes);
                let path = costs.choose(frames, bytes);
                let (nanos, lost) = match path {
                    SendPath::Ring => (20_000, 0),
                    _ => (10_000, lost),
                };
                costs.learn(frames, bytes, path, Duration::from_nanos(nanos));
                if is_watched {
                    costs.learn_lost(frames, bytes, path, lost);
                }
                path == SendPath::Live
            };
            (0..count).filter(|_| send()).count()
        };
        assert!(batches_of(1_000, 0) > 900);
        batches_of(1_000, 8);
        assert!(batches_of(2_048, 8) <= 32, "an eighth of them is lost");
        batches_of(60_000, 0);
        assert!(batches_of(1_000, 0) > 900);
    }

    /// The first batch of a path that was not used lately costs twice what the next ones do.
    #[test]
    fn a_path_is_not_judged_by_cold_caches() {
        let mut costs = BatchCosts::new(TransmitChoice::Cheaper, &[SendPath::Ring, SendPath::Live]);
        let mut before = SendPath::Ring;
        let mut send = |ring: u64, live: u64| {
            let path = costs.choose(64, 64 * 60);
            let warm = if path == SendPath::Ring { ring } else { live };
            let nanos = if path == before { warm } else { 2 * warm };
            before = path;
            costs.learn(64, 64 * 60, path, Duration::from_nanos(nanos));
            path == SendPath::Live
        };
        (0..5_000).for_each(|_| _ = send(10_000, 15_000));
        (0..5_000).for_each(|_| _ = send(15_000, 10_000));
        assert!((0..1_000).filter(|_| send(15_000, 10_000)).count() > 900);
        (0..5_000).for_each(|_| _ = send(10_000, 15_000));
        assert!((0..1_000).filter(|_| send(10_000, 15_000)).count() < 100);
    }

    /// Three paths: the cheapest is taken, each of the others tried now and then, and few frames are not sent live.
    #[test]
    fn the_cheapest_of_three_paths_is_taken() {
        let paths = &[SendPath::Ring, SendPath::Batch, SendPath::Live];
        let mut costs = BatchCosts::new(TransmitChoice::Cheaper, paths);
        for (nanos, cheapest) in [
            ([30_000, 20_000, 15_000], SendPath::Live),
            ([30_000, 20_000, 25_000], SendPath::Batch),
            ([15_000, 20_000, 25_000], SendPath::Ring),
        ] {
            let mut send = || {
                let path = costs.choose(64, 64 * 60);
                let took = Duration::from_nanos(nanos[path as usize]);
                costs.learn(64, 64 * 60, path, took);
                path
            };
            let sent = (0..5_000 + 2 * TRY_FAR_EVERY).map(|_| send());
            let sent: Vec<SendPath> = sent.skip(5_000).collect();
            let count = |path| sent.iter().filter(|have| **have == path).count();
            for path in *paths {
                let many = if path == cheapest {
                    1_900..2_048
                } else {
                    2..64
                };
                assert!(many.contains(&count(path)), "{path:?}: {}", count(path));
            }
        }
        for _ in 0..1_000 {
            let path = costs.choose(7, 7 * 60);
            assert_ne!(path, SendPath::Live);
            costs.learn(7, 7 * 60, path, Duration::from_micros(7));
        }
    }

    #[test]
    fn one_interrupted_batch_does_not_turn_the_choice() {
        let mut costs = BatchCosts::new(TransmitChoice::Cheaper, &[SendPath::Ring, SendPath::Live]);
        many_of_a_thousand(&mut costs, 20_000, 10_000);
        costs.learn(64, 64 * 60, SendPath::Live, Duration::from_millis(20));
        assert_eq!(costs.choose(64, 64 * 60), SendPath::Live);
    }

    /// What was interrupted the first time is tried again, and costs little then.
    #[test]
    fn a_first_batch_that_was_interrupted_is_forgotten() {
        let mut costs = BatchCosts::new(TransmitChoice::Cheaper, &[SendPath::Ring, SendPath::Live]);
        let (frames, bytes) = (64, 64 * 60);
        costs.learn(frames, bytes, SendPath::Ring, Duration::from_micros(20));
        costs.learn(frames, bytes, SendPath::Live, Duration::from_millis(20));
        let mut many = || {
            let path = costs.choose(frames, bytes);
            let micros = if path == SendPath::Ring { 20 } else { 10 };
            costs.learn(frames, bytes, path, Duration::from_micros(micros));
            path == SendPath::Live
        };
        assert!((0..2 * TRY_FAR_EVERY).filter(|_| many()).count() > 900);
    }

    #[test]
    fn short_and_long_frames_and_sizes_of_batches_are_apart() {
        let mut costs = BatchCosts::new(TransmitChoice::Cheaper, &[SendPath::Ring, SendPath::Live]);
        many_of_a_thousand(&mut costs, 20_000, 10_000);
        assert_eq!(
            costs.choose(64, 64 * 1514),
            SendPath::Ring,
            "nothing is known of long ones"
        );
        assert_eq!(costs.choose(16, 16 * 60), SendPath::Ring, "nor of few");
        costs.choose(1 << 20, 0);
        costs.choose(0, 0);
    }
}
