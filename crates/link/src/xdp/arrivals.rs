//! Frames that a daemon's program puts into memory of ours, past the virtual interface and its ring: the holder's side of
//! [`exos_filter::arrivals`].
//!
//! ```text
//! awake:    device ── program ──> place N, N+1, ...            taken in order, emptied
//! asleep:   device ── program ──> interface ──> receive ring   which wakes us
//! ```
//!
//! Which of the two holds is one word. We set it before we sleep; the program sets it when the places are full. It is set back
//! when for some turns neither way had anything ([`Arrivals::settle`]).

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use exos_filter::arrivals::{
    BY_INTERFACE, EMPTY, FRAME, PLACES, PUT, TAKEN_BACK, VALUE_LEN, VALUES, frame_len,
};

use super::XdpLink;
use crate::Error;
use crate::limits::{EMPTY_TURNS, RX_BATCH, RX_BATCH_MIN};
use crate::mapping::Mapping;

/// The memory, and what we have taken from it.
#[derive(Debug)]
pub(super) struct Arrivals {
    memory: Mapping,
    /// Frames taken so far: the next one lies at this number's place.
    taken: u64,
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

impl XdpLink {
    /// From now on frames may come by this memory, which a daemon lends, past the interface: the array of
    /// [`exos_filter::arrivals`].
    ///
    /// # Errors
    ///
    /// It cannot be mapped: frames go on to come by the interface.
    pub fn receive_past_interface(&mut self, memory: &OwnedFd) -> Result<(), Error> {
        self.queues[0].receive_past_ring(Arrivals::over(memory)?);
        Ok(())
    }
}

impl Arrivals {
    /// Maps what the daemon lends.
    pub(super) fn over(memory: &OwnedFd) -> Result<Self, Error> {
        let len = VALUES as usize * VALUE_LEN;
        let memory = Mapping::shared(memory.as_fd(), len, 0)
            .map_err(|e| Error::io("what the daemon lends to receive by cannot be mapped", e))?;
        Ok(Self::in_memory(memory))
    }

    /// Frames come by the interface until both ways have been seen empty.
    fn in_memory(memory: Mapping) -> Self {
        Self {
            memory,
            taken: 0,
            empty_turns: 0,
            counters: Counters::default(),
        }
    }

    /// Whether what comes now comes by the interface: what is here was there before it.
    pub(super) fn are_older(&self) -> bool {
        self.word(BY_INTERFACE).load(Relaxed) != 0
    }

