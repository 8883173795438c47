//! The loops of one program, each in a thread, as a rule on a core of its own: what they share and how one asks another
//! for something ([`Worker`]), and their threads from start to end ([`Thread`]; [`Threads`] of loops that run until they are
//! asked to end).
//!
//! Asking costs the one that asks: the one that is asked pays a comparison each turn, of a word that is written when
//! somebody asks and never otherwise.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use exos::Error;
use exos_host::{Waker, affinity};

/// End. What a program's loops are asked beside is of bits from 4 on.
pub const STOP: u32 = 1;

/// To the first loop: another has ended, in order or not.
pub const ONE_LEFT: u32 = 2;

/// By which others ask a loop for something, of things that are bits of a word.
#[derive(Debug)]
struct Doorbell {
    asked: AtomicU32,
    waker: Waker,
}

impl Doorbell {
    /// Nobody has asked for anything.
    fn new() -> Result<Self, Error> {
        let waker = Waker::new();
        Ok(Self {
            asked: AtomicU32::new(0),
            waker: waker.map_err(|e| Error::io("cannot make an event descriptor", e))?,
        })
    }

    #[inline]
    fn take(&self) -> u32 {
        if self.asked.load(Ordering::Relaxed) == 0 || !self.waker.clear() {
            return 0;
        }
        self.asked.swap(0, Ordering::AcqRel)
    }

    fn ring(&self, what: u32) {
        // The first that asks wakes for all until it is heard.
        if self.asked.fetch_or(what, Ordering::AcqRel) == 0 {
            self.waker.wake();
        }
    }
}

/// A loop in the eyes of the others. Apart from the others' in memory: a line of the cache belongs to one core.
#[derive(Debug)]
#[repr(align(128))]
struct WorkerState<P> {
    doorbell: Doorbell,
    shows: P,
}

#[derive(Debug)]
#[repr(align(128))]
struct All<P, S> {
    shared: S,
    places: Box<[WorkerState<P>]>,
}

/// One loop among those of a program; a clone is the same one. Each shows a `P` to the others, and all share an `S`.
#[derive(Debug)]
pub struct Worker<P, S> {
    all: Arc<All<P, S>>,
    number: usize,
}

impl<P, S> Clone for Worker<P, S> {
    fn clone(&self) -> Self {
        Self {
            all: self.all.clone(),
            number: self.number,
        }
    }
}

impl<P, S> Worker<P, S> {
    /// One for each of these. The first one comes first.
    ///
    /// # Errors
    ///
    /// The kernel has no descriptors for them.
    pub fn make(shows: impl IntoIterator<Item = P>, shared: S) -> Result<Vec<Self>, Error> {
        let place = |shows| {
            Ok(WorkerState {
                doorbell: Doorbell::new()?,
                shows,
            })
        };
        let places = shows.into_iter().map(place);
        let all = Arc::new(All {
            shared,
            places: places.collect::<Result<_, Error>>()?,
        });
        let worker = |number| Self {
            all: all.clone(),
            number,
        };
        Ok((0..all.places.len()).map(worker).collect())
    }

    /// Loops in all.
    pub fn count(&self) -> usize {
        self.all.places.len()
    }

    /// Which one it is, from 0 on.
    pub fn number(&self) -> usize {
        self.number
    }

    /// It is the first one.
    pub fn is_first(&self) -> bool {
        self.number == 0
    }

    /// What all share.
    pub fn shared(&self) -> &S {
        &self.all.shared
    }

    /// What this one shows.
    pub fn shows(&self) -> &P {
        &self.all.places[self.number].shows
    }

    /// What each shows.
    pub fn all_show(&self) -> impl Iterator<Item = &P> {
        self.all.places.iter().map(|place| &place.shows)
    }

    /// Readable when something was asked of this one.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.all.places[self.number].doorbell.waker.as_fd()
    }

    /// What was asked of this one since the last call.
    #[inline]
    pub fn take_asked(&self) -> u32 {
        self.all.places[self.number].doorbell.take()
    }

    /// Asks one for something.
    pub fn ask(&self, number: usize, what: u32) {
        self.all.places[number].doorbell.ring(what);
    }

    /// Asks all others for something.
    pub fn ask_others(&self, what: u32) {
        let others = (0..self.count()).filter(|&number| number != self.number);
        others.for_each(|number| self.ask(number, what));
    }
}

/// A loop's thread.
#[derive(Debug)]
pub struct Thread<'scope, T> {
    core: usize,
    handle: ScopedJoinHandle<'scope, Result<T, Error>>,
}

impl<'scope, T: Send + 'scope> Thread<'scope, T> {
    /// Starts it on a core.
    ///
    /// # Errors
    ///
    /// There are too many threads already.
    pub fn start(
        scope: &'scope Scope<'scope, '_>,
        core: usize,
        work: impl FnOnce() -> Result<T, Error> + Send + 'scope,
    ) -> Result<Self, Error> {
        let thread = Builder::new().name(format!("core {core}"));
        let started = thread.spawn_scoped(scope, move || {
            affinity::pin(core)?;
            work()
        });
        let handle = started.map_err(|e| Error::io("cannot start a thread", e))?;
        Ok(Self { core, handle })
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// Its own, or that it has panicked; with the core.
    pub fn join(self) -> Result<T, Error> {
        ended(self.core, self.handle.join())
    }
}

