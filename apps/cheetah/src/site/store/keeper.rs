//! The thread that reads: it follows the changes of directories, and fetches documents that are asked for.
//!
//! It reads and sums files, however long that takes, and hands over changes by bounded [`queue`](super::queue)s, one for
//! each core that serves: it waits while one is full, and each event loop takes what is there once a turn. So a checkout of
//! a thousand files costs each turn a few calls, and memory for as many documents as a queue holds: their bytes are
//! the same for all cores. A core that is slow to take changes holds back those of all, and nobody's requests.
//!
//! Documents are asked for by a bounded queue too, from any thread; what does not fit stays with who asks. A document
//! that somebody waits for comes before changes that nobody has asked for, but no more than a number of them.
//!
//! What is kept of upstreams' answers ([`crate::caching`]) is in the memory that documents have, so its account is here too: it comes by a
//! bounded queue, and all cores hear of it as they do of documents. What is to be forgotten of it waits for one file at most.
//!
//! After following changes the thread rests for as long as that took: it never takes more than half a core for what
//! nobody waits for. It goes on fetching meanwhile.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use exos_host::{Waker, affinity};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::cache::SharedCache;
use super::change::Change;
use super::passwords::Passwords;
use super::queue::{Changes, Outlet, queue, say_to_all};
use super::tree::Tree;
use crate::caching::keeping::{Errand, Keeping};
use crate::limits::{ERRANDS_QUEUED, FETCHES_AT_ONCE, FETCHES_QUEUED, REST_TIME_MAX};
use crate::site::load::Omission;
use crate::site::path::SitePath;
use crate::site::rules::access::is_password;

/// What keeps the thread at work: it ends when this is dropped.
#[derive(Debug)]
pub struct Keeper {
    outlets: Vec<Outlet>,
    requests: Requests,
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

/// How the thread is woken.
#[derive(Debug)]
struct Signal {
    /// Somebody has asked for documents.
    ask: Waker,
    /// The keeper shall end.
    end: Waker,
}

/// Where documents are asked for that are not in memory. Cloning it gives another thread the same.
#[derive(Clone, Debug)]
pub struct Requests {
    sender: SyncSender<(usize, SitePath)>,
    errands: SyncSender<Errand>,
    signal: Arc<Signal>,
}

impl Requests {
    /// Asks for a document of a site, by its number; what becomes of it is a change. Gives it back when too many are
    /// asked for: there is room again when some changes have come.
    ///
    /// # Errors
    ///
    /// The document, when there is no room.
    pub fn ask(&self, site: usize, path: SitePath) -> Result<(), (usize, SitePath)> {
        match self.sender.try_send((site, path)) {
            Ok(()) => {
                self.signal.ask.wake();
                Ok(())
            }
            // Nobody reads any more: it is the end.
            Err(TrySendError::Disconnected(_)) => Ok(()),
            Err(TrySendError::Full(document)) => Err(document),
        }
    }

    /// Has something done about the answers that are kept. Gives it back when there is no room for the moment.
    ///
    /// # Errors
    ///
    /// The errand, when there is no room.
    pub fn send(&self, errand: Errand) -> Result<(), Errand> {
        match self.errands.try_send(errand) {
            Ok(()) => {
                self.signal.ask.wake();
                Ok(())
            }
            Err(TrySendError::Disconnected(_)) => Ok(()),
            Err(TrySendError::Full(errand)) => Err(errand),
        }
    }
}

impl Keeper {
    /// Follows the changes of trees that have been scanned, on any of these cores, for the caller may
    /// have one to itself; gives as many who hear of all changes as there are `listeners`. What is kept of answers is in `cache`, where their
    /// documents are. `say` hears of files that are left out.
    ///
    /// # Errors
    ///
    /// When there is no thread or descriptor to be had.
    pub fn start(
        trees: Vec<Tree>,
        cache: SharedCache,
        cores: Vec<usize>,
        listeners: usize,
        say: impl Fn(&Omission) + Send + 'static,
    ) -> io::Result<(Keeper, Vec<Changes>)> {
        let signal = Arc::new(Signal {
            ask: Waker::new()?,
            end: Waker::new()?,
        });
        let queues: io::Result<Vec<_>> = (0..listeners).map(|_| queue()).collect();
        let (outlets, changes): (Vec<_>, _) = queues?.into_iter().unzip();
        let its_outlets = outlets.clone();
        let passwords = Passwords::start(&trees, &cores, &outlets)?;
        let (asked, wanted) = sync_channel(FETCHES_QUEUED);
        let (sent, errands) = sync_channel(ERRANDS_QUEUED);
        let theirs = signal.clone();
        let thread = affinity::spawn("files", &cores, move || {
            let mut work = Work {
                trees,
                wanted,
                errands: Errands {
                    new: errands,
                    later: VecDeque::new(),
                },
                keeping: Keeping::new(cache),
                passwords,
                outlets: its_outlets,
                signal: &theirs,
                say,
                may_be_more: false,
            };
            work.go_on();
        })?;
        let requests = Requests {
            sender: asked,
            errands: sent,
            signal: signal.clone(),
        };
        let keeper = Keeper {
            outlets,
            requests,
            signal,
            thread: Some(thread),
        };
        Ok((keeper, changes))
    }

