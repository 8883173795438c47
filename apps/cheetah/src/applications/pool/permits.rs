//! Which loop of a server has how many of the requests that an application of this host may have from all of them ([`Concurrency`]).
//!
//! A loop takes a permit for a request and gives it back when that ends. While none lacks permits each takes what there is. Else each may
//! hold its part of the limit, which it takes again as soon as it gives it back; what is beyond goes to the loop that has lacked one for the
//! longest time, which is the last one then. A loop that leaves permits free wakes the one whose turn it is, and that one does so in turn.
//!
//! A loop takes the lock when a request begins and when it ends, and in each turn while some lack permits.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use exos_inet::Instant;

use super::concurrency::Concurrency;
use crate::applications::Place;

/// Wakes a loop, by its number.
type Wake = dyn Fn(usize) + Send + Sync;

/// Those for all applications, as one loop takes them: the only one, unless it is made [one of several](AllPermits::of_loop).
#[derive(Clone)]
pub struct AllPermits {
    places: Arc<Mutex<HashMap<Place, Weak<Mutex<Permits>>>>>,
    number: usize,
    wake: Arc<Wake>,
}

impl Default for AllPermits {
    fn default() -> Self {
        Self {
            places: Arc::default(),
            number: 0,
            wake: Arc::new(|_| {}),
        }
    }
}

impl AllPermits {
    /// These for the loop with this number, that wakes others so.
    #[must_use]
    pub fn of_loop(self, number: usize, wake: impl Fn(usize) + Send + Sync + 'static) -> Self {
        Self {
            number,
            wake: Arc::new(wake),
            ..self
        }
    }

    /// Those for one application: the loop holds none of them.
    pub(super) fn of(&self, place: &Place) -> LoopPermits {
        let mut places = lock(&self.places);
        let known = places.get(place).and_then(Weak::upgrade);
        let permits = known.unwrap_or_else(|| {
            let new = Arc::new(Mutex::new(Permits::new()));
            places.retain(|_, permits| permits.strong_count() > 0);
            places.insert(place.clone(), Arc::downgrade(&new));
            new
        });
        let limit = lock(&permits).concurrency.limit();
        lock(&permits).admit(self.number);
        LoopPermits {
            permits,
            number: self.number,
            wake: self.wake.clone(),
            limit,
            held: 0,
            has_given: false,
            lacks: false,
        }
    }
}

/// What all loops have of an application.
struct Permits {
    concurrency: Concurrency,
    /// How many each loop holds, and all of them.
    held: Vec<usize>,
    taken: usize,
    /// Loops that lack some, the next one first.
    lacking: VecDeque<usize>,
}

impl Permits {
    fn new() -> Self {
        Self {
            concurrency: Concurrency::new(),
            held: Vec::new(),
            taken: 0,
            lacking: VecDeque::new(),
        }
    }

    /// A loop takes some from now on.
    fn admit(&mut self, number: usize) {
        let count = self.held.len().max(number + 1);
        self.held.resize(count, 0);
    }

    fn is_free(&self) -> bool {
        self.taken < self.concurrency.limit()
    }

    /// A loop holds this many.
    fn hold(&mut self, number: usize, held: usize) {
        let before = std::mem::replace(&mut self.held[number], held);
        self.taken = self.taken - before + held;
    }

    /// The loop whose turn it is, where it may take one.
    fn next(&self) -> Option<usize> {
        let next = self.lacking.front().copied();
        next.filter(|_| self.is_free())
    }

    /// A loop may take one.
    fn is_free_for(&self, number: usize) -> bool {
        let is_next = || (self.lacking.front()).is_none_or(|next| *next == number);
        let has_less = || {
            let asks =
                |(number, held): &(usize, &usize)| **held > 0 || self.lacking.contains(number);
            let loops = self.held.iter().enumerate().filter(asks).count();
            self.held[number] < self.concurrency.limit() / loops.max(1)
        };
        self.is_free() && (is_next() || has_less())
    }
}

/// What one loop has of an application; it gives back what it holds when it is dropped.
pub(super) struct LoopPermits {
    permits: Arc<Mutex<Permits>>,
    number: usize,
    wake: Arc<Wake>,
    /// How many there were for all loops when this one looked last.
    limit: usize,
    /// How many this one holds.
    held: usize,
    /// Some were given back of which nobody was told who lacks some.
    has_given: bool,
    /// It lacks some, and is in the queue.
    lacks: bool,
}

impl LoopPermits {
    /// How many there are for all loops.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// There is one for another request beside this many.
    pub(super) fn allow(&mut self, busy: usize) -> bool {
        busy < self.held || self.take()
    }

    fn take(&mut self) -> bool {
        let mut permits = lock(&self.permits);
        self.limit = permits.concurrency.limit();
        if !permits.is_free_for(self.number) {
            return false;
        }
        self.held += 1;
        permits.hold(self.number, self.held);
        if permits.lacking.front() == Some(&self.number) {
            permits.lacking.pop_front();
            self.lacks = false;
        }
        self.wake(permits.next());
        true
    }

    /// A request has ended, whose permit is given back: until [`settle`](Self::settle) no other loop hears of it.
    pub(super) fn answered(&mut self, now: Instant) {
        let mut permits = lock(&self.permits);
        let busy = permits.taken;
        permits.concurrency.answered(busy, now);
        self.limit = permits.concurrency.limit();
        if let Some(held) = self.held.checked_sub(1) {
            self.held = held;
            self.has_given |= !permits.lacking.is_empty();
            permits.hold(self.number, held);
        }
    }

    /// This many requests have a permit, and others are given back; `lacks` where requests wait for some.
    pub(super) fn settle(&mut self, busy: usize, lacks: bool, now: Instant) {
        if self.held <= busy && self.lacks == lacks && !self.has_given {
            return;
        }
        let mut permits = lock(&self.permits);
        self.held = self.held.min(busy);
        self.has_given = false;
        permits.hold(self.number, self.held);
        if self.lacks && !lacks {
            permits.lacking.retain(|number| *number != self.number);
        } else if lacks && !self.lacks {
            if permits.lacking.is_empty() {
                permits.concurrency.turn(false, now);
            }
            permits.lacking.push_back(self.number);
        }
        self.lacks = lacks;
        // Or this one, where another gave back what it did not find.
        self.wake(permits.next());
    }

    /// A turn begins, in which the loop takes what there is for it.
    pub(super) fn turn(&mut self, now: Instant) {
        if self.lacks {
            let mut permits = lock(&self.permits);
            permits.concurrency.turn(true, now);
            self.wake(permits.next().filter(|next| *next != self.number));
        }
    }

    /// When there is something to do, whatever happens.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let permits = self.lacks.then(|| lock(&self.permits))?;
        permits.concurrency.poll_timeout(true)
    }

    fn wake(&self, next: Option<usize>) {
        if let Some(next) = next {
            (self.wake)(next);
        }
    }
}

impl Drop for LoopPermits {
    fn drop(&mut self) {
        self.settle(0, false, Instant::START);
    }
}

/// Nothing is left half done by the one that panics with a lock.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "permits/tests.rs"]
mod tests;