/// The threads of the loops but the first. When this is dropped, however that comes, they are asked to end, and waited for.
#[derive(Debug)]
pub struct Threads<'scope, 'env, P, S> {
    program: &'static str,
    scope: &'scope Scope<'scope, 'env>,
    first: Worker<P, S>,
    threads: Vec<Thread<'scope, ()>>,
}

/// Tells the first loop that a thread ends, in order or not.
struct Leaving<P, S>(Worker<P, S>);

impl<P, S> Drop for Leaving<P, S> {
    fn drop(&mut self) {
        self.0.ask(0, ONE_LEFT);
    }
}

impl<'scope, 'env, P, S> Threads<'scope, 'env, P, S> {
    /// None yet, of the program of this name.
    pub fn new(
        program: &'static str,
        scope: &'scope Scope<'scope, 'env>,
        first: &Worker<P, S>,
    ) -> Self {
        Self {
            program,
            scope,
            first: first.clone(),
            threads: Vec::new(),
        }
    }

    /// Starts one on a core.
    ///
    /// # Errors
    ///
    /// There are too many threads already.
    pub fn start(
        &mut self,
        core: usize,
        work: impl FnOnce() -> Result<(), Error> + Send + 'scope,
    ) -> Result<(), Error>
    where
        P: Send + Sync + 'scope,
        S: Send + Sync + 'scope,
    {
        let leaving = Leaving(self.first.clone());
        let work = move || {
            let _leaving = leaving;
            work()
        };
        self.threads.push(Thread::start(self.scope, core, work)?);
        Ok(())
    }

    /// How many were started.
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// Asks all to end so, and waits for them.
    ///
    /// # Errors
    ///
    /// That of the first that has ended with one.
    pub fn end(&mut self, how: u32) -> Result<(), Error> {
        self.first.ask_others(how);
        let ended = self.threads.drain(..).map(Thread::join);
        ended.fold(Ok(()), Result::and)
    }
}

impl<P, S> Drop for Threads<'_, '_, P, S> {
    fn drop(&mut self) {
        if let Err(error) = self.end(STOP) {
            crate::warn!("exos {}: {error}", self.program);
        }
    }
}

fn ended<T>(core: usize, joined: std::thread::Result<Result<T, Error>>) -> Result<T, Error> {
    let how = joined.unwrap_or_else(|_| {
        Err(
            Error::new(format!("the thread on core {core} has panicked"))
                .mend("report what it says above, it is an error of the program"),
        )
    });
    how.map_err(|e| Error {
        what: format!("on core {core}: {}", e.what),
        ..e
    })
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    #[test]
    fn what_is_asked_is_heard_once_and_wakes() {
        let workers = Worker::make([3, 5, 7], "shared").unwrap();
        let worker = &workers[1];
        let is_awake = || {
            let fd = worker.fd();
            let mut fds = [PollFd::new(&fd, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
        };
        assert_eq!((worker.take_asked(), is_awake()), (0, false));
        workers[0].ask_others(1);
        workers[2].ask(1, 4);
        assert!(is_awake());
        assert_eq!((worker.take_asked(), is_awake()), (5, false));
        assert_eq!(worker.take_asked(), 0);
        assert_eq!((workers[0].take_asked(), workers[2].take_asked()), (0, 1));
    }

    #[test]
    fn what_is_asked_is_not_heard_before_it_wakes() {
        let doorbell = Doorbell::new().unwrap();
        // Another thread is between its two steps.
        doorbell.asked.store(1, Ordering::Release);
        assert_eq!(doorbell.take(), 0);
        doorbell.waker.wake();
        assert_eq!(doorbell.take(), 1);
        assert!(!doorbell.waker.clear(), "it is not readable any more");
    }

    #[test]
    fn what_is_shown_and_shared() {
        let workers = Worker::make([3, 5, 7], "shared").unwrap();
        let it = workers[1].clone();
        assert_eq!((*it.shows(), it.count(), it.is_first()), (5, 3, false));
        assert!(workers[0].is_first());
        assert_eq!(it.all_show().copied().collect::<Vec<_>>(), [3, 5, 7]);
        assert_eq!(*it.shared(), "shared");
    }

    #[test]
    fn the_end_of_a_thread() {
        let core = affinity::allowed().unwrap()[0];
        std::thread::scope(|scope| {
            let start = |work: Box<dyn FnOnce() -> Result<u32, Error> + Send>| {
                Thread::start(scope, core, work).unwrap().join()
            };
            assert_eq!(start(Box::new(|| Ok(7))).unwrap(), 7);
            let error = start(Box::new(|| Err(Error::new("no queue")))).unwrap_err();
            assert_eq!(error.to_string(), format!("on core {core}: no queue"));
            let error = start(Box::new(|| panic!("of this test"))).unwrap_err();
            let says = format!("core {core} has panicked");
            assert!(error.to_string().contains(&says), "{error}");
        });
    }
}
