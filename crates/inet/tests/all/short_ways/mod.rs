//! The short ways and the general way are one protocol: every game is played twice, once with the short ways and
//! once without, and both send the same frames at the same times and end up in the same state.
//!
//! A game is two stacks with a few connections between them, programs that write, read, finish and abort at
//! random, options drawn at random, and a wire that loses, delays, repeats, damages and marks. Whatever a short way did
//! otherwise than the general way, if only by a byte, would part the two runs, since all that follows depends on it.
//! `EXOS_SEEDS` multiplies how many seeds are tried; a failing one is named.

mod game;

use std::fmt::Debug;

use exos_inet::tcp::{ShortWays, Way};
use game::Game;

/// Fails with the first that differs.
fn compare<T: PartialEq + Debug>(short: &[T], general: &[T], seed: u64, step: usize) {
    for (short, general) in short.iter().zip(general) {
        assert_eq!(short, general, "seed {seed}, step {step}");
    }
    assert_eq!(short.len(), general.len(), "seed {seed}, step {step}");
}

/// How much was seen of what the games are for.
#[derive(Copy, Clone, Default)]
struct Seen {
    frames: u64,
    damaged: u64,
    ways: ShortWays,
}

impl Seen {
    fn and(self, other: Self) -> Self {
        Self {
            frames: self.frames + other.frames,
            damaged: self.damaged + other.damaged,
            ways: self.ways.and(other.ways),
        }
    }
}

/// Play one game both ways.
fn play(seed: u64) -> Seen {
    let (mut short, mut general) = (Game::new(seed, true), Game::new(seed, false));
    let mut seen = Seen::default();
    for n in 0..1500 {
        short.step();
        general.step();
        compare(&short.sent, &general.sent, seed, n);
        if n % 8 == 0 {
            compare(&short.state(), &general.state(), seed, n);
        }
        seen.frames += short.sent.len() as u64;
    }
    for (short, general) in short.ends.iter().zip(&general.ends) {
        seen.ways = seen.ways.and(short.stack.short_ways_taken());
        seen.damaged += short.stack.counters().drop_tcp_checksum;
        assert_eq!(general.stack.short_ways_taken(), ShortWays::default());
    }
    seen
}

#[test]
fn both_ways_send_the_same() {
    let factor: u64 = std::env::var("EXOS_SEEDS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(1);
    let seeds = 160 * factor;
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
        for way in Way::ALL {
            let count = seen.ways.of(way);
            assert!(count > 5 * seeds, "{way:?}: only {count} segments");
        }
    }
}
