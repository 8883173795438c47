//! Who cuts large sends into frames: the kernel or the card behind the link, or the stack.
//!
//! Data that are handed over whole, up to 64 KiB at once, cost least where nobody has to cut them, as on a veth whose other end takes
//! them uncut, or where a card does it. Where the kernel cuts them itself, each piece then goes its long way alone, and frames
//! of the stack's own, which leave many at once, cost half of that. Nothing says beforehand which holds. So turns that send much are
//! timed, and the cheaper way is taken; the other is tried now and then. How much a turn sends decides, too, so sizes are apart.

use std::time::Duration;

use exos_link::Learned;

/// Sizes of turns that are told apart: below 8 KiB, 16 KiB and so on, the last for all above.
const SIZES: usize = 8;

/// The smallest of them, in bytes: less is not worth a choice.
const LEAST: usize = 4096;

/// A turn of frames is one of large sends where they have this many bytes on the mean.
const LONG: usize = 512;

/// Once in this many turns of a size the dearer way is tried.
const TRY_EVERY: u32 = 128;

/// And once in this many where it is more than twice as dear.
const TRY_FAR_EVERY: u32 = 1024;

/// With this many turns in a row, of which the first one, with cold caches, says nothing.
const TRY_RUN: u32 = 3;

/// What a byte costs by either way, by the size of the turn, and which way the present turn goes.
#[derive(Debug, Default)]
pub(super) struct Cutting {
    /// The longest frame that the link takes whole; `None` where there is no choice.
    whole_max: Option<usize>,
    sizes: [Size; SIZES],
    /// The size of the last turn that sent much, by which the next one is judged.
    last: usize,
    whole: bool,
    /// It is the first of several that try the other way.
    is_cold: bool,
    turns_whole: u64,
    turns_cut: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Size {
    whole: Learned,
    cut: Learned,
    turns: u32,
}

/// What a turn has sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    pub(super) frames: usize,
    pub(super) bytes: usize,
    /// Frames for the link to cut.
    pub(super) large: usize,
}

impl Cutting {
    /// A choice for a link that takes frames of up to `whole_max` bytes whole and is not bound to.
    pub(super) fn new(whole_max: Option<usize>) -> Self {
        Self {
            whole_max,
            whole: true,
            ..Self::default()
        }
    }

    /// Whether there is a choice.
    pub(super) fn is_open(&self) -> bool {
        self.whole_max.is_some()
    }

    /// The longest frame that is handed over whole in the turn that begins, `None` for none.
    pub(super) fn choose(&mut self) -> Option<usize> {
        let size = &self.sizes[self.last];
        self.whole = match (size.whole.get(), size.cut.get()) {
            (None, _) => true,
            (_, None) => false,
            (Some(whole), Some(cut)) => {
                let (dear, cheap) = (whole.max(cut), whole.min(cut));
                let is_far = dear > 2.0 * cheap;
                let every = if is_far { TRY_FAR_EVERY } else { TRY_EVERY };
                let tries = size.turns % every;
                self.is_cold = tries == 0;
                (whole <= cut) != (tries < TRY_RUN)
            }
        };
        self.whole_max.filter(|_| self.whole)
    }

    /// What the turn has sent, and how long that took, frames on their way included.
    pub(super) fn learn(&mut self, sent: Sent, took: Duration) {
        let is_large = match self.whole {
            true => sent.large > 0,
            false => sent.bytes >= LONG * sent.frames,
        };
        if sent.bytes < LEAST || !is_large {
            return;
        }
        self.last = ((sent.bytes / LEAST).ilog2() as usize).min(SIZES - 1);
        let size = &mut self.sizes[self.last];
        size.turns = size.turns.wrapping_add(1);
        let (cost, turns) = match self.whole {
            true => (&mut size.whole, &mut self.turns_whole),
            false => (&mut size.cut, &mut self.turns_cut),
        };
        *turns += 1;
        if std::mem::take(&mut self.is_cold) {
            return;
        }
        cost.learn((took.as_nanos() as f32 / sent.bytes as f32).max(f32::MIN_POSITIVE));
    }

    /// Turns of large sends, by name.
    pub(super) fn counters(&self) -> [(&'static str, u64); 2] {
        [
            ("turns_large_whole", self.turns_whole),
            ("turns_large_cut", self.turns_cut),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE_MAX: usize = 65_535;

    /// Turns that send this much, where a byte costs so many nanoseconds by either way; how many went whole.
    fn turns(cutting: &mut Cutting, bytes: usize, costs: [u64; 2], count: usize) -> usize {
        let mut turn = || {
            let whole = cutting.choose().is_some();
            let nanos = bytes as u64 * costs[usize::from(!whole)];
            let sent = Sent {
                frames: if whole { 1 } else { bytes / 1460 },
                bytes,
                large: usize::from(whole),
            };
            cutting.learn(sent, Duration::from_nanos(nanos));
            whole
        };
        (0..count).filter(|_| turn()).count()
    }

    #[test]
    fn the_cheaper_way_is_taken_and_the_other_tried_now_and_then() {
        let mut cutting = Cutting::new(Some(WHOLE_MAX));
        assert_eq!(
            cutting.choose(),
            Some(WHOLE_MAX),
            "as long as nothing is known"
        );
        turns(&mut cutting, 60_000, [2, 3], 100);
        assert!((976..1_000).contains(&turns(&mut cutting, 60_000, [2, 3], 1_000)));
        turns(&mut cutting, 60_000, [3, 2], 5_000);
        assert!((1..=24).contains(&turns(&mut cutting, 60_000, [3, 2], 1_000)));
        turns(&mut cutting, 60_000, [9, 2], 1_000);
        assert!(turns(&mut cutting, 60_000, [9, 2], 1_000) <= 3);
        turns(&mut cutting, 60_000, [2, 9], 50_000);
        assert!(turns(&mut cutting, 60_000, [2, 9], 1_000) >= 997);
    }

    #[test]
    fn sizes_of_turns_are_apart() {
        let mut cutting = Cutting::new(Some(WHOLE_MAX));
        turns(&mut cutting, 600_000, [3, 2], 1_000);
        turns(&mut cutting, 10_000, [2, 3], 1_000);
        assert!(turns(&mut cutting, 10_000, [2, 3], 1_000) > 900);
        assert!(turns(&mut cutting, 600_000, [3, 2], 1_000) < 100);
    }

    /// Neither acknowledgements nor short documents say anything about large sends.
    #[test]
    fn turns_that_send_little_or_short_frames_do_not_count() {
        let mut cutting = Cutting::new(Some(WHOLE_MAX));
        turns(&mut cutting, 60_000, [3, 2], 1_000);
        assert_eq!(cutting.choose(), None);
        let before = cutting.counters();
        for sent in [
            Sent::default(),
            Sent {
                frames: 100,
                bytes: 6_000,
                large: 0,
            },
        ] {
            cutting.learn(sent, Duration::from_millis(100));
        }
        assert_eq!(cutting.counters(), before);
    }

    #[test]
    fn without_a_choice_nothing_is_whole() {
        let mut cutting = Cutting::new(None);
        assert!(!cutting.is_open());
        assert_eq!(cutting.choose(), None);
    }
}
