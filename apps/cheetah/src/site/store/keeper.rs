//! The thread that reads: it follows the changes of directories, and fetches documents that are asked for.
//!
//! It reads and sums files, however long that takes, and hands over changes by a bounded queue: it waits
//! while that is full, and the event loop takes what is there once a turn. So a checkout of a thousand
//! files costs each turn a few calls, and memory for as many documents as the queue holds.
//!
//! Documents are asked for by a bounded queue too, from any thread; what does not fit stays with who asks. A document
//! that somebody waits for comes before changes that nobody has asked for, but no more than a number of them.
//!
//! After following changes the thread rests for as long as that took: it never takes more than half a core for what
//! nobody waits for. It goes on fetching meanwhile.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::{Change, SitePath, Tree};
use crate::limits::{CHANGES_QUEUED, FETCHES_AT_ONCE, FETCHES_QUEUED, REST_TIME_MAX};
use crate::site::Omission;

/// A change of a site, by its number.
pub type SiteChange = (usize, Change);

/// The changes of directories as they come.
#[derive(Debug)]
pub struct Keeper {
    changes: Option<Receiver<SiteChange>>,
    requests: Requests,
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

/// How the two threads wake one another.
#[derive(Debug)]
struct Signal {
    /// There are changes that the event loop has not been told of.
    news: AtomicBool,
    /// Readable from then on.
    wake: OwnedFd,
    /// Somebody has asked for documents.
    asked: AtomicBool,
    /// Readable from then on.
    ask: OwnedFd,
    /// Readable when the keeper shall end.
    end: OwnedFd,
}

/// Where documents are asked for that are not in memory. Cloning it gives another thread the same.
#[derive(Clone, Debug)]
pub struct Requests {
    sender: SyncSender<(usize, SitePath)>,
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
                tell(&self.signal.asked, &self.signal.ask);
                Ok(())
            }
            // Nobody reads any more: it is the end.
            Err(TrySendError::Disconnected(_)) => Ok(()),
            Err(TrySendError::Full(document)) => Err(document),
        }
    }
}

impl Keeper {
    /// Follows the changes of trees that have been scanned, on any of these cores, for the caller may
    /// have one to itself; `say` hears of files that are left out.
    ///
    /// # Errors
    ///
    /// When there is no thread or descriptor to be had.
    pub fn start(
        trees: Vec<Tree>,
        cores: Vec<usize>,
        say: impl Fn(&Omission) + Send + 'static,
    ) -> io::Result<Keeper> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let signal = Arc::new(Signal {
            news: AtomicBool::new(false),
            wake: eventfd(0, flags)?,
            asked: AtomicBool::new(false),
            ask: eventfd(0, flags)?,
            end: eventfd(0, flags)?,
        });
        let (changed, changes) = sync_channel(CHANGES_QUEUED);
        let (asked, wanted) = sync_channel(FETCHES_QUEUED);
        let theirs = signal.clone();
        let thread = std::thread::Builder::new().name("files".into());
        let thread = thread.spawn(move || {
            // Where it may not, it shares a core.
            let _ = exos_host::affinity::set(&cores);
            let mut work = Work {
                trees,
                wanted,
                changed,
                signal: &theirs,
                say,
                may_be_more: false,
            };
            work.go_on();
        })?;
        let requests = Requests {
            sender: asked,
            signal: signal.clone(),
        };
        Ok(Keeper {
            changes: Some(changes),
            requests,
            signal,
            thread: Some(thread),
        })
    }

    /// Readable when there are changes.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.signal.wake.as_fd()
    }

    /// Where to ask for documents.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The changes since the last call, at most [`CHANGES_QUEUED`]; costs a comparison when there are none.
    pub fn take(&mut self) -> impl Iterator<Item = SiteChange> {
        let is_news = self.signal.news.load(Ordering::Relaxed);
        if is_news {
            // First the mark, then the queue: what comes in between marks again.
            drain(&self.signal.wake);
            self.signal.news.store(false, Ordering::SeqCst);
        }
        let mut left = if is_news { CHANGES_QUEUED } else { 0 };
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            left -= 1;
            let change = self.changes.as_ref()?.try_recv();
            if left == 0 && change.is_ok() {
                tell(&self.signal.news, &self.signal.wake); // There may be more.
            }
            change.ok()
        })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.changes = None; // A keeper that waits for room finds nobody there.
        let _ = rustix::io::write(&self.signal.end, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes a descriptor readable, once until that has been seen.
fn tell(mark: &AtomicBool, fd: &OwnedFd) {
    if !mark.swap(true, Ordering::SeqCst) {
        let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
    }
}

fn drain(fd: &OwnedFd) {
    let _ = rustix::io::read(fd, &mut [0; 8]);
}

/// What the thread has.
struct Work<'a, S> {
    trees: Vec<Tree>,
    wanted: Receiver<(usize, SitePath)>,
    changed: SyncSender<SiteChange>,
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
        let timeout = until.map(|at| timespec(at.saturating_duration_since(Instant::now())));
        // An error is an interruption: look, and wait again.
        let _ = poll(&mut fds, timeout.as_ref());
        fds[0].revents().is_empty()
    }

    /// Reads some of the documents that are asked for.
    fn fetch(&mut self) {
        if self.signal.asked.load(Ordering::Relaxed) {
            // First the mark, then the queue: what comes in between marks again.
            drain(&self.signal.ask);
            self.signal.asked.store(false, Ordering::SeqCst);
        }
        let mut left = FETCHES_AT_ONCE;
        for (site, path) in self.wanted.try_iter().take(FETCHES_AT_ONCE) {
            left -= 1;
            let (changed, signal) = (&self.changed, self.signal);
            let sink = &mut |site, change| say_change(changed, signal, (site, change));
            if let Some(tree) = self.trees.iter_mut().find(|tree| tree.site() == site) {
                tree.fetch(&path, Instant::now(), sink);
                tree.take_omissions().iter().for_each(&self.say);
            }
        }
        self.may_be_more = left == 0;
    }

    /// Looks for changes, and says when to look again at the latest.
    fn follow(&mut self, now: Instant) -> Option<Instant> {
        let (changed, signal) = (&self.changed, self.signal);
        let mut next = None;
        for tree in &mut self.trees {
            let sink = &mut |site, change| say_change(changed, signal, (site, change));
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

/// Hands a change over. An error says that nobody wants changes any more; the next wait will say so too.
fn say_change(changed: &SyncSender<SiteChange>, signal: &Signal, change: SiteChange) {
    if changed.send(change).is_ok() {
        tell(&signal.news, &signal.wake);
    }
}

/// Never shorter than the time given, or the caller would look again too early.
fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}