    /// Takes frames that are here, all of them or a batch.
    pub(super) fn take(&mut self, all: bool, mut each: impl FnMut(&mut [u8])) -> usize {
        let put = self.word(PUT).load(Relaxed);
        let waiting = put.wrapping_sub(self.taken).min(u64::from(PLACES)) as u32;
        let most = match all {
            true => waiting,
            false => waiting.min((waiting / 2).clamp(RX_BATCH_MIN, RX_BATCH)),
        };
        let mut frames = 0;
        for _ in 0..most {
            let at = place(self.taken);
            let state = self.word(at).load(Acquire);
            if state == EMPTY {
                break;
            }
            // Neither there nor empty: from now on nobody takes it back.
            let state = match state {
                TAKEN_BACK => state,
                _ => self.word(at).swap(TAKEN_BACK, AcqRel),
            };
            match frame_len(state) {
                Some(len) => {
                    let start = self.memory.at::<u8>(at + FRAME, len);
                    // SAFETY: within the mapping. The program writes to a place that is empty and to no other, and this
                    // one is not until the slice is gone.
                    each(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) });
                    frames += 1;
                }
                None => self.counters.taken_back += 1,
            }
            self.word(at).store(EMPTY, Release);
            self.taken = self.taken.wrapping_add(1);
        }
        self.counters.frames += frames;
        frames as usize
    }

    /// Shows up to `count` frames that are here and stay.
    pub(super) fn look(&self, count: u32, each: &mut impl FnMut(&[u8])) {
        for i in 0..u64::from(count.min(PLACES)) {
            let at = place(self.taken.wrapping_add(i));
            match frame_len(self.word(at).load(Acquire)) {
                Some(len) => {
                    let start = self.memory.at::<u8>(at + FRAME, len);
                    // SAFETY: within the mapping, and not written: a place with a frame is emptied by us alone.
                    each(unsafe { std::slice::from_raw_parts(start.as_ptr(), len) });
                }
                None => break,
            }
        }
    }

    /// After a turn in which `came` frames came by both ways together: has them come here when that was nothing for some turns.
    /// Frames that are under way to the interface have arrived by then.
    pub(super) fn settle(&mut self, came: usize) {
        if came > 0 || !self.are_older() {
            self.empty_turns = 0;
            return;
        }
        self.empty_turns += 1;
        if self.empty_turns >= EMPTY_TURNS {
            self.empty_turns = 0;
            self.counters.turned += 1;
            self.word(BY_INTERFACE).store(0, SeqCst);
        }
    }

    /// Has frames come by the interface, which wakes us. False when one is here already.
    pub(super) fn prepare_wait(&mut self) -> bool {
        // Before we look: a frame that we do not see here is taken back by the program, which sees the word.
        self.word(BY_INTERFACE).store(1, SeqCst);
        self.empty_turns = 0;
        std::sync::atomic::fence(SeqCst);
        frame_len(self.word(place(self.taken)).load(SeqCst)).is_none()
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: within the mapping, aligned, and accessed as an atomic word by everybody.
        unsafe { self.memory.at::<AtomicU64>(offset, 1).as_ref() }
    }

    /// Events by name, none where there is no such memory.
    pub(super) fn counters(arrivals: Option<&Self>) -> [(&'static str, u64); 3] {
        let counters = arrivals.map_or_else(Counters::default, |arrivals| arrivals.counters);
        [
            ("rx_arrivals", counters.frames),
            ("rx_arrivals_taken_back", counters.taken_back),
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
    use exos_filter::arrivals::LEN_SHIFT;

    /// The daemon's program, as [`exos_filter::arrivals`] tells it.
    #[derive(Default)]
    pub(in super::super) struct Program {
        put: u64,
    }

    impl Program {
        /// Puts a frame; false when it takes the interface.
        pub(in super::super) fn put(&mut self, arrivals: &Arrivals, frame: &[u8]) -> bool {
            let at = place(self.put);
            if arrivals.are_older() {
                return false;
            }
            if arrivals.word(at).load(SeqCst) != EMPTY {
                arrivals.word(BY_INTERFACE).store(1, SeqCst);
                return false;
            }
            self.put += 1;
            arrivals.word(PUT).store(self.put, SeqCst);
            let to = arrivals.memory.at::<u8>(at + FRAME, frame.len());
            // SAFETY: within the mapping, in a place that nobody refers to.
            unsafe {
                to.copy_from_nonoverlapping(std::ptr::NonNull::from(frame).cast(), frame.len())
            };
            let state = (frame.len() as u64) << LEN_SHIFT | 1;
            arrivals.word(at).store(state, SeqCst);
            true
        }
    }

    pub(in super::super) fn arrivals() -> Arrivals {
        let memory = Mapping::anonymous(VALUES as usize * VALUE_LEN).unwrap();
        let arrivals = Arrivals::in_memory(memory);
        arrivals.word(BY_INTERFACE).store(1, SeqCst);
        arrivals
    }

    /// After as many turns as it takes.
    fn awake() -> (Arrivals, Program) {
        let mut arrivals = arrivals();
        (0..EMPTY_TURNS).for_each(|_| arrivals.settle(0));
        assert!(!arrivals.are_older());
        (arrivals, Program::default())
    }

    fn lens(arrivals: &mut Arrivals, all: bool) -> Vec<usize> {
        let mut lens = Vec::new();
        let count = arrivals.take(all, |frame| {
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
            assert_eq!(lens(&mut arrivals, false), wanted);
            assert_eq!(lens(&mut arrivals, false), []);
        }
    }

    #[test]
    fn half_of_what_waits_is_taken_or_all() {
        for (waiting, half) in [(1, 1), (32, 32), (33, 32), (100, 50), (200, 64)] {
            let (mut arrivals, mut program) = awake();
            (0..waiting).for_each(|_| assert!(program.put(&arrivals, &frame(60))));
            assert_eq!(lens(&mut arrivals, false).len(), half, "of {waiting}");
            assert_eq!(lens(&mut arrivals, true).len(), waiting - half);
        }
    }

    #[test]
    fn what_finds_no_place_takes_the_interface_until_both_ways_are_empty() {
        let (mut arrivals, mut program) = awake();
        (0..PLACES).for_each(|_| assert!(program.put(&arrivals, &frame(60))));
        assert!(!program.put(&arrivals, &frame(60)));
        assert!(arrivals.are_older());
        assert_eq!(lens(&mut arrivals, true).len(), PLACES as usize);
        arrivals.settle(PLACES as usize);
        for came in [0, 0, 0, 5, 0, 0, 0] {
            arrivals.settle(came);
            assert!(!program.put(&arrivals, &frame(60)));
        }
        arrivals.settle(0);
        assert!(program.put(&arrivals, &frame(60)));
        assert_eq!(lens(&mut arrivals, false), [60]);
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
        assert_eq!(lens(&mut arrivals, true), [60]);
        assert!(arrivals.prepare_wait());
    }

    /// A frame that was taken back has gone the other way, and what is no frame is none.
    #[test]
    fn places_without_a_frame_are_passed_over() {
        let (mut arrivals, mut program) = awake();
        for state in [TAKEN_BACK, u64::MAX, 5000 << LEN_SHIFT | 1, 4] {
            let number = program.put;
            assert!(program.put(&arrivals, &frame(60)));
            assert!(program.put(&arrivals, &frame(61)));
            arrivals.word(place(number)).store(state, SeqCst);
            assert_eq!(lens(&mut arrivals, true), [61]);
        }
        // Asleep, and one is taken back behind which nothing is.
        let number = program.put;
        assert!(program.put(&arrivals, &frame(60)));
        arrivals.word(place(number)).store(TAKEN_BACK, SeqCst);
        assert!(arrivals.prepare_wait());
        let counters = Arrivals::counters(Some(&arrivals));
        assert_eq!(counters[1], ("rx_arrivals_taken_back", 4));
    }
}
