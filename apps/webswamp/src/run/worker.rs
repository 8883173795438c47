//! The cores of one load: each a thread with its own stack, clients and statistics. What they say to one another is said here:
//! when all begin and end, that somebody wants to see how it goes, and once a second what has been seen, where it is shown.
//! Between that a core reads three words that nobody writes.
//!
//! The first core's thread sets up, hears signals, and shows the load; the others are asked. A core stays until all
//! have left: what comes to its queue may be another's.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use exos::Error;
use exos::signals::Signals;
use exos_inet::{Instant, Part, RouteTo};
use exos_program::workers;
use rustix::event::{PollFd, PollFlags, poll};

use crate::statistics::Second;

/// What is asked of a core is to look around.
const LOOK: u32 = 1;

/// How a link's stacks reach the server.
#[derive(Clone, Debug)]
pub(super) struct ServerRoute {
    /// The server.
    pub(super) to: SocketAddr,
    /// The routes.
    pub(super) routes: Vec<RouteTo>,
    /// By which other networks are reached.
    pub(super) gateways: Vec<IpAddr>,
    /// How long the server took to take a connection, where one was made.
    pub(super) took: Option<Duration>,
}

/// When a load begins, and where to.
#[derive(Clone, Debug)]
pub(super) struct Beginning {
    /// Of each link.
    pub(super) server_routes: Vec<ServerRoute>,
    /// When.
    pub(super) start: Instant,
    /// When, in seconds since 1970.
    pub(super) unix_secs: f64,
}

/// Where a loop runs, and by which link.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    /// The processor that its thread is on, where it is on one.
    pub(super) core: Option<usize>,
    /// Another loop runs there too.
    pub(super) shares_core: bool,
    /// The number of its link.
    pub(super) link: usize,
    /// It is the first of its link.
    pub(super) is_first_of_link: bool,
    /// The interface, where there are several.
    pub(super) interface: Option<String>,
}

/// What a core has seen, for anyone who shows it.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Seconds that are over.
    pub(super) seconds: Vec<Second>,
    /// Connections that clients have.
    pub(super) connections: usize,
    /// Time in turns that moved something, since the begin.
    pub(super) busy: Duration,
}

/// What a loop shows the others.
#[derive(Debug)]
struct Shows {
    /// The number of its link.
    link: usize,
    seen: Mutex<Seen>,
}

/// What all cores share.
#[derive(Debug, Default)]
struct Shared {
    beginning: OnceLock<Beginning>,
    /// By the number of the link, the ways of those but the first.
    server_routes: Mutex<BTreeMap<usize, ServerRoute>>,
    /// The load is to end.
    stop: AtomicBool,
    /// It is shown.
    is_shown: AtomicBool,
    /// The first core has ended.
    is_first_gone: AtomicBool,
    /// Cores that may begin, that have nothing left to do, and that have reset what they had open.
    ready: AtomicU32,
    over: AtomicU32,
    left: AtomicU32,
}

/// A core among all. When it is dropped it has ended, in order or not, and so has the load.
pub(super) struct Worker<'a> {
    /// Each shows what it has seen.
    worker: workers::Worker<Shows, Shared>,
    part: Part,
    pub(super) place: Place,
    signals: &'a Signals,
    is_over: bool,
    has_left: bool,
}

impl<'a> Worker<'a> {
    /// One for each of these loops. The first comes first.
    pub(super) fn make(places: Vec<Place>, signals: &'a Signals) -> Result<Vec<Self>, Error> {
        let count = places.len();
        let shows = places.iter().map(|place| Shows {
            link: place.link,
            seen: Mutex::default(),
        });
        let all = workers::Worker::make(shows, Shared::default())?;
        let worker = |((worker, part), place)| Self {
            worker,
            part,
            place,
            signals,
            is_over: false,
            has_left: false,
        };
        Ok(all
            .into_iter()
            .zip(Part::all(count as u32))
            .zip(places)
            .map(worker)
            .collect())
    }

    /// Its part of the load.
    pub(super) fn part(&self) -> Part {
        self.part
    }

    /// It shows the load, and hears signals.
    pub(super) fn is_first(&self) -> bool {
        self.worker.is_first()
    }

    /// There is no other core.
    pub(super) fn is_alone(&self) -> bool {
        self.worker.count() == 1
    }

    /// How many loops each link has.
    pub(super) fn loops_of_links(&self) -> Vec<u32> {
        let mut counts: Vec<u32> = Vec::new();
        for shown in self.worker.all_show() {
            counts.resize(counts.len().max(shown.link + 1), 0);
            counts[shown.link] += 1;
        }
        counts
    }

    fn shared(&self) -> &Shared {
        self.worker.shared()
    }

    fn ring_others(&self) {
        self.worker.ask_others(LOOK);
    }

    /// One of all has come so far; the others are told when it was the last. True when all have.
    fn count(&self, so_far: &AtomicU32) {
        if so_far.fetch_add(1, Ordering::AcqRel) + 1 == self.part.of() {
            self.ring_others();
        }
    }

    fn are_all(&self, so_far: &AtomicU32) -> bool {
        so_far.load(Ordering::Acquire) == self.part.of()
    }