    /// Where to ask for documents.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.outlets.iter().for_each(Outlet::end);
        self.signal.end.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What is wanted about answers.
struct Errands {
    new: Receiver<Errand>,
    /// What can wait until a document was read, no more than there may be new ones.
    later: VecDeque<Errand>,
}

impl Errands {
    /// Does some of what is wanted; true when there may be more.
    fn run(&mut self, keeping: &mut Keeping, outlets: &[Outlet]) -> bool {
        let mut left = 2 * ERRANDS_QUEUED;
        for errand in self.later.drain(..).chain(self.new.try_iter()).take(left) {
            left -= 1;
            keeping.run(errand, &mut |site, change| {
                say_to_all(outlets, (site, change))
            });
        }
        left == 0
    }

    /// Has forgotten what is to be. What is to be kept waits: it may be of what the memory for documents is being told.
    fn forget(&mut self, keeping: &mut Keeping, outlets: &[Outlet]) {
        while self.later.len() < ERRANDS_QUEUED
            && let Ok(errand) = self.new.try_recv()
        {
            match errand.forgets() {
                true => {
                    keeping.run(errand, &mut |site, change| {
                        say_to_all(outlets, (site, change))
                    });
                }
                false => self.later.push_back(errand),
            }
        }
    }
}

/// What the thread has.
struct Work<'a, S> {
    trees: Vec<Tree>,
    wanted: Receiver<(usize, SitePath)>,
    errands: Errands,
    /// The account of answers.
    keeping: Keeping,
    passwords: Passwords,
    outlets: Vec<Outlet>,
    signal: &'a Signal,
    say: S,
    /// Requests may be in the queue of which no mark tells.
    may_be_more: bool,
}

impl<S: Fn(&Omission)> Work<'_, S> {
    /// Works until it shall end.
    fn go_on(&mut self) {
        let mut until = Some(Instant::now()); // What has changed since the scan.
        while self.wait(true, until) {
            self.fetch();
            let begun = Instant::now();
            let next = self.follow(begun);
            let worked = begun.elapsed();
            if worked > Duration::from_millis(1) && !self.rest(worked.min(REST_TIME_MAX)) {
                return;
            }
            until = next;
        }
    }

    /// Waits for requests, for notices if it is to follow changes, or a time; false when the thread shall end.
    fn wait(&self, is_following: bool, until: Option<Instant>) -> bool {
        let mut fds = vec![
            PollFd::new(&self.signal.end, PollFlags::IN),
            PollFd::new(&self.signal.ask, PollFlags::IN),
        ];
        if is_following {
            let watches = self.trees.iter().filter_map(Tree::watch);
            fds.extend(watches.map(|watch| PollFd::from_borrowed_fd(watch.fd(), PollFlags::IN)));
        }
        let until = if self.may_be_more {
            Some(Instant::now())
        } else {
            until
        };
        let left = until.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        // An error is an interruption: look, and wait again.
        let _ = poll(&mut fds, timeout.as_ref());
        fds[0].revents().is_empty()
    }

    /// Reads some of the documents that are asked for, and does what is wanted about answers.
    fn fetch(&mut self) {
        self.signal.ask.clear();
        let outlets = &self.outlets;
        let has_errands = self.errands.run(&mut self.keeping, outlets);
        let mut left = FETCHES_AT_ONCE;
        for (site, path) in self.wanted.try_iter().take(FETCHES_AT_ONCE) {
            left -= 1;
            let (keeping, errands) = (&mut self.keeping, &mut self.errands);
            let sink = &mut |site, change| {
                keeping.hear(site, &change);
                say_to_all(outlets, (site, change));
                errands.forget(keeping, outlets);
            };
            if is_password(&path) {
                if !self.passwords.ask(site, path.clone()) {
                    sink(site, Change::Failed(path));
                }
            } else if let Some(tree) = self.trees.iter_mut().find(|tree| tree.site() == site) {
                tree.fetch(&path, Instant::now(), sink);
                tree.take_omissions().iter().for_each(&self.say);
            }
        }
        self.may_be_more = left == 0 || has_errands;
    }

    /// Looks for changes, and says when to look again at the latest.
    fn follow(&mut self, now: Instant) -> Option<Instant> {
        let outlets = &self.outlets;
        let mut next = None;
        for tree in &mut self.trees {
            let (keeping, errands) = (&mut self.keeping, &mut self.errands);
            let sink = &mut |site, change| {
                keeping.hear(site, &change);
                say_to_all(outlets, (site, change));
                errands.forget(keeping, outlets);
            };
            next = tree.poll(now, sink).into_iter().chain(next).min();
            tree.take_omissions().iter().for_each(&self.say);
        }
        next
    }

    /// Does nothing for a time but fetch; false when the thread shall end.
    fn rest(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while Instant::now() < until {
            if !self.wait(false, Some(until)) {
                return false;
            }
            self.fetch();
        }
        true
    }
}
