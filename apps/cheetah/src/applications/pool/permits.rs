//! Which loop of a server has how many of the requests that an application of this host may have from all of them ([`Concurrency`]).
//!
//! A loop takes a permit for a request and gives it back when that ends. While none lacks permits each takes what there is. Else each may
//! hold its part of the limit, which it takes again as soon as it gives it back; what is beyond goes to the loop that has lacked one for the
//! longest time, which is the last one then. A loop that leaves permits free wakes the one whose turn it is, and that one does so in turn.
//!
//! A loop takes the lock when a request begins and when it ends, and in each turn in which it holds or lacks some.

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
        let part = {
            let mut permits = lock(&permits);
            permits.admit(self.number);
            permits.part(self.number).max(1)
        };
        LoopPermits {
            permits,
            number: self.number,
            wake: self.wake.clone(),
            part,
            turned: Instant::START,
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
    /// Until when each has heard all that came.
    heard: Vec<Instant>,
    /// Loops that lack some, the next one first.
    lacking: VecDeque<usize>,
}

impl Permits {
    fn new() -> Self {
        Self {
            concurrency: Concurrency::new(),
            held: Vec::new(),
            taken: 0,
            heard: Vec::new(),
            lacking: VecDeque::new(),
        }
    }

    /// A loop takes some from now on.
    fn admit(&mut self, number: usize) {
        let count = self.held.len().max(number + 1);
        self.held.resize(count, 0);
        self.heard.resize(count, Instant::START);
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
        self.is_free() && (is_next() || self.held[number] < self.part(number))
    }

    /// How many a loop may hold whatever others lack: all while none lacks some.
    fn part(&self, number: usize) -> usize {
        if self.lacking.is_empty() {
            return self.concurrency.limit();
        }
        let asks = |at: &usize| *at == number || self.held[*at] > 0 || self.lacking.contains(at);
        self.concurrency.limit() / (0..self.held.len()).filter(asks).count()
    }

    /// Loops that hold some, to which answers may come, and until when each has heard all.
    fn holding(&self) -> impl Iterator<Item = (usize, Instant)> {
        let all = self.held.iter().zip(&self.heard).enumerate();
        let holding = all.filter(|(_, (held, _))| **held > 0);
        holding.map(|(number, (_, heard))| (number, *heard))
    }
}

/// What one loop has of an application; it gives back what it holds when it is dropped.
pub(super) struct LoopPermits {
    permits: Arc<Mutex<Permits>>,
    number: usize,
    wake: Arc<Wake>,
    /// How many it might hold, whatever others lack, when it looked last: one at least.
    part: usize,
    /// When its last turn began.
    turned: Instant,
    /// How many this one holds.
    held: usize,
    /// Some were given back of which nobody was told who lacks some.
    has_given: bool,
    /// It lacks some, and is in the queue.
    lacks: bool,
}

impl LoopPermits {
    /// How many of all are for this loop, whatever others lack.
    pub(super) fn part(&self) -> usize {
        self.part
    }

    /// There is one for another request beside this many, which nobody has yet.
    pub(super) fn may_allow(&mut self, busy: usize) -> bool {
        busy < self.held || {
            let permits = lock(&self.permits);
            self.part = permits.part(self.number).max(1);
            permits.is_free_for(self.number)
        }
    }

    /// As [`may_allow`](Self::may_allow), and the loop takes it.
    pub(super) fn allow(&mut self, busy: usize) -> bool {
        busy < self.held || self.take()
    }

    fn take(&mut self) -> bool {
        let mut permits = lock(&self.permits);
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
                permits.concurrency.turn(false, now, now);
            }
            permits.lacking.push_back(self.number);
        }
        self.lacks = lacks;
        // Or this one, where another gave back what it did not find.
        self.wake(permits.next());
    }

    /// A turn begins, in which the loop takes what there is for it.
    pub(super) fn turn(&mut self, now: Instant) {
        // What came before the last one began was heard in it.
        let heard = std::mem::replace(&mut self.turned, now);
        if !self.lacks && self.held == 0 {
            return;
        }
        let mut permits = lock(&self.permits);
        permits.heard[self.number] = heard;
        if self.lacks {
            let others = |number: &usize| *number != self.number;
            let heard = permits.holding().map(|(_, heard)| heard).min();
            let unheard_since = permits.concurrency.turn(true, heard.unwrap_or(now), now);
            if let Some(since) = unheard_since {
                let late = permits.holding().filter(|(_, heard)| *heard < since);
                let late = late.map(|(number, _)| number).filter(others);
                late.for_each(&*self.wake);
            }
            self.wake(permits.next().filter(others));
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
