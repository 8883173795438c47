//! The thread that follows a directory's changes.
//!
//! It reads and sums files, however long that takes, and hands over changes by a bounded queue: it waits
//! while that is full, and the event loop takes what is there once a turn. So a checkout of a thousand
//! files costs each turn a few calls, and memory for as many documents as the queue holds.
//!
//! After work the thread rests for as long as it has worked: it never takes more than half a core.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::{Change, Tree};
use crate::limits::{CHANGES_QUEUED, REST_TIME_MAX};
use crate::site::Omission;

/// A directory's changes as they come.
#[derive(Debug)]
pub struct Keeper {
    changes: Option<Receiver<Change>>,
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
    /// Readable when the keeper shall end.
    end: OwnedFd,
}

impl Keeper {
    /// Follows the changes of a tree that has been scanned, on any of these cores, for the caller may
    /// have one to itself; `say` hears of files that are left out.
    ///
    /// # Errors
    ///
    /// When there is no thread or descriptor to be had.
    pub fn start(
        tree: Tree,
        cores: Vec<usize>,
        say: impl Fn(&Omission) + Send + 'static,
    ) -> io::Result<Keeper> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let signal = Arc::new(Signal {
            news: AtomicBool::new(false),
            wake: eventfd(0, flags)?,
            end: eventfd(0, flags)?,
        });
        let (sender, changes) = sync_channel(CHANGES_QUEUED);
        let theirs = signal.clone();
        let thread = std::thread::Builder::new().name("files".into());
        let thread = thread.spawn(move || {
            // Where it may not, it shares a core.
            let _ = exos_host::affinity::set(&cores);
            follow(tree, &sender, &theirs, say);
        })?;
        Ok(Keeper {
            changes: Some(changes),
            signal,
            thread: Some(thread),
        })
    }

    /// Readable when there are changes.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.signal.wake.as_fd()
    }

    /// The changes since the last call, at most [`CHANGES_QUEUED`]; costs a comparison when there are none.
    pub fn take(&mut self) -> impl Iterator<Item = Change> {
        let is_news = self.signal.news.load(Ordering::Relaxed);
        if is_news {
            // First the mark, then the queue: what comes in between marks again.
            self.signal.drain();
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
                self.signal.tell(); // There may be more.
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

impl Signal {
    fn tell(&self) {
        if !self.news.swap(true, Ordering::SeqCst) {
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    fn drain(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }

    /// Waits for notices or a time; false when the keeper shall end.
    fn wait(&self, watch: Option<BorrowedFd<'_>>, until: Option<Instant>) -> bool {
        let mut fds = vec![PollFd::new(&self.end, PollFlags::IN)];
        fds.extend(watch.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let timeout = until.map(|at| timespec(at.saturating_duration_since(Instant::now())));
        // An error is an interruption: look, and wait again.
        let _ = poll(&mut fds, timeout.as_ref());
        fds[0].revents().is_empty()
    }
}

fn follow(
    mut tree: Tree,
    sender: &SyncSender<Change>,
    signal: &Signal,
    say: impl Fn(&Omission) + Send,
) {
    let mut until = Some(Instant::now()); // What has changed since the scan.
    while signal.wait(tree.watch().map(|watch| watch.fd()), until) {
        let begun = Instant::now();
        let next = tree.poll(begun, &mut |change| {
            // An error says that nobody wants changes any more; `wait` will say so too.
            if sender.send(change).is_ok() {
                signal.tell();
            }
        });
        tree.take_omissions().iter().for_each(&say);
        let worked = begun.elapsed();
        if worked > Duration::from_millis(1)
            && !signal.wait(None, Some(Instant::now() + worked.min(REST_TIME_MAX)))
        {
            return;
        }
        until = next;
    }
}

/// Never shorter than the time given, or the caller would look again too early.
fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}
