//! Frames that a daemon's program puts into memory of ours, past the virtual interface and its ring: the holder's side of
//! [`exos_filter::arrivals`].
//!
//! ```text
//! awake:    device ── program ──> place N, N+1, ...            taken in order, emptied
//! asleep:   device ── program ──> interface ──> receive ring   which wakes us
//! ```
//!
//! Which of the two holds is one word. We set it before we sleep, the program when the places are full; we set it back when we have
//! taken what came by the interface ([`Arrivals::settle`]).

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use exos_filter::arrivals::{
    BY_INTERFACE, FRAME, PLACES, PUT, REDIRECTED, State, VALUE_LEN, VALUES,
};

use exos_host::memory;

use crate::Error;
use crate::limits::{CACHE_LINE_LEN, EMPTY_TURNS, FETCH_AHEAD, FETCHED_LINES};
use crate::mapping::Mapping;

/// The memory, and what we have taken from it.
#[derive(Debug)]
pub(super) struct Arrivals {
    memory: Mapping,
    /// Frames taken so far: the next one lies at this number's place.
    taken: u64,
    /// Of the frames that were redirected to the interface, those that have come by it. What others send there counts, too, until
    /// it is set to what was redirected.
    come_by_interface: u64,
    /// Turns in a row in which nothing had come by either way.
    empty_turns: u32,
    counters: Counters,
}

/// What happened, by name.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    frames: u64,
    taken_back: u64,
    turned: u64,
}

impl Arrivals {
    /// Maps what the daemon lends.
    pub(super) fn over(memory: &OwnedFd) -> Result<Self, Error> {
        let len = VALUES as usize * VALUE_LEN;
        let memory = Mapping::shared(memory.as_fd(), len, 0)
            .map_err(|e| Error::io("what the daemon lends to receive by cannot be mapped", e))?;
        Ok(Self::in_memory(memory))
    }

    fn in_memory(memory: Mapping) -> Self {
        Self {
            memory,
            taken: 0,
            come_by_interface: 0,
            empty_turns: 0,
            counters: Counters::default(),
        }
    }

    /// Whether what comes now comes by the interface: what is here was there before it.
    pub(super) fn are_older(&self) -> bool {
        self.word(BY_INTERFACE).load(Acquire) != 0
    }

    /// Whether all that was put here until now is taken.
    pub(super) fn are_taken(&self) -> bool {
        self.word(PUT).load(Acquire) == self.taken
    }

    /// Frames that are here.
    pub(super) fn waiting(&self) -> u32 {
        let waiting = self.word(PUT).load(Relaxed).wrapping_sub(self.taken);
        waiting.min(u64::from(PLACES)) as u32
    }

