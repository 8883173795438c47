//! How many requests an application has at once that has a process for each, on this host.
//!
//! Processes that take turns on few cores lose what caches and TLBs have of them: where php-fpm had 64 requests at once it took 1.8 times the
//! processor time for a small page that it took with 16. So the limit begins at [`APPLICATION_AT_ONCE_MIN`], requests beyond wait in the
//! server, and the limit follows what is answered:
//!
//! - Requests wait, and for [`APPLICATION_STALL_TIME`] none was answered: those that the processes have wait for something else, such as a
//!   database. The limit doubles, when each loop that has requests has heard all that came until then.
//! - A *window* is eight answers for each request of the limit. One in which the limit was used up tells how fast the application answers.
//!   A *trial* is a window with twice the limit, or half of it: twice stays where that answers a seventh more, half where it answers as
//!   much but a twentieth. Behind each trial in vain come twice as many windows without one.
//! - In a window in which the limit was not used up it falls to what was used.
//!
//! It is one limit of all loops of a server: by one of its own each would take the processors' time from the others, and be right to think
//! that it is answered more.
//!
//! A loop whose requests wait calls [`Concurrency::turn`] in each turn and [`Concurrency::poll_timeout`] before it sleeps; each calls
//! [`Concurrency::answered`] for each request that ends.

use exos_inet::{Duration, Instant};

use crate::limits::{APPLICATION_AT_ONCE_MIN, APPLICATION_CONNECTIONS_MAX, APPLICATION_STALL_TIME};

/// Answers in a window, for each request of the limit.
const WINDOW_ANSWERS: usize = 8;

/// The most windows between two trials.
const TRIALS_APART_MAX: u32 = 64;

/// The limit, and what it is adapted by.
#[derive(Debug)]
pub(super) struct Concurrency {
    limit: usize,
    window: Window,
    trial: Option<Trial>,
    /// The next trial is with half.
    is_next_half: bool,
    /// Windows until the next trial, and how many come behind the next one that is in vain.
    rest: u32,
    rest_next: u32,
    /// When a request was answered last, or none waited, or the limit was raised; none before the first turn.
    progress: Option<Instant>,
    /// Nothing was answered for long when a loop looked; none may have heard what has come.
    doubt: Option<Doubt>,
    /// The time, as far as any loop has told it.
    latest: Instant,
}

/// That nothing was answered: when that was seen, and when to look again.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    since: Instant,
    next: Instant,
}

/// Answers that are counted.
#[derive(Debug)]
struct Window {
    /// When the first of them was.
    since: Option<Instant>,
    answers: usize,
    /// In how many of them the limit was used up.
    used_up: usize,
    /// The most requests that the application had.
    most: usize,
}

/// A window with another limit.
#[derive(Debug)]
struct Trial {
    /// The limit before.
    before: usize,
    /// Nanoseconds for an answer before.
    apart_ns: u64,
}

impl Concurrency {
    /// Nothing is known yet.
    pub(super) fn new() -> Concurrency {
        Concurrency {
            limit: APPLICATION_AT_ONCE_MIN,
            window: Window::new(),
            trial: None,
            is_next_half: false,
            rest: 0,
            rest_next: 1,
            progress: None,
            doubt: None,
            latest: Instant::START,
        }
    }

    /// How many requests it may have at once.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// A turn begins: whether requests wait because of the limit, and until when each loop that has some has heard all that came. Loops that
    /// have not until the time that this gives are to turn.
    pub(super) fn turn(
        &mut self,
        some_wait: bool,
        heard: Instant,
        now: Instant,
    ) -> Option<Instant> {
        let now = self.advance(now);
        let progress = *self.progress.get_or_insert(now);
        if !some_wait {
            self.progress = Some(now);
        }
        if !some_wait || now < progress + APPLICATION_STALL_TIME {
            self.doubt = None;
            return None;
        }
        let since = match self.doubt {
            Some(doubt) if now < doubt.next => return None,
            Some(doubt) if heard >= doubt.since => {
                self.raise(now);
                return None;
            }
            doubt => doubt.map_or(now, |doubt| doubt.since),
        };
        let next = now + APPLICATION_STALL_TIME / 4;
        self.doubt = Some(Doubt { since, next });
        Some(since)
    }

