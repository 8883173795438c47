//! What the forwarding thread and those who ask it share: requests one way, statistics the other.
//!
//! The forwarding thread looks at one word in each turn and is woken through a descriptor when it sleeps; it
//! never waits for anybody. The asker waits, for a bounded time.

use super::statistics::DirectionReport;
use crate::limits::ANSWER_TIMEOUT;
use exos_host::{Error, Result, Waker, error::Context as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What the forwarding thread says of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// By the side that sends: a, b.
    pub(super) directions: [DirectionReport; 2],
    /// Processor time that the thread used, in seconds.
    pub(super) cpu_seconds: f64,
}

#[derive(Debug, Default)]
struct State {
    snapshot: Snapshot,
    /// How many snapshots there were.
    serial: u64,
    /// How forwarding ended.
    end: Option<std::result::Result<(), String>>,
}

/// Shared by the threads of one emulator.
#[derive(Debug)]
pub(super) struct Shared {
    stop: AtomicBool,
    wanted: AtomicBool,
    waker: Waker,
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            stop: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
            waker: Waker::new().context(|| "cannot make a descriptor to be woken by")?,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    // For the forwarding thread.

    /// Readable when there is something to look at.
    pub(super) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    /// True when forwarding is to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// True once for each time that somebody asks for statistics.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Relaxed)
    }

    /// Takes note of having been woken.
    pub(super) fn woken(&self) {
        self.waker.clear();
    }

    /// Answers everybody who asked.
    pub(super) fn publish(&self, snapshot: Snapshot) {
        let mut state = self.lock();
        state.snapshot = snapshot;
        state.serial += 1;
        self.changed.notify_all();
    }

    /// Says how forwarding ended; after its last snapshot.
    pub(super) fn end(&self, end: std::result::Result<(), String>) {
        self.lock().end = Some(end);
        self.changed.notify_all();
    }

    // For those who ask.

    /// Has forwarding end.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    /// The numbers of now, or the last ones when forwarding has ended.
    pub(super) fn snapshot(&self) -> Result<Snapshot> {
        let before = self.lock().serial;
        self.wanted.store(true, Ordering::Relaxed);
        self.waker.wake();
        let state = self.wait(|state| state.serial > before || state.end.is_some())?;
        Ok(state.snapshot.clone())
    }

    /// Waits until forwarding has ended; how.
    pub(super) fn ended(&self) -> Result<std::result::Result<(), String>> {
        let state = self.wait(|state| state.end.is_some())?;
        Ok(state.end.clone().expect("waited for"))
    }

    fn wait(&self, until: impl Fn(&State) -> bool) -> Result<MutexGuard<'_, State>> {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let mut state = self.lock();
        while !until(&state) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::new("the emulator does not answer")
                    .mend("the machine is overloaded: try again"));
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(state)
    }

    /// Nothing panics while it holds the lock, and every state is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
