//! Waiting for one socket, in a call that may.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

use crate::memory::options::NONBLOCK;
use crate::process::Found;
use crate::system::{self, EAGAIN, EINTR, MSG_DONTWAIT};

/// Until when a call may wait.
pub struct Patience {
    may_wait: bool,
    until: Option<Instant>,
}

impl Patience {
    /// Of a call with these flags (`MSG_DONTWAIT`), and the socket's time limit.
    pub fn new(found: Found, flags: i32, limit: &AtomicU32) -> Self {
        let limit = limit.load(Ordering::Relaxed);
        let limit = (limit > 0).then(|| Duration::from_millis(limit.into()));
        Self {
            may_wait: flags & MSG_DONTWAIT == 0 && !found.socket().has(NONBLOCK),
            until: limit.map(|limit| Instant::now() + limit),
        }
    }

    pub fn may_wait(&self) -> bool {
        self.may_wait
    }

    /// Waits until the word is changed, unless `ready` holds already.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: it may not wait, or not any longer; `EINTR`.
    pub fn wait(
        &self,
        found: Found,
        (word, waiters): (&AtomicU32, &'static AtomicU32),
        ready: impl Fn() -> bool,
    ) -> Result<(), i32> {
        if !self.may_wait {
            return Err(EAGAIN);
        }
        let left = self
            .until
            .map(|until| until.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(EAGAIN);
        }
        waiters.fetch_add(1, Ordering::SeqCst);
        let before = word.load(Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let went_on = ready() || {
            found.here.let_go();
            let left = left.map(|left| left.as_millis() as u64 + 1);
            cancellable(waiters, || found.here.shared.wait_on(word, before, left))
        };
        waiters.fetch_sub(1, Ordering::SeqCst);
        match went_on {
            true => Ok(()),
            false => Err(EINTR),
        }
    }
}

/// The count of those that wait in which this thread is, while it can be cancelled.
struct Counted(Cell<Option<&'static AtomicU32>>);

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(waiters) = self.0.take() {
            waiters.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

thread_local! {
    static COUNTED: Counted = const { Counted(Cell::new(None)) };
}

/// Waits where the thread may be cancelled (pthread_cancel(3)): it ends there, in the middle of `wait`, past all that its callers would
/// do or drop.
fn cancellable(waiters: &'static AtomicU32, wait: impl FnOnce() -> bool) -> bool {
    const AT_ONCE: i32 = 1;
    let mut kind = 0;
    // Not kept when it is at its end, where nobody cancels it.
    let _ = COUNTED.try_with(|counted| counted.0.set(Some(waiters)));
    // SAFETY: the thread's own; nothing is locked, and what it leaves behind here needs no dropping.
    unsafe { system::pthread_setcanceltype(AT_ONCE, &mut kind) };
    let went_on = wait();
    // SAFETY: as above.
    unsafe { system::pthread_setcanceltype(kind, std::ptr::null_mut()) };
    let _ = COUNTED.try_with(|counted| counted.0.set(None));
    went_on
}

/// Until when a time limit lasts; one that is longer than time is none.
pub fn until(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}
