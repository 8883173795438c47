//! The fast paths change nothing: every game is played twice, once with header prediction and bursts and once without,
//! and both send the same frames at the same times and end up in the same state.
//!
//! A game is two stacks with a few connections between them, programs that write, read, finish and abort at
//! random, options drawn at random, and a wire that loses, delays, repeats, damages and marks. Whatever a fast path did
//! otherwise than the plain one, if only by a byte, would part the two runs, since all that follows depends on it.
//! `EXOS_SEEDS` multiplies how many seeds are tried; a failing one is named.

mod game;

use std::fmt::Debug;

use game::Game;

/// Fails with the first that differs.
fn compare<T: PartialEq + Debug>(fast: &[T], plain: &[T], seed: u64, step: usize) {
    for (fast, plain) in fast.iter().zip(plain) {
        assert_eq!(fast, plain, "seed {seed}, step {step}");
    }
    assert_eq!(fast.len(), plain.len(), "seed {seed}, step {step}");
}

/// How much was seen of what the games are for.
#[derive(Copy, Clone, Default)]
struct Seen {
    frames: u64,
    damaged: u64,
    predicted: u64,
    in_bursts: u64,
}

impl Seen {
    fn and(self, other: Self) -> Self {
        Self {
            frames: self.frames + other.frames,
            damaged: self.damaged + other.damaged,
            predicted: self.predicted + other.predicted,
            in_bursts: self.in_bursts + other.in_bursts,
        }
    }
}

/// Play one game both ways.
fn play(seed: u64) -> Seen {
    let (mut fast, mut plain) = (Game::new(seed, true), Game::new(seed, false));
    let mut seen = Seen::default();
    for n in 0..1500 {
        fast.step();
        plain.step();
        compare(&fast.sent, &plain.sent, seed, n);
        if n % 8 == 0 {
            compare(&fast.state(), &plain.state(), seed, n);
        }
        seen.frames += fast.sent.len() as u64;
    }
    for (fast, plain) in fast.ends.iter().zip(&plain.ends) {
        let taken = fast.stack.fast_paths_taken();
        seen.predicted += taken.predicted;
        seen.in_bursts += taken.in_bursts;
        seen.damaged += fast.stack.counters().drop_tcp_checksum;
        let none = plain.stack.fast_paths_taken();
        assert_eq!((none.predicted, none.in_bursts), (0, 0));
    }
    seen
}

#[test]
fn both_ways_send_the_same() {
    let seeds = exos_testing::cases(160);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let seen = std::thread::scope(|scope| {
        let players: Vec<_> = (0..threads)
            .map(|first| {
                let mine = (first..seeds).step_by(threads as usize);
                scope.spawn(move || mine.map(play).fold(Seen::default(), Seen::and))
            })
            .collect();
        let each = players.into_iter().map(|p| p.join().unwrap());
        each.fold(Seen::default(), Seen::and)
    });
    assert!(seen.frames > 500 * seeds, "only {} frames", seen.frames);
    assert!(seen.damaged > seeds, "only {} damaged", seen.damaged);
    if cfg!(debug_assertions) {
        // Else nothing would be compared, however equal it is.
        let (predicted, in_bursts) = (seen.predicted, seen.in_bursts);
        assert!(predicted > 5 * seeds, "only {predicted} frames predicted");
        assert!(in_bursts > 5 * seeds, "only {in_bursts} frames in bursts");
    }
}