    /// Takes frames that are here, up to `most`.
    pub(super) fn take(&mut self, most: u32, mut each: impl FnMut(&mut [u8])) -> usize {
        let most = most.min(self.waiting());
        let mut frames = 0;
        (0..most.min(FETCH_AHEAD)).for_each(|i| self.prefetch(i));
        for i in 0..most {
            if i + FETCH_AHEAD < most {
                self.prefetch(FETCH_AHEAD);
            }
            let (number, at) = (self.taken, place(self.taken));
            let state = State(self.word(at).load(Acquire));
            if state == State::empty(number) {
                break;
            }
            let mut len = state.frame_len(number);
            if len.is_some() {
                // From now on nobody takes it back.
                let state = self.word(at).swap(State::taken_back(number).0, AcqRel);
                len = State(state).frame_len(number);
            }
            match len {
                Some(len) => {
                    let start = self.memory.at::<u8>(at + FRAME, len);
                    // SAFETY: within the mapping. The program writes to a place that is empty for the round of its
                    // number, and to no other: this one is not until the slice is gone.
                    each(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) });
                    frames += 1;
                }
                None => self.counters.taken_back += 1,
            }
            self.pass(number);
        }
        self.counters.frames += frames;
        frames as usize
    }

    /// Has the processor fetch the beginning of the place that is `ahead` places behind the next one.
    fn prefetch(&self, ahead: u32) {
        let at = place(self.taken.wrapping_add(u64::from(ahead)));
        let lines = (at..).step_by(CACHE_LINE_LEN).take(FETCHED_LINES);
        lines.for_each(|line| memory::prefetch(self.word(line)));
    }

    /// Empties the place of this number, the next to be taken, for the round after it.
    fn pass(&mut self, number: u64) {
        let next = State::empty(number.wrapping_add(u64::from(PLACES)));
        self.word(place(number)).store(next.0, Release);
        self.taken = number.wrapping_add(1);
    }

    /// Shows up to `count` frames that are here and stay.
    pub(super) fn look(&self, count: u32, each: &mut impl FnMut(&[u8])) {
        for i in 0..u64::from(count.min(PLACES)) {
            let number = self.taken.wrapping_add(i);
            let at = place(number);
            match State(self.word(at).load(Acquire)).frame_len(number) {
                Some(len) => {
                    let start = self.memory.at::<u8>(at + FRAME, len);
                    // SAFETY: within the mapping, and not written: a place with a frame is emptied by us alone.
                    each(unsafe { std::slice::from_raw_parts(start.as_ptr(), len) });
                }
                None => break,
            }
        }
    }

    /// Ends a turn that took `here` frames from this memory and `by_interface` frames from the ring. Has frames arrive in memory
    /// again, once all redirected ones have come or have to be taken for lost.
    pub(super) fn settle(&mut self, here: usize, by_interface: usize) {
        self.come_by_interface = self.come_by_interface.wrapping_add(by_interface as u64);
        if !self.are_older() {
            return;
        }
        self.empty_turns = match here + by_interface {
            0 => self.empty_turns + 1,
            _ => 0,
        };
        let redirected = self.word(REDIRECTED).load(Acquire);
        // Modulo 2^64: more may have come than were redirected.
        let all_came = self.come_by_interface.wrapping_sub(redirected) as i64 >= 0;
        if self.are_taken() && (all_came || self.empty_turns >= EMPTY_TURNS) {
            self.come_by_interface = redirected;
            self.empty_turns = 0;
            self.counters.turned += 1;
            self.word(BY_INTERFACE).store(0, SeqCst);
        }
    }

    /// Has frames come by the interface, which wakes us. False when one is here already.
    pub(super) fn prepare_wait(&mut self) -> bool {
        // Before we look: a frame that we do not see here is taken back by the program, which sees the word.
        self.word(BY_INTERFACE).store(1, SeqCst);
        std::sync::atomic::fence(SeqCst);
        loop {
            let number = self.taken;
            let state = State(self.word(place(number)).load(SeqCst));
            if state.frame_len(number).is_some() {
                return false;
            }
            if state != State::taken_back(number) {
                return true;
            }
            self.counters.taken_back += 1;
            self.pass(number);
        }
    }

    /// Before we sleep, with nothing there by either way: what was redirected and has not come is lost.
    pub(super) fn wait_for_no_more(&mut self) {
        self.come_by_interface = self.word(REDIRECTED).load(Relaxed);
        self.empty_turns = 0;
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: within the mapping, aligned, and accessed as an atomic word by everybody.
        unsafe { self.memory.at::<AtomicU64>(offset, 1).as_ref() }
    }

    /// Events by name, none where there is no such memory.
    pub(super) fn counters(arrivals: Option<&Self>) -> [(&'static str, u64); 4] {
        let counters = arrivals.map_or_else(Counters::default, |arrivals| arrivals.counters);
        let redirected = arrivals.map_or(0, |arrivals| arrivals.word(REDIRECTED).load(Relaxed));
        [
            ("rx_arrivals", counters.frames),
            ("rx_arrivals_taken_back", counters.taken_back),
            ("rx_arrivals_redirected", redirected),
            ("rx_arrivals_turned", counters.turned),
        ]
    }
}

