//! Files are opened and read without the loop waiting: by io_uring, or by a thread where the kernel has none for us.
//!
//! # Rules of the interface
//!
//! [`Disk::queue`] takes any number of requests; once a turn [`Disk::submit`] starts some of them, and [`Disk::poll`]
//! gives what has come of others, in no order. [`Disk::is_waiting`] says that there is something to submit, and
//! [`Disk::fd`] becomes readable when there is something to be had.
//!
//! In a simulator there is a third backend, [`Disk::here`]: the requests are performed when they are submitted. With
//! [`Disk::by_hand`] somebody else says when.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use exos_host::uring::{FileRing, Outcome, REQUESTS_MAX, Request};
use exos_host::{Waker, affinity};

use crate::limits::READS_AT_ONCE;

/// What opens and reads files.
pub struct Disk {
    backend: Backend,
    queued: VecDeque<(u64, Request)>,
}

enum Backend {
    Ring(Box<FileRing>),
    Thread(Helper),
    Here(Hand),
}

impl Disk {
    /// A ring, or else a thread, with the reason why there is no ring. What is done on other threads is done on these
    /// cores.
    ///
    /// # Errors
    ///
    /// There is neither.
    pub fn start(cores: &[usize]) -> io::Result<(Disk, Option<io::Error>)> {
        match Disk::ring(cores) {
            Ok(disk) => Ok((disk, None)),
            Err(reason) => Ok((Disk::thread(cores)?, Some(reason))),
        }
    }

    /// By io_uring; for the calling thread.
    ///
    /// # Errors
    ///
    /// The kernel has none, or none for this process.
    pub fn ring(cores: &[usize]) -> io::Result<Disk> {
        Ok(Disk::of(Backend::Ring(Box::new(FileRing::new(cores)?))))
    }

    /// By a thread, which waits.
    ///
    /// # Errors
    ///
    /// There is no thread or descriptor to be had.
    pub fn thread(cores: &[usize]) -> io::Result<Disk> {
        Ok(Disk::of(Backend::Thread(Helper::start(cores)?)))
    }

    /// By the caller, who waits: for a simulator.
    pub fn here() -> Disk {
        Disk::of(Backend::Here(Hand::default()))
    }

    /// As [`Disk::here`], but no request is performed before the hand says so.
    pub fn by_hand() -> (Disk, Hand) {
        let hand = Hand::default();
        hand.0.borrow_mut().holds = true;
        (Disk::of(Backend::Here(hand.clone())), hand)
    }

    fn of(backend: Backend) -> Disk {
        let queued = VecDeque::new();
        Disk { backend, queued }
    }

    /// Takes a request; `tag` comes back with its outcome.
    pub fn queue(&mut self, tag: u64, request: Request) {
        self.queued.push_back((tag, request));
    }

    /// Starts requests, few enough that what is copied from memory right here takes no longer than other turns do.
    pub fn submit(&mut self) {
        let most = READS_AT_ONCE.min(self.queued.len());
        match &mut self.backend {
            Backend::Ring(ring) => {
                let most = most.min(ring.room());
                (self.queued.drain(..most)).for_each(|(tag, request)| ring.queue(tag, request));
                // It fails for want of memory: what is queued is submitted in the next turn.
                let _ = ring.submit();
            }
            Backend::Thread(helper) => {
                let most = most.min(REQUESTS_MAX - helper.under_way);
                self.queued.drain(..most).for_each(|job| helper.give(job));
            }
            Backend::Here(hand) => {
                let mut hand = hand.0.borrow_mut();
                hand.waiting.extend(self.queued.drain(..most));
                let most = if hand.holds { 0 } else { usize::MAX };
                hand.perform(most);
            }
        }
    }

    /// The outcome of a request, with its tag.
    pub fn poll(&mut self) -> Option<(u64, Outcome)> {
        match &mut self.backend {
            Backend::Ring(ring) => ring.poll(),
            Backend::Thread(helper) => helper.take(),
            Backend::Here(hand) => hand.0.borrow_mut().done.pop_front(),
        }
    }

    /// True when the next turn has something to submit, or outcomes to take.
    pub fn is_waiting(&mut self) -> bool {
        match &mut self.backend {
            Backend::Ring(ring) => {
                (!self.queued.is_empty() && ring.room() > 0) || ring.wants_submit()
            }
            Backend::Thread(helper) => !self.queued.is_empty() && helper.under_way < REQUESTS_MAX,
            Backend::Here(hand) => !self.queued.is_empty() || !hand.0.borrow().done.is_empty(),
        }
    }

    /// Readable when there are outcomes.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.backend {
            Backend::Ring(ring) => Some(ring.fd()),
            Backend::Thread(helper) => Some(helper.waker.as_fd()),
            Backend::Here(_) => None,
        }
    }

    /// What it is, for people.
    pub fn name(&self) -> &'static str {
        match &self.backend {
            Backend::Ring(_) => "io_uring",
            Backend::Thread(_) => "a thread",
            Backend::Here(_) => "the loop itself",
        }
    }
}

/// A thread that waits for files. It ends when nobody has requests any more.
struct Helper {
    requests: Sender<(u64, Request)>,
    outcomes: Receiver<(u64, Outcome)>,
    /// It is woken when there are outcomes.
    waker: Arc<Waker>,
    under_way: usize,
}

impl Helper {
    fn start(cores: &[usize]) -> io::Result<Helper> {
        let waker = Arc::new(Waker::new()?);
        let (requests, theirs) = channel::<(u64, Request)>();
        let (sender, outcomes) = channel();
        let wakes = waker.clone();
        affinity::spawn("disk", cores, move || {
            for (tag, request) in theirs {
                if sender.send((tag, request.perform())).is_err() {
                    return;
                }
                wakes.wake();
            }
        })?;
        Ok(Helper {
            requests,
            outcomes,
            waker,
            under_way: 0,
        })
    }

    fn give(&mut self, job: (u64, Request)) {
        self.under_way += 1;
        // The thread ends after us.
        let _ = self.requests.send(job);
    }

    fn take(&mut self) -> Option<(u64, Outcome)> {
        if self.under_way == 0 {
            return None;
        }
        if let Ok(outcome) = self.outcomes.try_recv() {
            self.under_way -= 1;
            return Some(outcome);
        }
        self.waker.clear();
        let outcome = self.outcomes.try_recv().ok()?;
        self.under_way -= 1;
        self.waker.wake(); // There may be more.
        Some(outcome)
    }
}

/// Who performs the requests of a [`Disk::by_hand`].
#[derive(Clone, Default)]
pub struct Hand(Rc<RefCell<Held>>);

#[derive(Default)]
struct Held {
    holds: bool,
    waiting: VecDeque<(u64, Request)>,
    done: VecDeque<(u64, Outcome)>,
}

impl Held {
    fn perform(&mut self, most: usize) {
        let count = most.min(self.waiting.len());
        let jobs = self.waiting.drain(..count);
        self.done
            .extend(jobs.map(|(tag, request)| (tag, request.perform())));
    }
}

impl Hand {
    /// Performs up to this many requests, in the order in which they came; returns how many are left.
    pub fn perform(&self, most: usize) -> usize {
        let mut held = self.0.borrow_mut();
        held.perform(most);
        held.waiting.len()
    }
}
