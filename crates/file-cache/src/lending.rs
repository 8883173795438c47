//! What the threads of a program see of its [`Lender`](crate::Lender) without asking the one that has the membership.

use crate::limits::SHARE_REST;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Of its share a program keeps this part at most: the rest is for what it has given up and still uses, and for what comes.
const KEPT_PART: u64 = 2;

/// What others may see without asking.
#[derive(Default)]
pub(crate) struct State {
    /// Bytes of buffers that are lent.
    pub lent: AtomicU64,
    /// The thread is told already that something came back.
    pub is_told: AtomicBool,
    /// Memberships that are over.
    pub ended: AtomicU64,
    limit: Mutex<Limit>,
    /// When who asked for what is read now stops waiting.
    due: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Limit {
    /// There while there is a membership.
    share: Option<u64>,
    /// Less than half of the share is kept until then.
    squeezed: Option<(u64, Instant)>,
}

impl State {
    /// Bytes of buffers that may be kept, where that is known.
    pub fn limit(&self) -> Option<u64> {
        let limit = locked(&self.limit);
        let kept = limit.share? / KEPT_PART;
        let squeezed = limit.squeezed.filter(|(_, until)| Instant::now() < *until);
        Some(squeezed.map_or(kept, |(bytes, _)| bytes.min(kept)))
    }

    pub fn set_share(&self, share: Option<u64>) {
        *locked(&self.limit) = Limit {
            share,
            squeezed: None,
        };
    }

    /// For a while no more is kept than now.
    pub fn squeeze(&self) {
        let kept = self.limit().unwrap_or(0);
        let bytes = kept.min(self.lent.load(Ordering::Relaxed));
        locked(&self.limit).squeezed = Some((bytes, Instant::now() + SHARE_REST));
    }

    /// Something is read that somebody waits for until then, or nothing.
    pub fn set_due(&self, due: Option<Instant>) {
        *locked(&self.due) = due;
    }

    /// Who asks would wait behind another who does not any more.
    pub fn is_late(&self) -> bool {
        locked(&self.due).is_some_and(|due| due <= Instant::now())
    }
}

/// Each is one value, which no panic leaves half written.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