/// Where the place of this number is.
fn place(number: u64) -> usize {
    (1 + (number % u64::from(PLACES)) as usize) * VALUE_LEN
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The daemon's program, as [`exos_filter::arrivals`] tells it.
    #[derive(Default)]
    pub(in super::super) struct Program {
        put: u64,
    }

    impl Program {
        /// Puts a frame; false when it takes the interface.
        pub(in super::super) fn put(&mut self, arrivals: &Arrivals, frame: &[u8]) -> bool {
            let full = arrivals.word(place(self.put)).load(SeqCst) != State::empty(self.put).0;
            if arrivals.are_older() || full {
                arrivals.word(BY_INTERFACE).store(1, SeqCst);
                arrivals.word(REDIRECTED).fetch_add(1, SeqCst);
                return false;
            }
            let number = self.take_number(arrivals);
            self.say(arrivals, number, frame);
            true
        }

        fn take_number(&mut self, arrivals: &Arrivals) -> u64 {
            self.put += 1;
            arrivals.word(PUT).store(self.put, SeqCst);
            self.put - 1
        }

        fn say(&self, arrivals: &Arrivals, number: u64, frame: &[u8]) {
            let at = place(number);
            let to = arrivals.memory.at::<u8>(at + FRAME, frame.len());
            // SAFETY: within the mapping, in a place that nobody refers to.
            unsafe {
                to.copy_from_nonoverlapping(std::ptr::NonNull::from(frame).cast(), frame.len())
            };
            let state = State::there(number, frame.len());
            arrivals.word(at).store(state.0, SeqCst);
        }
    }

    pub(in super::super) fn arrivals() -> Arrivals {
        let memory = Mapping::anonymous(VALUES as usize * VALUE_LEN).unwrap();
        let arrivals = Arrivals::in_memory(memory);
        arrivals.word(BY_INTERFACE).store(1, SeqCst);
        arrivals
    }

    fn awake() -> (Arrivals, Program) {
        let mut arrivals = arrivals();
        arrivals.settle(0, 0);
        assert!(!arrivals.are_older());
        (arrivals, Program::default())
    }

    fn lens(arrivals: &mut Arrivals, most: u32) -> Vec<usize> {
        let mut lens = Vec::new();
        let count = arrivals.take(most, |frame| {
            assert!(frame.iter().all(|byte| *byte == frame.len() as u8));
            lens.push(frame.len());
        });
        assert_eq!(count, lens.len());
        lens
    }

    fn frame(len: usize) -> Vec<u8> {
        vec![len as u8; len]
    }

    #[test]
    fn frames_are_taken_in_order_round_and_round() {
        let (mut arrivals, mut program) = awake();
        for round in 0..3 * PLACES as usize {
            let wanted = [60 + round % 900, 1514, 14];
            for len in wanted {
                assert!(program.put(&arrivals, &frame(len)));
            }
            let mut seen = Vec::new();
            arrivals.look(2, &mut |frame| seen.push(frame.len()));
            assert_eq!(seen, wanted[..2]);
            assert_eq!(lens(&mut arrivals, 64), wanted);
            assert_eq!(lens(&mut arrivals, 64), []);
            assert!(arrivals.are_taken());
        }
    }

    #[test]
    fn no_more_are_taken_than_are_asked_for() {
        for (waiting, most, taken) in [(1, 64, 1), (64, 64, 64), (200, 64, 64), (200, 7, 7)] {
            let (mut arrivals, mut program) = awake();
            (0..waiting).for_each(|_| assert!(program.put(&arrivals, &frame(60))));
            assert_eq!(arrivals.waiting() as usize, waiting);
            assert_eq!(lens(&mut arrivals, most).len(), taken, "of {waiting}");
            assert!(!arrivals.are_taken() || taken == waiting);
        }
    }

    /// What finds no place takes the interface, and all behind it, until all of them have come.
    #[test]
    fn frames_come_here_again_when_the_redirected_ones_have_come() {
        let (mut arrivals, mut program) = awake();
        (0..PLACES).for_each(|_| assert!(program.put(&arrivals, &frame(60))));
        (0..5).for_each(|_| assert!(!program.put(&arrivals, &frame(60))));
        assert!(arrivals.are_older());
        while !arrivals.are_taken() {
            let here = lens(&mut arrivals, 64).len();
            arrivals.settle(here, 0);
            assert!(arrivals.are_older());
        }
        arrivals.settle(0, 3);
        assert!(!program.put(&arrivals, &frame(60)));
        arrivals.settle(0, 2);
        assert!(arrivals.are_older(), "one more has been redirected");
        // Others use the interface, too: they are counted until the next time.
        arrivals.settle(0, 20);
        assert!(program.put(&arrivals, &frame(60)));
        assert_eq!(lens(&mut arrivals, 64), [60]);
        arrivals.settle(1, 0);
        assert!(arrivals.prepare_wait());
        assert!(!program.put(&arrivals, &frame(60)));
        arrivals.settle(0, 0);
        assert!(arrivals.are_older(), "it has not come");
        arrivals.settle(0, 1);
        assert!(!arrivals.are_older());
    }

    #[test]
    fn redirected_frames_that_are_lost_are_not_waited_for() {
        let (mut arrivals, mut program) = awake();
        assert!(arrivals.prepare_wait());
        assert!(!program.put(&arrivals, &frame(60)));
        for _ in 1..EMPTY_TURNS {
            arrivals.settle(0, 0);
            assert!(arrivals.are_older());
        }
        arrivals.settle(0, 0);
        assert!(!arrivals.are_older());
        // Who has slept over it does not wait either.
        assert!(arrivals.prepare_wait());
        assert!(!program.put(&arrivals, &frame(60)));
        assert!(arrivals.prepare_wait());
        arrivals.wait_for_no_more();
        arrivals.settle(0, 0);
        assert!(!arrivals.are_older());
    }

    #[test]
    fn nobody_sleeps_over_a_frame() {
        let (mut arrivals, mut program) = awake();
        assert!(arrivals.prepare_wait());
        assert!(!program.put(&arrivals, &frame(60)), "it wakes");
        let (mut arrivals, mut program) = awake();
        assert!(program.put(&arrivals, &frame(60)));
        assert!(!arrivals.prepare_wait());
        assert!(arrivals.are_older());
        assert_eq!(lens(&mut arrivals, 64), [60]);
        assert!(arrivals.prepare_wait());
        // Behind some that were taken back.
        let (mut arrivals, mut program) = awake();
        for number in 0..3 {
            assert!(program.put(&arrivals, &frame(60)));
            let state = State::taken_back(number);
            arrivals.word(place(number)).store(state.0, SeqCst);
        }
        assert!(program.put(&arrivals, &frame(61)));
        assert!(!arrivals.prepare_wait());
        assert_eq!(lens(&mut arrivals, 64), [61]);
    }

    /// A place that is written to while the others go round is not taken for one of the next round.
    #[test]
    fn a_place_without_its_frame_is_waited_for() {
        let (mut arrivals, mut program) = awake();
        let late = program.take_number(&arrivals);
        (1..PLACES).for_each(|_| assert!(program.put(&arrivals, &frame(60))));
        assert_eq!(lens(&mut arrivals, 64), []);
        program.say(&arrivals, late, &frame(61));
        assert!(
            !program.put(&arrivals, &frame(60)),
            "it is not empty for another"
        );
        assert_eq!(lens(&mut arrivals, 64)[0], 61);
    }

    /// A frame that was taken back has gone the other way, and what is no frame is none.
    #[test]
    fn places_without_a_frame_are_passed_over() {
        let (mut arrivals, mut program) = awake();
        let of_round_0 = |number| {
            let too_long = State::there(number, 5000);
            [
                State::taken_back(number),
                State(u64::MAX),
                too_long,
                State(4),
            ]
        };
        for (i, state) in of_round_0(0).into_iter().enumerate() {
            let number = program.put;
            assert!(program.put(&arrivals, &frame(60)));
            assert!(program.put(&arrivals, &frame(61)));
            arrivals.word(place(number)).store(state.0, SeqCst);
            assert_eq!(lens(&mut arrivals, 64), [61]);
            let counters = Arrivals::counters(Some(&arrivals));
            assert_eq!(counters[1], ("rx_arrivals_taken_back", 1 + i as u64));
        }
    }
}
