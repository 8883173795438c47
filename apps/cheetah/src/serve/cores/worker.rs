//! The cores of one server: what they ask of one another, and what each says of itself.
//!
//! The first one leads: it hears signals, has everything read again, and prints; the others are asked. No request touches
//! anything here.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use exos::Error;
use exos_program::workers;

use crate::serve::content::files::Feed;
use crate::serve::content::sites::Fresh;
use crate::status::Row;

/// What a core may be asked or told, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct Asks(u32);

impl Asks {
    /// End in order.
    pub(in crate::serve) const STOP: Asks = Asks(workers::STOP);
    /// Show your numbers ([`Worker::show`]).
    pub(in crate::serve) const SHOW: Asks = Asks(4);
    /// There is something in the inbox.
    pub(in crate::serve) const INBOX: Asks = Asks(8);
    /// To the first: all others have shown their numbers.
    pub(in crate::serve) const ALL_SHOWN: Asks = Asks(16);
    /// To the first: all cores have exchanged their sites.
    pub(in crate::serve) const ALL_EXCHANGED: Asks = Asks(32);
    /// To the first: a core ends, or has ended.
    pub(in crate::serve) const ONE_LEFT: Asks = Asks(workers::ONE_LEFT);
    /// To the first: nothing is left on any core of the sites that were exchanged.
    pub(in crate::serve) const ALL_EMPTIED: Asks = Asks(64);
    /// No core has a connection any more.
    const ALL_ENDED: Asks = Asks(128);

    /// An application may have another request, of yours.
    pub(in crate::serve) const PERMITS: Asks = Asks(256);

    /// As a word that is asked.
    pub(in crate::serve) const fn bits(self) -> u32 {
        self.0
    }

    pub(in crate::serve) fn contains(self, other: Asks) -> bool {
        self.0 & other.0 != 0
    }
}

/// What is brought to a core.
#[derive(Default)]
pub(in crate::serve) struct Inbox {
    /// Documents to be served instead of all others.
    pub(in crate::serve) fresh: Option<Fresh>,
    /// From now on, this tells of their changes.
    pub(in crate::serve) feed: Option<Feed>,
}

/// Where a loop runs.
#[derive(Clone, Debug, Default)]
pub(in crate::serve) struct Place {
    /// The processor.
    pub(in crate::serve) core: usize,
    /// The interface, where there are several.
    pub(in crate::serve) interface: Option<String>,
}

/// What the others see of a core.
pub(in crate::serve) struct Shows {
    place: Place,
    inbox: Mutex<Inbox>,
    row: Mutex<Row>,
}

/// How many cores have not done yet what all were asked, and how many cannot serve now.
#[derive(Default)]
pub(in crate::serve) struct Left {
    /// Shown their numbers.
    to_show: AtomicUsize,
    /// Exchanged their sites.
    to_exchange: AtomicUsize,
    /// Taken apart the old ones.
    to_empty: AtomicUsize,
    /// The interface failed.
    cut_off: AtomicUsize,
    /// Loops that serve, or whose connections are ending.
    serving: AtomicUsize,
}

/// The threads of the cores but the first.
pub(in crate::serve) type Threads<'scope, 'env> = workers::Threads<'scope, 'env, Shows, Left>;

/// A core among all.
#[derive(Clone)]
pub(in crate::serve) struct Worker(workers::Worker<Shows, Left>);

/// A core that serves, or whose connections are ending; when this is dropped they have ended.
pub(in crate::serve) struct Serving(Worker);

impl Drop for Serving {
    fn drop(&mut self) {
        if self.0.0.shared().serving.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ask_others(Asks::ALL_ENDED);
        }
    }
}

impl Worker {
    /// One for each of these places.
    pub(in crate::serve) fn make(
        places: impl IntoIterator<Item = Place>,
    ) -> Result<Vec<Worker>, Error> {
        let shows = places.into_iter().map(|place| Shows {
            place,
            inbox: Mutex::default(),
            row: Mutex::default(),
        });
        let workers = workers::Worker::make(shows, Left::default())?;
        Ok(workers.into_iter().map(Worker).collect())
    }

