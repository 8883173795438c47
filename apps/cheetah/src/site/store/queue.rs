//! The changes on their way to one core: a bounded queue, and a bell that wakes its loop.
//!
//! The keeper waits while a queue is full. The loop never waits: it takes all that is there, once a turn, and pays one
//! comparison when there is nothing. Either side may end it, whatever the other does.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use exos_host::Waker;

use super::change::Change;
use crate::limits::CHANGES_QUEUED;

/// A change of a site, by its number.
pub type SiteChange = (usize, Change);

#[derive(Debug)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// There is room, or it has ended.
    room: Condvar,
    /// It is woken when there are changes that the loop has not taken.
    waker: Waker,
}

#[derive(Debug, Default)]
struct Waiting {
    changes: VecDeque<SiteChange>,
    ended: bool,
}

/// The keeper's end.
#[derive(Clone, Debug)]
pub(super) struct Outlet(Arc<Queue>);

/// A core's end: the changes as they come.
#[derive(Debug)]
pub struct Changes(Arc<Queue>);

/// Both ends of a queue.
pub(super) fn queue() -> io::Result<(Outlet, Changes)> {
    let queue = Arc::new(Queue {
        waiting: Mutex::default(),
        room: Condvar::new(),
        waker: Waker::new()?,
    });
    Ok((Outlet(queue.clone()), Changes(queue)))
}

impl Queue {
    /// Nothing is left half done by the one that panics with the lock.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.lock().ended = true;
        self.room.notify_all();
    }
}

impl Outlet {
    /// Hands over a change, as soon as there is room; it is dropped when the queue has ended.
    pub(super) fn send(&self, change: SiteChange) {
        let queue = &*self.0;
        let is_full =
            |waiting: &mut Waiting| waiting.changes.len() >= CHANGES_QUEUED && !waiting.ended;
        let waiting = queue.room.wait_while(queue.lock(), is_full);
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        if waiting.ended {
            return;
        }
        waiting.changes.push_back(change);
        queue.waker.wake();
    }

    /// Hands over no more, and waits no more for room.
    pub(super) fn end(&self) {
        self.0.end();
    }
}

impl Changes {
    /// Readable when there are changes.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.waker.as_fd()
    }

    /// The changes since the last call, at most [`CHANGES_QUEUED`]; costs a comparison when there are none.
    pub fn take(&mut self) -> impl Iterator<Item = SiteChange> + use<> {
        let queue = &*self.0;
        if !queue.waker.clear() {
            return VecDeque::new().into_iter();
        }
        let mut waiting = queue.lock();
        let changes = std::mem::take(&mut waiting.changes);
        drop(waiting);
        queue.room.notify_all();
        changes.into_iter()
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.0.end();
        // Somebody may wait on the descriptor yet, which is open for as long as the keeper has the other end.
        self.0.waker.clear();
    }
}

/// Hands a change over to each who listens, when there is room.
pub(super) fn say_to_all(outlets: &[Outlet], change: SiteChange) {
    outlets
        .iter()
        .for_each(|outlet| outlet.send(change.clone()));
}
