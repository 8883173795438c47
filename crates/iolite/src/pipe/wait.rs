//! How a side waits for the other.

use super::bell::Sleeper;
use super::outbox::{self, Outbox};
use crate::error::{Error, Result};
use crate::limits::{LOOKS_EVERY, SPINS_PER_CHECK};
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

/// What is waited for, on one side of a ring.
pub(super) trait Waiting {
    /// It is so.
    fn is_there(&mut self) -> Result<bool>;
    /// This side says that it is about to sleep.
    fn falls_asleep(&self);
    /// It does not sleep.
    fn is_awake(&self);
    fn sleeper(&self) -> &Sleeper;
}

/// Waits; false when it is not so by [`Wait::end`]. A peer that has ended may leave it so first.
pub(super) fn wait(waiting: &mut impl Waiting, how: Wait, end: Option<Instant>) -> Result<bool> {
    match how {
        Wait::Poll => look(waiting, None),
        Wait::Sleep | Wait::SleepAtMost(_) => sleep(waiting, end),
        Wait::PollFor(time) => match look(waiting, Some(time))? {
            true => Ok(true),
            false => sleep(waiting, None),
        },
    }
}

fn look(waiting: &mut impl Waiting, at_most: Option<Duration>) -> Result<bool> {
    let mut end = None;
    loop {
        for spin in 0..SPINS_PER_CHECK {
            if waiting.is_there()? {
                return Ok(true);
            }
            // The clock costs as much as some looks.
            if let Some(at_most) = at_most.filter(|_| spin % 64 == 63) {
                let now = Instant::now();
                let end = end.get_or_insert_with(|| now.checked_add(at_most));
                if end.is_some_and(|end| now >= end) {
                    return Ok(false);
                }
            }
            std::hint::spin_loop();
        }
        super::collect_all();
        if waiting.sleeper().is_alone() {
            return last_look(waiting);
        }
    }
}

fn sleep(waiting: &mut impl Waiting, end: Option<Instant>) -> Result<bool> {
    loop {
        if waiting.is_there()? {
            return Ok(true);
        }
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(false);
        }
        let others = outbox::with_others();
        waiting.falls_asleep();
        let is_there = waiting.is_there();
        let slept = match is_there {
            Ok(false) if others.is_empty() => waiting.sleeper().sleep(left),
            Ok(false) => sleep_with(waiting.sleeper(), &others, left),
            _ => Ok(()),
        };
        waiting.is_awake();
        if is_there? {
            return Ok(true);
        }
        match slept {
            Err(Error::PeerGone) => return last_look(waiting),
            other => other?,
        }
    }
}

/// Sleeps, also until one of these has something to let go of: another process waits for that.
fn sleep_with(
    sleeper: &Sleeper,
    others: &[Rc<RefCell<Outbox>>],
    at_most: Option<Duration>,
) -> Result<()> {
    let bells: Vec<Rc<Sleeper>> = others
        .iter()
        .map(|o| Rc::clone(&o.borrow().sleeper))
        .collect();
    let mut is_nothing_taken = true;
    for outbox in others {
        let mut outbox = outbox.borrow_mut();
        outbox.ring.falls_asleep();
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
            outbox.ring.is_awake();
            let _ = outbox.sleeper.clear();
        }
        outbox.look();
    }
    match is_woken {
        // Also where only another was: the caller looks again.
        true => sleeper.sleep(Some(Duration::ZERO)),
        false => Ok(()),
    }
}

/// The peer has ended: what it did before counts.
fn last_look(waiting: &mut impl Waiting) -> Result<bool> {
    match waiting.is_there()? {
        true => Ok(true),
        false => Err(Error::PeerGone),
    }
}