    /// Cores in all.
    pub(in crate::serve) fn count(&self) -> usize {
        self.0.count()
    }

    /// Which one this is, from 0 on.
    pub(in crate::serve) fn number(&self) -> usize {
        self.0.number()
    }

    /// Where this one runs.
    pub(in crate::serve) fn place(&self) -> &Place {
        &self.0.shows().place
    }

    /// This is the first core's.
    pub(in crate::serve) fn is_first(&self) -> bool {
        self.0.is_first()
    }

    /// Readable when something was asked.
    pub(in crate::serve) fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    /// What was asked since the last call.
    #[inline]
    pub(in crate::serve) fn take_asks(&self) -> Asks {
        Asks(self.0.take_asked())
    }

    /// Asks all cores but this one.
    pub(in crate::serve) fn ask_others(&self, what: Asks) {
        self.0.ask_others(what.0);
    }

    /// Asks one core, by its number.
    pub(in crate::serve) fn ask(&self, number: usize, what: Asks) {
        self.0.ask(number, what.0);
    }

    /// Tells the first core.
    pub(in crate::serve) fn tell_first(&self, what: Asks) {
        self.0.ask(0, what.0);
    }

    /// Tells the first core when this was the last one.
    fn count_down(&self, left: &AtomicUsize, what: Asks) {
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.tell_first(what);
        }
    }

    /// Gives something to every core, this one too.
    fn bring<T>(&self, all: impl IntoIterator<Item = T>, put: impl Fn(&mut Inbox, T)) {
        for ((number, core), it) in self.0.all_show().enumerate().zip(all) {
            put(&mut lock(&core.inbox), it);
            self.0.ask(number, Asks::INBOX.0);
        }
    }

    /// Asks all others for their numbers. The first core is told when they are there.
    pub(in crate::serve) fn ask_for_rows(&self) {
        let others = self.count() - 1;
        self.0.shared().to_show.store(others, Ordering::Relaxed);
        self.ask_others(Asks::SHOW);
    }

    /// These are this core's numbers now.
    pub(in crate::serve) fn show(&self, row: Row) {
        let Place { core, interface } = self.place().clone();
        *lock(&self.0.shows().row) = Row {
            core,
            interface,
            ..row
        };
    }

    /// The numbers were asked for, and are shown.
    pub(in crate::serve) fn shown(&self) {
        self.count_down(&self.0.shared().to_show, Asks::ALL_SHOWN);
    }

    /// The numbers of all cores, as they were shown last.
    pub(in crate::serve) fn rows(&self) -> Vec<Row> {
        let rows = self.0.all_show().map(|core| lock(&core.row).clone());
        rows.collect()
    }

    /// Has every core, this one too, serve these documents instead of all others. The first one is told when all do, and
    /// when nothing is left of what was served before; until then nothing else is to be sent.
    pub(in crate::serve) fn send_fresh(&self, fresh: Fresh) {
        let (left, all) = (self.0.shared(), self.count());
        left.to_exchange.store(all, Ordering::Relaxed);
        left.to_empty.store(all, Ordering::Relaxed);
        self.bring(vec![fresh; all], |inbox, fresh| inbox.fresh = Some(fresh));
    }

    /// This core serves the documents that it was sent.
    pub(in crate::serve) fn exchanged(&self) {
        self.count_down(&self.0.shared().to_exchange, Asks::ALL_EXCHANGED);
    }

    /// Nothing is left on this core of what it served before.
    pub(in crate::serve) fn emptied(&self) {
        self.count_down(&self.0.shared().to_empty, Asks::ALL_EMPTIED);
    }

    /// Has every core, this one too, hear of changes by its feed.
    pub(in crate::serve) fn send_feeds(&self, feeds: Vec<Feed>) {
        self.bring(feeds, |inbox, feed| inbox.feed = Some(feed));
    }

    /// What was sent to this core.
    pub(in crate::serve) fn take_inbox(&self) -> Inbox {
        std::mem::take(&mut lock(&self.0.shows().inbox))
    }

    /// This core begins to serve.
    pub(in crate::serve) fn begin(&self) -> Serving {
        self.0.shared().serving.fetch_add(1, Ordering::AcqRel);
        Serving(self.clone())
    }

    /// A core serves, or has connections that are ending. When the last of them ends, all others wake.
    pub(in crate::serve) fn is_any_serving(&self) -> bool {
        self.0.shared().serving.load(Ordering::Acquire) > 0
    }

    /// This core's interface has failed. True when all have.
    pub(in crate::serve) fn cut_off(&self) -> bool {
        let before = self.0.shared().cut_off.fetch_add(1, Ordering::AcqRel);
        before + 1 == self.count()
    }

    /// The interface is there again.
    pub(in crate::serve) fn is_back(&self) {
        self.0.shared().cut_off.fetch_sub(1, Ordering::AcqRel);
    }

    /// For the threads of the others, of which none has begun.
    pub(in crate::serve) fn threads<'scope, 'env>(
        &self,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Threads<'scope, 'env> {
        Threads::new("serve", scope, &self.0)
    }
}

