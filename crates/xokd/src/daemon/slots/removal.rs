//! Taking away the places of slots that have gone, beside the loop.
//!
//! A slot that goes is closed in the turn that takes it: nothing is received or sent for it any more. What is left then waits
//! for the kernel several times (for its grace periods, and for both ends of the pair to be gone), some 100 ms in all, in which
//! the loop serves others; when many programs end at once it is waited for all of them together. The slot's number is free
//! when that is done. A daemon that ends before finishes what it has begun, and leaves the rest to its successor, which takes
//! away whatever no program has.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use exos_host::error::{Error, Result};
use exos_host::netlink::Netlink;
use exos_host::warn;
use rustix::event::{PollFd, PollFlags, poll};

use crate::clock::{Now, now};
use crate::gate::Remains;
use crate::ledger::SlotId;
use crate::limits::{AGAIN_AFTER, LETTING_GO, REMOVED_AGAIN_AFTER_MAX, WAITED_FOR};
use crate::slot::{self, SlotPair};
use crate::worker::Worker;

/// A slot that is closed, and where what is left of it is.
type Closed = (SlotId, Remains);

/// What came of it.
type Removed = Vec<(Closed, Result<()>)>;

/// The slots that have gone and are not taken away yet.
pub(in crate::daemon) struct Removals {
    worker: Worker<(), Removed>,
    waiting: Vec<Closed>,
    /// What the daemon has of their places. To let go of one the kernel waits, too: for anyone who uses its packet socket.
    places: Vec<SlotPair>,
    /// Those that could not be taken away, for which the kernel had nothing left, say, and when that is tried again.
    failed: Vec<(Now, Closed)>,
    /// All of which something is left, and how often each could not be taken away.
    going: BTreeMap<SlotId, u32>,
    /// Something is being taken away, or is to be as soon as there is a thread for it.
    is_at_work: bool,
}

impl Removals {
    /// None yet.
    pub(in crate::daemon) fn new() -> Result<Self> {
        Ok(Self {
            worker: Worker::new()?,
            waiting: Vec::new(),
            places: Vec::new(),
            failed: Vec::new(),
            going: BTreeMap::new(),
            is_at_work: false,
        })
    }

    /// A slot has been closed.
    pub(in crate::daemon) fn add(
        &mut self,
        slot: SlotId,
        remains: Remains,
        place: Option<SlotPair>,
    ) {
        self.going.insert(slot, 0);
        self.waiting.push((slot, remains));
        self.places.extend(place);
    }

    /// Whether something is left of a slot.
    pub(in crate::daemon) fn has(&self, slot: SlotId) -> bool {
        self.going.contains_key(&slot)
    }

    /// Whether something is left of any.
    pub(in crate::daemon) fn is_empty(&self) -> bool {
        self.going.is_empty()
    }

    /// Ends what is done, and begins with all that have gone since.
    pub(in crate::daemon) fn go_on(&mut self) {
        while let Some(done) = self.worker.done() {
            self.end(done.made);
        }
        if !self.is_at_work && !self.waiting.is_empty() {
            let closed = std::mem::take(&mut self.waiting);
            let places = std::mem::take(&mut self.places);
            let remove = move || {
                let_go(places);
                let removed = remove(&closed);
                closed.into_iter().zip(removed).collect()
            };
            self.worker.ask(None, Box::new(remove));
            self.is_at_work = true;
        }
        self.worker.go_on(|()| ());
    }

    fn end(&mut self, removed: Removed) {
        self.is_at_work = false;
        for ((slot, remains), removed) in removed {
            match removed {
                Ok(()) => drop(self.going.remove(&slot)),
                Err(error) => {
                    let failures = self.going.entry(slot).or_default();
                    *failures += 1;
                    if *failures == 1 {
                        warn!("slot {slot}: {error}");
                    }
                    let again = now() + again_after(*failures);
                    self.failed.push((again, (slot, remains)));
                }
            }
        }
    }

    /// Waits for the slots that have gone, where these are few: a program that comes next may have been told of them.
    pub(in crate::daemon) fn settle(&mut self) {
        if self.going.len() <= WAITED_FOR {
            self.finish();
        }
    }

    /// Tries again what failed, when it is time.
    pub(in crate::daemon) fn retry(&mut self, now: Now) {
        let due = self.failed.extract_if(.., |(again, _)| *again <= now);
        self.waiting.extend(due.map(|(_, closed)| closed));
    }

    /// Waits for what is being taken away, and begins with nothing more.
    pub(in crate::daemon) fn wait(&mut self) {
        self.worker.wait();
    }

    /// Waits until all are taken away that can be: here, where there is no thread to be had.
    pub(in crate::daemon) fn finish(&mut self) {
        self.go_on();
        while self.is_at_work {
            match self.worker.do_here() {
                Some(removed) => self.end(removed),
                None => drop(poll(&mut [PollFd::new(&self.worker, PollFlags::IN)], None)),
            }
            self.go_on();
        }
    }
}

/// A daemon that goes gives its interfaces back, and with them the numbers of slots.
impl Drop for Removals {
    fn drop(&mut self) {
        self.wait();
    }
}

impl AsFd for Removals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.worker.as_fd()
    }
}

/// When a slot is tried again that could not be taken away this many times.
fn again_after(failures: u32) -> Duration {
    let doubled = AGAIN_AFTER.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(REMOVED_AGAIN_AFTER_MAX)
}

/// Takes away what is left of these. The kernel is waited for once for many of them.
fn remove(closed: &[Closed]) -> Vec<Result<()>> {
    let places = closed
        .iter()
        .map(|(slot, remains)| (remains.ifindex(), *slot));
    let pairs = Netlink::new().and_then(|netlink| slot::remove_all(&netlink, places));
    if let Err(error) = pairs {
        let failed = |_| Err(Error::new(error.to_string()));
        return closed.iter().map(failed).collect();
    }
    let part = closed.len().div_ceil(LETTING_GO).max(1);
    std::thread::scope(|scope| {
        let mut parts = closed.chunks(part);
        let here = parts.next().unwrap_or_default();
        let begin = |part| {
            let thread = std::thread::Builder::new();
            let begun = thread.spawn_scoped(scope, move || forget(part));
            // Without a thread to be had it is done here.
            begun.map_err(|_| part)
        };
        let begun: Vec<_> = parts.map(begin).collect();
        let mut forgotten = forget(here);
        for thread in begun {
            let more = thread.map(|thread| thread.join());
            forgotten.extend(match more {
                Ok(joined) => joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(part) => forget(part),
            });
        }
        forgotten
    })
}

/// Lets go of places, some at the same time.
fn let_go(mut places: Vec<SlotPair>) {
    let part = places.len().div_ceil(LETTING_GO);
    std::thread::scope(|scope| {
        while !places.is_empty() {
            let some = places.split_off(places.len().saturating_sub(part));
            // Without a thread to be had they go here, with what it was to do.
            let _ = std::thread::Builder::new().spawn_scoped(scope, move || drop(some));
        }
    });
}

fn forget(closed: &[Closed]) -> Vec<Result<()>> {
    let each = closed.iter();
    each.map(|(slot, remains)| remains.forget(*slot)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_again_and_again_is_tried_less_often() {
        let waits: Vec<_> = (1..=40).map(again_after).collect();
        assert_eq!(waits[0], AGAIN_AFTER);
        assert_eq!(waits[1], 2 * AGAIN_AFTER);
        assert!(waits.is_sorted());
        assert_eq!(waits[39], REMOVED_AGAIN_AFTER_MAX);
    }
}
