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

/// Frames of this many bytes belong to large sends, cut by the stack or not.
const LONG: usize = 512;

/// After this many turns that send little the next one, too, is taken for one of those.
const SMALL_MAX: u32 = 64;

/// What a turn is charged for in which the link refused frames: they are missed a round trip later, and sent again. Without it the
/// way that sends nothing would be the cheapest.
const REFUSED: Duration = Duration::from_millis(1);

/// Once in this many turns of a size the dearer way is tried, times how much dearer it is: trying costs some per cent at most.
const TRY_EVERY: f32 = 128.0;

/// As how much dearer it counts at most: what was dear may have changed.
const DEARER_MAX: f32 = 32.0;

/// With this many turns in a row, of which the first one, with cold caches, says nothing.
const TRY_RUN: u32 = 3;

/// What a byte costs by either way, by the size of the turn, and which way the present turn goes.
#[derive(Debug, Default)]
pub(super) struct Cutting {
    /// The longest frame that the link takes whole; `None` where there is no choice.
    whole_max: Option<usize>,
    sizes: [Size; SIZES],
    /// The size of the last turn that sent much, which the next one is chosen by and counted under: how much a turn sends
    /// depends on the way, too.
    last: usize,
    /// Turns that sent something, and little, since the last one that sent much.
    small: u32,
    turns_whole: u64,
    turns_cut: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Size {
    whole: Learned,
    cut: Learned,
    turns: u32,
}

/// Which way a turn goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    whole: bool,
    /// The turn is the first of several that try the dearer way.
    is_cold: bool,
}

impl Size {
    /// Which way its next turn is to go.
    fn next(&self) -> Choice {
        let (Some(whole), Some(cut)) = (self.whole.get(), self.cut.get()) else {
            return Choice {
                whole: self.whole.get().is_none(),
                is_cold: false,
            };
        };
        let (dear, cheap) = (whole.max(cut), whole.min(cut));
        let every = TRY_EVERY * (dear / cheap).min(DEARER_MAX);
        let tries = self.turns % every as u32;
        Choice {
            whole: (whole <= cut) != (tries < TRY_RUN),
            is_cold: tries == 0,
        }
    }
}

/// How a turn goes, and what it has sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Large sends are handed over whole.
    whole: bool,
    /// Bytes of large sends.
    large: usize,
    /// The link has not taken all frames.
    refused: bool,
}

impl Sent {
    /// Nothing yet, in a turn that goes so: not as was chosen where a burst was under way, which goes on as it did.
    pub(super) fn nothing(whole: bool) -> Self {
        Self {
            whole,
            large: 0,
            refused: false,
        }
    }

    /// A frame of this many bytes was handed to the link, `whole` where it is to cut it, and was taken or not.
    pub(super) fn add(&mut self, len: usize, whole: bool, taken: bool) {
        if whole || len >= LONG {
            self.large += len;
        }
        self.refused |= !taken;
    }
}

impl Cutting {
    /// A choice for a link that takes frames of up to `whole_max` bytes whole and is not bound to.
    pub(super) fn new(whole_max: Option<usize>) -> Self {
        Self {
            whole_max,
            small: SMALL_MAX,
            ..Self::default()
        }
    }

    /// Whether there is a choice.
    pub(super) fn is_open(&self) -> bool {
        self.whole_max.is_some()
    }

    /// Whether one of the last turns sent much, so that it matters how the next one goes.
    pub(super) fn matters(&self) -> bool {
        self.small < SMALL_MAX
    }

    /// The longest frame that is to be handed over whole in the turn that begins, `None` for none. Without other ways than the ring
    /// for many frames (`has_batches`) the stack need not cut them: they go through the kernel one by one in either case.
    pub(super) fn choose(&self, has_batches: bool) -> Option<usize> {
        let next = self.sizes[self.last].next();
        self.whole_max.filter(|_| !has_batches || next.whole)
    }