/// Nothing is left half done by the one that panics with a lock.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(core: usize) -> Place {
        Place {
            core,
            interface: None,
        }
    }

    #[test]
    fn what_is_asked_is_heard_once_and_wakes() {
        let workers = Worker::make([3, 5].map(at)).unwrap();
        let is_woken = |worker: &Worker| {
            use rustix::event::{PollFd, PollFlags, Timespec, poll};
            let fd = worker.fd();
            let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
        };
        assert_eq!(workers[1].take_asks(), Asks::default());
        workers[0].ask_others(Asks::STOP);
        workers[0].ask_others(Asks::SHOW);
        assert!(is_woken(&workers[1]) && !is_woken(&workers[0]));
        let asks = workers[1].take_asks();
        assert!(asks.contains(Asks::STOP) && asks.contains(Asks::SHOW));
        assert_eq!(workers[1].take_asks(), Asks::default());
        assert!(!is_woken(&workers[1]));
    }

    /// The core that ends last wakes the others, also where it fails.
    #[test]
    fn cores_wait_for_the_last_one_that_has_connections() {
        let workers = Worker::make([3, 5, 7].map(at)).unwrap();
        let [first, second] = [0, 2].map(|n| workers[n].begin());
        assert!(workers[1].is_any_serving());
        drop(first);
        assert!(workers[0].is_any_serving());
        assert_eq!(workers[0].take_asks(), Asks::default());
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _second = second;
            panic!("of this test");
        }));
        assert!(failed.is_err());
        for (worker, is_woken) in workers.iter().zip([true, true, false]) {
            assert!(!worker.is_any_serving());
            assert_eq!(worker.take_asks().contains(Asks::ALL_ENDED), is_woken);
        }
    }

    #[test]
    fn the_first_is_told_when_all_have_shown_their_numbers() {
        let workers = Worker::make([3, 5, 7].map(at)).unwrap();
        workers[0].ask_for_rows();
        for (worker, is_last) in [(&workers[1], false), (&workers[2], true)] {
            assert!(worker.take_asks().contains(Asks::SHOW));
            let row = Row {
                responses: 10,
                ..Row::default()
            };
            worker.show(row);
            worker.shown();
            assert_eq!(workers[0].take_asks().contains(Asks::ALL_SHOWN), is_last);
        }
        let rows: Vec<_> = workers[0]
            .rows()
            .iter()
            .map(|r| (r.core, r.responses))
            .collect();
        assert_eq!(rows[1..], [(5, 10), (7, 10)]);
    }
}
