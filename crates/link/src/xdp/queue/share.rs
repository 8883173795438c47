//! How many frames are taken in together.
//!
//! ```text
//! waiting here ── taken in, answered ── sent ── with the other end ── its answers ── waiting here
//! ```
//!
//! The answers to some leave while the other end works on the rest. Where all that waits were taken in at once, one end would wait
//! while the other works; the fewer are taken in, the more calls it takes to send the answers. Best is half of all that are under way.
//! Of these only those that wait here are seen: half of them are always taken in. And as long as the next ones wait when a turn ends
//! the turns grow, until now and then nothing waits, because the other end is still at work on what it got.

use crate::limits::{RX_BATCH_MIN, RX_SHARE_MAX};

/// Units of a frame in which turns grow.
const UNIT: u32 = 16;

/// By how much a turn grows that found frames when it began.
const GROWTH: u32 = UNIT / 4;

/// By which part of them turns shrink when nothing waits.
const SHRINKING: u32 = 16;

/// How much a turn takes in.
#[derive(Debug)]
pub(super) struct Share {
    /// Frames although they are more than half of those that wait, in units.
    most: u32,
    /// Nothing waited when a turn began last.
    idle: bool,
    /// The present turn has looked. What it does not find when it looks again it has taken itself.
    has_looked: bool,
}

impl Share {
    /// Small turns, as long as nothing is known.
    pub(super) fn new() -> Self {
        Self {
            most: RX_BATCH_MIN * UNIT,
            idle: true,
            has_looked: false,
        }
    }

    /// The answers leave: what is looked for next is looked for in another turn.
    pub(super) fn end_turn(&mut self) {
        self.has_looked = false;
    }

    /// How many of the `waiting` frames are to be taken in together.
    pub(super) fn of(&mut self, waiting: u32) -> u32 {
        if !std::mem::replace(&mut self.has_looked, true) {
            if waiting > 0 {
                self.most = (self.most + GROWTH).min(RX_SHARE_MAX * UNIT);
            } else if !self.idle {
                self.most = (self.most - self.most / SHRINKING).max(RX_BATCH_MIN * UNIT);
            }
            self.idle = waiting == 0;
        }
        waiting.min((self.most / UNIT).max(waiting / 2).min(RX_SHARE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_first_it_is_half_of_what_waits_within_bounds() {
        for (waiting, taken) in [
            (0, 0),
            (20, 20),
            (32, 32),
            (40, 32),
            (65, 32),
            (100, 50),
            (511, 255),
            (u32::MAX, 256),
        ] {
            assert_eq!(Share::new().of(waiting), taken, "{waiting} waiting");
        }
    }

    /// Frames go round between two ends that answer each by one, and take a time for each frame and for each turn; either is
    /// interrupted now and then.
    struct Round {
        shares: [Share; 2],
        /// When those that wait at either end have come, and how many.
        waiting: [Vec<(u64, u32)>; 2],
        free: [u64; 2],
        frame: [u64; 2],
    }

    impl Round {
        fn new(frames: u32, frame: [u64; 2]) -> Self {
            Self {
                shares: [Share::new(), Share::new()],
                waiting: [vec![(0, frames)], Vec::new()],
                free: [0, 0],
                frame,
            }
        }

        /// Goes on until each end has had some turns; how many frames a turn of either end took in, on the mean of the last half.
        fn means(mut self) -> [u32; 2] {
            const TURN: u64 = 10;
            const INTERRUPTED_EVERY: u64 = 499;
            const INTERRUPTION: u64 = 300;
            let mut taken = [Vec::new(), Vec::new()];
            for step in 0_u64..400_000 {
                let us = usize::from(self.free[1] < self.free[0]);
                let now = self.free[us];
                let came = |(at, frames): &(u64, u32)| (*at <= now).then_some(*frames);
                let waiting: u32 = self.waiting[us].iter().filter_map(came).sum();
                let share = self.shares[us].of(waiting);
                self.shares[us].end_turn();
                self.waiting[us].retain(|(at, _)| *at > now);
                if waiting > share {
                    self.waiting[us].push((now, waiting - share));
                }
                if share == 0 {
                    self.free[us] += 1;
                    continue;
                }
                let mut done = now + TURN + u64::from(share) * self.frame[us];
                if step % INTERRUPTED_EVERY == 0 {
                    done += INTERRUPTION;
                }
                self.free[us] = done;
                self.waiting[1 - us].push((done, share));
                if step > 200_000 {
                    taken[us].push(share);
                }
            }
            taken.map(|all| all.iter().sum::<u32>() / all.len() as u32)
        }
    }

    #[test]
    fn two_equal_ends_settle_on_half_of_all() {
        for frames in [64, 96, 200, 400] {
            let means = Round::new(frames, [1, 1]).means();
            let half = frames / 2;
            assert!(
                means.iter().all(|mean| mean.abs_diff(half) <= half / 4),
                "{frames} frames: {means:?}"
            );
        }
    }

    /// An end that looks again in the turn that has taken all is not taken for one that waits.
    #[test]
    fn a_second_look_of_a_turn_says_nothing() {
        let mut share = Share::new();
        for _ in 0..1_000 {
            assert!(share.of(200) >= 100);
            assert_eq!(share.of(0), 0);
            share.end_turn();
        }
        assert_eq!(share.of(200), 200);
        share.end_turn();
        assert_eq!(share.of(0), 0);
        share.end_turn();
        assert_eq!(share.of(1_000), 256);
        for _ in 0..1_000 {
            share.end_turn();
            share.of(0);
            share.end_turn();
            share.of(1);
        }
        assert_eq!(share.of(40), 32, "it waits all the time");
    }

    /// The slower end takes in large turns, because it is never without work.
    #[test]
    fn the_slower_end_sees_to_large_turns() {
        let [fast, slow] = Round::new(200, [1, 3]).means();
        assert!(slow >= 90, "{slow} and {fast}");
    }
}
