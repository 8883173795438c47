//! How a side waits for the other.

use super::bell::Sleeper;
use super::outbox::{self, Outbox};
use crate::error::{Error, Result};
use crate::limits::LOOKS_EVERY;
use exos_wait::{Budget, Counts, Slept, Spin, Waited};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wait {
    /// By looking again and again: the other side is never asked to wake anyone.
    Poll,
    /// Asleep, until the other side wakes this one.
    #[default]
    Sleep,
    /// By looking for this long, and then asleep.
    PollFor(Duration),
    /// By looking for as long as that has lately been worth it, 50 µs at most, and then asleep.
    Adaptive,
    /// Asleep, for this long at most.
    SleepAtMost(Duration),
}

impl Wait {
    /// When it ends, if it does, for calls that wait several times.
    pub(super) fn end(self) -> Option<Instant> {
        match self {
            // What is too long to be told is for good.
            Self::SleepAtMost(time) => Instant::now().checked_add(time),
            _ => None,
        }
    }
}

/// What is to be there before a consumer that waits is woken; either is enough, and so is a full pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LowWater {
    /// This many slices, at least one; where these are more than the pipe's slots, all of them.
    pub slices: usize,
    /// This many bytes.
    pub bytes: usize,
}

impl LowWater {
    /// This many bytes, or a full pipe.
    pub const fn bytes(bytes: usize) -> Self {
        let slices = usize::MAX;
        Self { slices, bytes }
    }

    /// This many slices.
    pub const fn slices(slices: usize) -> Self {
        let bytes = usize::MAX;
        Self { slices, bytes }
    }
}

impl Default for LowWater {
    /// Whatever comes.
    fn default() -> Self {
        Self::slices(1)
    }
}

/// What an end knows of its waits.
#[derive(Debug, Default)]
pub(super) struct Waits {
    pub counts: Counts,
    budget: Budget,
}

impl Waits {
    /// An event loop slept for this end, by its descriptor, and was woken.
    pub fn was_woken(&mut self, holds: bool) {
        self.counts.sleeps += 1;
        self.counts.wakes += 1;
        self.counts.false_wakes += u64::from(!holds);
    }
}

/// Waits; false when it is not so by [`Wait::end`]. A peer that has ended may leave it so first.
pub(super) fn wait(
    waited: &mut impl Waited<Error = Error>,
    how: Wait,
    end: Option<Instant>,
    waits: &mut Waits,
) -> Result<bool> {
    let spin = match how {
        Wait::Poll => Spin::On,
        Wait::Sleep | Wait::SleepAtMost(_) => Spin::Not,
        Wait::PollFor(time) => Spin::For(time),
        Wait::Adaptive => Spin::Adaptive(&mut waits.budget),
    };
    match exos_wait::wait(waited, spin, end, &mut waits.counts) {
        // What it did before counts.
        Err(Error::PeerGone) => match waited.holds()? {
            true => Ok(true),
            false => Err(Error::PeerGone),
        },
        other => other,
    }
}

/// Lets go of what was taken of anything that this thread has sent, has what is another's be read, and looks whether the peer is there still.
pub(super) fn check(sleeper: &Sleeper) -> Result<()> {
    outbox::collect_all();
    let others = outbox::with_others(sleeper);
    others.iter().for_each(|outbox| outbox.borrow_mut().flush());
    match sleeper.is_alone() {
        true => Err(Error::PeerGone),
        false => Ok(()),
    }
}

/// Sleeps until it is woken, or this long.
pub(super) fn sleep(sleeper: &Sleeper, at_most: Option<Duration>) -> Result<Slept> {
    let others = outbox::with_others(sleeper);
    match others.is_empty() {
        true => sleeper.sleep(at_most).map(slept),
        false => sleep_with(sleeper, &others, at_most),
    }
}

fn slept(is_woken: bool) -> Slept {
    match is_woken {
        true => Slept::Woken,
        false => Slept::Elapsed,
    }
}

/// Sleeps, also until one of these has something to let go of: another process waits for that, so that it is to be read.
fn sleep_with(
    sleeper: &Sleeper,
    others: &[Rc<RefCell<Outbox>>],
    at_most: Option<Duration>,
) -> Result<Slept> {
    let bells: Vec<Rc<Sleeper>> = others
        .iter()
        .map(|o| Rc::clone(&o.borrow().sleeper))
        .collect();
    let mut is_nothing_taken = true;
    for outbox in others {
        let mut outbox = outbox.borrow_mut();
        outbox.flush();
        // An event loop's wait stands: published over it, what rings for it now might not.
        if !outbox.is_armed {
            outbox.publish(true);
        }
        is_nothing_taken &= !outbox.look();
    }
    // What has rung for an event loop stays rung for it, so it is no bell that wakes us: we look from time to time.
    let (mut all, mut at_most) = (vec![sleeper], at_most);
    for (bell, outbox) in bells.iter().zip(others) {
        if outbox.borrow().is_armed && bell.has_rung() {
            at_most = Some(at_most.map_or(LOOKS_EVERY, |time| time.min(LOOKS_EVERY)));
        } else {
            all.push(bell);
        }
    }
    let is_woken = is_nothing_taken && super::bell::sleep_for_any(all, at_most);
    for outbox in others {
        let mut outbox = outbox.borrow_mut();
        if !outbox.is_armed {
            outbox.ring.withdraw();
            let _ = outbox.sleeper.clear();
        }
        outbox.look();
    }
    match (is_nothing_taken, is_woken) {
        (false, _) => Ok(Slept::Not),
        // Where only another was, this side is not: the caller looks again.
        (_, true) => sleeper.clear().map(slept),
        (_, false) => Ok(Slept::Elapsed),
    }
}