    /// Loops' turns overlap, and one may tell an earlier time than another before it.
    fn advance(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// When there is something to do, whatever happens.
    pub(super) fn poll_timeout(&self, some_wait: bool) -> Option<Instant> {
        let progress = self.progress.filter(|_| some_wait)?;
        let next = self.doubt.map(|doubt| doubt.next);
        Some(next.unwrap_or(progress + APPLICATION_STALL_TIME))
    }

    /// A request ends, with which the application had this many.
    pub(super) fn answered(&mut self, busy: usize, now: Instant) {
        let now = self.advance(now);
        self.progress = Some(now);
        self.doubt = None;
        self.window.add(busy, self.limit, now);
        if self.window.answers > WINDOW_ANSWERS * self.limit {
            let window = std::mem::replace(&mut self.window, Window::new());
            self.judge(&window, now);
        }
    }

    /// The application answers nothing: it may have twice as many, until a trial with half tells that they are too many.
    fn raise(&mut self, now: Instant) {
        if self.trial.take().is_some() {
            self.rest();
        }
        self.is_next_half = true;
        self.limit = twice(self.limit);
        self.window = Window::new();
        self.progress = Some(now);
        self.doubt = None;
    }

    /// A trial was in vain: the next one comes later than that.
    fn rest(&mut self) {
        self.rest = self.rest_next;
        self.rest_next = (2 * self.rest_next).min(TRIALS_APART_MAX);
    }

    /// A window is over.
    fn judge(&mut self, window: &Window, now: Instant) {
        let used = window.most.clamp(APPLICATION_AT_ONCE_MIN, self.limit);
        let is_used_up = 2 * window.used_up >= window.answers;
        let apart_ns = window.apart_ns(now);
        match self.trial.take() {
            Some(trial) if trial.stays(self.limit, apart_ns) => {
                self.rest = 0;
                self.rest_next = 1;
                self.limit = used;
            }
            Some(trial) => {
                self.limit = trial.before;
                self.is_next_half = !self.is_next_half;
                return self.rest();
            }
            None if !is_used_up => {
                self.limit = used;
                return;
            }
            None => {}
        }
        match self.rest.checked_sub(1) {
            Some(rest) => self.rest = rest,
            None => self.try_another(apart_ns),
        }
    }

    /// Begins a trial.
    fn try_another(&mut self, apart_ns: u64) {
        let before = self.limit;
        self.is_next_half &= before > APPLICATION_AT_ONCE_MIN;
        self.limit = match self.is_next_half {
            true => (before / 2).max(APPLICATION_AT_ONCE_MIN),
            false => twice(before),
        };
        self.trial = Some(Trial { before, apart_ns });
    }
}

/// Twice as many, and no more than there may be connections.
fn twice(limit: usize) -> usize {
    (2 * limit).min(APPLICATION_CONNECTIONS_MAX as usize)
}

impl Window {
    fn new() -> Window {
        Window {
            since: None,
            answers: 0,
            used_up: 0,
            most: 0,
        }
    }

    fn add(&mut self, busy: usize, limit: usize, now: Instant) {
        self.since.get_or_insert(now);
        self.answers += 1;
        self.used_up += usize::from(busy >= limit);
        self.most = self.most.max(busy);
    }

    /// Nanoseconds for an answer: the first only begins the window.
    fn apart_ns(&self, now: Instant) -> u64 {
        let time = self.since.map_or(Duration::ZERO, |since| now - since);
        time.as_nanos() as u64 / (self.answers as u64 - 1).max(1)
    }
}

impl Trial {
    /// This limit is better, by which answers are this far apart.
    fn stays(&self, limit: usize, apart_ns: u64) -> bool {
        match limit > self.before {
            true => 8 * apart_ns <= 7 * self.apart_ns,
            false => 20 * apart_ns <= 21 * self.apart_ns,
        }
    }
}

#[cfg(test)]
#[path = "concurrency/tests.rs"]
mod tests;