    /// What the turn has sent, and how long that took, frames on their way included.
    pub(super) fn learn(&mut self, sent: Sent, took: Duration) {
        if sent.large < LEAST {
            self.small = self.small.saturating_add(1);
            return;
        }
        self.small = 0;
        let landed = ((sent.large / LEAST).ilog2() as usize).min(SIZES - 1);
        let chosen_for = std::mem::replace(&mut self.last, landed);
        let size = &mut self.sizes[chosen_for];
        let chosen = size.next();
        size.turns = size.turns.wrapping_add(1);
        let (cost, turns) = match sent.whole {
            true => (&mut size.whole, &mut self.turns_whole),
            false => (&mut size.cut, &mut self.turns_cut),
        };
        *turns += 1;
        if chosen.is_cold && chosen.whole == sent.whole {
            return;
        }
        let took = if sent.refused { took + REFUSED } else { took };
        cost.learn((took.as_nanos() as f32 / sent.large as f32).max(f32::MIN_POSITIVE));
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

    /// A turn that sends this many bytes, and short frames beside them, where a byte costs these nanoseconds, whole and cut;
    /// whether it went whole.
    fn turn(cutting: &mut Cutting, bytes: usize, costs: [u64; 2]) -> bool {
        let whole = cutting.choose(true).is_some();
        let mut sent = Sent::nothing(whole);
        (0..200).for_each(|_| sent.add(66, false, true));
        match whole {
            true => sent.add(bytes, true, true),
            false => (0..bytes / 1460).for_each(|_| sent.add(1460, false, true)),
        }
        let nanos = bytes as u64 * costs[usize::from(!whole)];
        cutting.learn(sent, Duration::from_nanos(nanos));
        whole
    }

    /// How many of this many such turns went whole.
    fn turns(cutting: &mut Cutting, bytes: usize, costs: [u64; 2], count: usize) -> usize {
        (0..count).filter(|_| turn(cutting, bytes, costs)).count()
    }

    #[test]
    fn the_cheaper_way_is_taken_and_the_other_tried_now_and_then() {
        let mut cutting = Cutting::new(Some(WHOLE_MAX));
        assert_eq!(
            cutting.choose(true),
            Some(WHOLE_MAX),
            "as long as nothing is known"
        );
        turns(&mut cutting, 60_000, [2, 3], 100);
        assert!((976..1_000).contains(&turns(&mut cutting, 60_000, [2, 3], 1_000)));
        turns(&mut cutting, 60_000, [3, 2], 5_000);
        assert!((1..=24).contains(&turns(&mut cutting, 60_000, [3, 2], 1_000)));
        turns(&mut cutting, 60_000, [9, 2], 1_000);
        assert!(turns(&mut cutting, 60_000, [9, 2], 1_000) <= 6);
        turns(&mut cutting, 60_000, [2, 9], 50_000);
        assert!(turns(&mut cutting, 60_000, [2, 9], 1_000) >= 994);
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
        assert_eq!(cutting.choose(true), None);
        let before = cutting.counters();
        let mut short = Sent::nothing(false);
        (0..100).for_each(|_| short.add(66, false, true));
        for sent in [Sent::nothing(true), short] {
            cutting.learn(sent, Duration::from_millis(100));
        }
        assert_eq!(cutting.counters(), before);
    }

    /// Little that is refused costs little; it is to be sent again all the same.
    #[test]
    fn a_way_that_refuses_frames_is_not_cheap() {
        let mut cutting = Cutting::new(Some(WHOLE_MAX));
        let mut turn = || {
            let whole = cutting.choose(true).is_some();
            let mut sent = Sent::nothing(whole);
            sent.add(60_000, whole, !whole);
            let micros = if whole { 10 } else { 60 };
            cutting.learn(sent, Duration::from_micros(micros));
            whole
        };
        (0..100).for_each(|_| _ = turn());
        assert!((0..1_000).filter(|_| turn()).count() < 30);
    }

    /// Whole turns send ten times what fits into a turn of frames; or every second turn is short.
    #[test]
    fn ways_are_compared_although_their_turns_have_other_sizes() {
        let mut cutting = Cutting::new(Some(WHOLE_MAX));
        let mut by_way = |costs| {
            let next = cutting.choose(true).is_some();
            turn(&mut cutting, if next { 600_000 } else { 60_000 }, costs)
        };
        (0..5_000).for_each(|_| _ = by_way([3, 2]));
        assert!((0..1_000).filter(|_| by_way([3, 2])).count() < 100);
        (0..20_000).for_each(|_| _ = by_way([2, 3]));
        assert!((0..1_000).filter(|_| by_way([2, 3])).count() > 900);
        let mut cutting = Cutting::new(Some(WHOLE_MAX));
        let mut by_turns = |n: usize| turn(&mut cutting, [600_000, 10_000][n % 2], [3, 2]);
        (0..5_000).for_each(|n| _ = by_turns(n));
        assert!((0..1_000).filter(|n| by_turns(*n)).count() < 100);
    }

    /// Frames under way hold every second turn to being cut, whatever was chosen: it is counted as what it was.
    #[test]
    fn turns_are_counted_as_they_went() {
        let mut cutting = Cutting::new(Some(WHOLE_MAX));
        let mut goes_on = false;
        let mut turn = |costs: [u64; 2]| {
            let chosen = cutting.choose(true).is_some();
            goes_on = !goes_on;
            let whole = chosen && !goes_on;
            let mut sent = Sent::nothing(whole);
            sent.add(60_000, whole, true);
            let nanos = 60_000 * costs[usize::from(!whole)];
            cutting.learn(sent, Duration::from_nanos(nanos));
            let [(_, whole), (_, cut)] = cutting.counters();
            (chosen, whole, cut)
        };
        (0..1_000).for_each(|_| _ = turn([3, 2]));
        let chosen = (0..1_000).filter(|_| turn([3, 2]).0).count();
        assert!((1..30).contains(&chosen), "{chosen}");
        (0..20_000).for_each(|_| _ = turn([2, 3]));
        let (_, whole_before, cut_before) = turn([2, 3]);
        let chosen = (0..1_000).filter(|_| turn([2, 3]).0).count();
        assert!(chosen > 970, "{chosen}");
        let (_, whole, cut) = turn([2, 3]);
        assert_eq!(whole - whole_before + cut - cut_before, 1_001);
        assert!((480..=502).contains(&(whole - whole_before)), "{whole}");
    }

    #[test]
    fn without_a_way_for_many_frames_all_goes_whole() {
        let mut cutting = Cutting::new(Some(WHOLE_MAX));
        turns(&mut cutting, 60_000, [3, 2], 1_000);
        assert!(cutting.matters());
        assert!((0..1_000).all(|_| cutting.choose(false) == Some(WHOLE_MAX)));
        assert_eq!(cutting.choose(true), None);
        for _ in 0..SMALL_MAX {
            assert!(cutting.matters());
            cutting.learn(Sent::nothing(true), Duration::from_micros(1));
        }
        assert!(!cutting.matters());
    }

    #[test]
    fn without_a_choice_nothing_is_whole() {
        let cutting = Cutting::new(None);
        assert!(!cutting.is_open());
        assert_eq!(cutting.choose(true), None);
    }
}