    // Waiting.

    /// To be called before what others say is looked at: what they say after that wakes anyone who waits.
    pub(super) fn clear_doorbell(&self) {
        self.worker.take_asked();
    }

    /// Readable when another core has something to say.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.worker.fd()
    }

    /// Readable when a signal came, of which the first core alone hears.
    pub(super) fn signals(&self) -> Option<BorrowedFd<'_>> {
        self.is_first().then(|| self.signals.fd())
    }

    /// Both; the first twice, where signals are not heard.
    pub(super) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.signals().unwrap_or(self.fd()), self.fd()]
    }

    /// Waits until somebody has something to say.
    fn sleep(&self) -> Result<(), Error> {
        let fds = self.fds();
        let mut fds = [0, 1].map(|n| PollFd::from_borrowed_fd(fds[n], PollFlags::IN));
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(Error::io("cannot wait for the other cores", e)),
        }
    }

    // The begin.

    /// This core may begin. The first waits until all may; false when one of them will not, or a signal says so.
    pub(super) fn get_ready(&self) -> Result<bool, Error> {
        self.count(&self.shared().ready);
        while self.is_first() && !self.are_all(&self.shared().ready) {
            self.clear_doorbell();
            if self.stop_requested() {
                return Ok(false);
            }
            if !self.are_all(&self.shared().ready) {
                self.sleep()?;
            }
        }
        Ok(true)
    }

    /// Says how this loop's link reaches the server, for the first one of all and for others of the link.
    pub(super) fn set_server_route(&self, server_route: ServerRoute) {
        lock(&self.shared().server_routes).insert(self.place.link, server_route);
    }

    /// How each link reaches the server, in their order. To be asked when all are ready.
    pub(super) fn server_routes(&self) -> Vec<ServerRoute> {
        lock(&self.shared().server_routes)
            .values()
            .cloned()
            .collect()
    }

    /// Lets all begin.
    pub(super) fn begin(&self, beginning: Beginning) {
        // Only the first core says it, and once.
        let _ = self.shared().beginning.set(beginning);
        self.ring_others();
    }

    /// When, if that has been said.
    pub(super) fn beginning(&self) -> Option<&Beginning> {
        self.shared().beginning.get()
    }

    /// Waits until it is said; none when there will be no begin.
    pub(super) fn await_beginning(&self) -> Result<Option<Beginning>, Error> {
        loop {
            self.clear_doorbell();
            if let Some(beginning) = self.beginning() {
                return Ok(Some(beginning.clone()));
            }
            if self.stop_requested() {
                return Ok(None);
            }
            self.sleep()?;
        }
    }

    // The end.

    /// The load is to end: a signal says so, or a core has ended.
    pub(super) fn stop_requested(&self) -> bool {
        let is_asked = self.is_first() && self.signals.stop_requested();
        if is_asked {
            self.stop();
        }
        self.shared().stop.load(Ordering::Acquire)
    }

    fn stop(&self) {
        if !self.shared().stop.swap(true, Ordering::AcqRel) {
            self.ring_others();
        }
    }

    /// The first core has ended, in order or not.
    pub(super) fn is_first_gone(&self) -> bool {
        self.shared().is_first_gone.load(Ordering::Acquire)
    }

    /// This core has nothing left to do. True when none has.
    pub(super) fn is_over(&mut self) -> bool {
        if !std::mem::replace(&mut self.is_over, true) {
            self.count(&self.shared().over);
        }
        self.are_all(&self.shared().over)
    }

    /// This core has nothing open any more. True when none has.
    pub(super) fn has_left(&mut self) -> bool {
        if !std::mem::replace(&mut self.has_left, true) {
            self.count(&self.shared().left);
        }
        self.are_all(&self.shared().left)
    }

    // While it runs.

    /// Somebody wants to see how it goes.
    pub(super) fn take_report_request(&self) -> bool {
        self.is_first() && self.signals.take_report_request()
    }

    /// Asks the others to tell what they see from now on.
    pub(super) fn show(&self) {
        if !self.is_alone() && !self.shared().is_shown.swap(true, Ordering::AcqRel) {
            self.ring_others();
        }
    }

    /// What this core sees is to be told.
    pub(super) fn is_shown(&self) -> bool {
        self.shared().is_shown.load(Ordering::Relaxed)
    }

    /// Tells what this core has seen. This many of its seconds have been told before.
    pub(super) fn tell(&self, seen: Seen) {
        let mut shown = lock(&self.worker.shows().seen);
        shown.seconds.extend(seen.seconds);
        (shown.connections, shown.busy) = (seen.connections, seen.busy);
    }

    /// Looks at what the others have told.
    pub(super) fn see_others(&self, mut look: impl FnMut(&mut Seen)) {
        let others = self.worker.all_show().skip(1);
        others.for_each(|shown| look(&mut lock(&shown.seen)));
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        self.stop();
        self.has_left();
        if self.is_first() {
            self.shared().is_first_gone.store(true, Ordering::Release);
            self.ring_others();
        }
    }
}

/// Nothing is left half done by the one that panics with a lock.
fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
