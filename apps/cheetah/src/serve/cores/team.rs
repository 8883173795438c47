//! The cores of one server: what they ask of one another, and what each says of itself.
//!
//! Each core has a seat. The first one leads: it hears signals, has everything read again, and prints; the others are asked.
//! Asking costs the one who asks: the one who is asked pays a comparison each turn, of a word that is written when
//! somebody asks and never otherwise. So no request touches anything here.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exos::Error;
use exos_program::cores::Bell;

use crate::serve::files::Feed;
use crate::serve::sites::Fresh;
use crate::status::Row;

/// What a core may be asked or told, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct Asks(u32);

impl Asks {
    /// End in order.
    pub(in crate::serve) const STOP: Asks = Asks(1);
    /// Show your numbers ([`Seat::show`]).
    pub(in crate::serve) const SHOW: Asks = Asks(2);
    /// There is mail.
    pub(in crate::serve) const MAIL: Asks = Asks(4);
    /// To the first: all others have shown their numbers.
    pub(in crate::serve) const ALL_SHOWN: Asks = Asks(8);
    /// To the first: all cores have exchanged their sites.
    pub(in crate::serve) const ALL_EXCHANGED: Asks = Asks(16);
    /// To the first: a core has ended.
    pub(in crate::serve) const ONE_LEFT: Asks = Asks(32);
    /// To the first: nothing is left on any core of the sites that were exchanged.
    pub(in crate::serve) const ALL_EMPTIED: Asks = Asks(64);

    pub(in crate::serve) fn contains(self, other: Asks) -> bool {
        self.0 & other.0 != 0
    }
}

/// What is brought to a core.
#[derive(Default)]
pub(in crate::serve) struct Mail {
    /// Documents to be served instead of all others.
    pub(in crate::serve) fresh: Option<Fresh>,
    /// From now on, this tells of their changes.
    pub(in crate::serve) feed: Option<Feed>,
}

/// What the others see of a core. Apart from the others' in memory: a line of the cache belongs to one core.
#[repr(align(128))]
struct Place {
    /// The processor that it runs on.
    core: usize,
    asks: Bell,
    mail: Mutex<Mail>,
    row: Mutex<Row>,
}

struct Team {
    places: Box<[Place]>,
    /// Cores that have not shown their numbers, of those that were asked.
    to_show: AtomicUsize,
    /// Cores that have not exchanged their sites.
    to_exchange: AtomicUsize,
    /// Cores that have something left of their old ones.
    to_empty: AtomicUsize,
}

/// A core's place among all.
#[derive(Clone)]
pub(in crate::serve) struct Seat {
    team: Arc<Team>,
    number: usize,
}

impl Seat {
    /// A seat for each of these processors.
    pub(in crate::serve) fn make(cores: &[usize]) -> Result<Vec<Seat>, Error> {
        let place = |&core: &usize| {
            Ok(Place {
                core,
                asks: Bell::new()?,
                mail: Mutex::default(),
                row: Mutex::default(),
            })
        };
        let team = Arc::new(Team {
            places: cores.iter().map(place).collect::<Result<_, Error>>()?,
            to_show: AtomicUsize::new(0),
            to_exchange: AtomicUsize::new(0),
            to_empty: AtomicUsize::new(0),
        });
        let seats = 0..cores.len();
        Ok(seats
            .map(|number| Seat {
                team: team.clone(),
                number,
            })
            .collect())
    }

    fn place(&self) -> &Place {
        &self.team.places[self.number]
    }

    /// Cores in all.
    pub(in crate::serve) fn count(&self) -> usize {
        self.team.places.len()
    }

    /// This is the first core's.
    pub(in crate::serve) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// Readable when something was asked.
    pub(in crate::serve) fn fd(&self) -> BorrowedFd<'_> {
        self.place().asks.as_fd()
    }

    /// What was asked since the last call.
    #[inline]
    pub(in crate::serve) fn take_asks(&self) -> Asks {
        Asks(self.place().asks.take())
    }

    fn ask(&self, number: usize, what: Asks) {
        self.team.places[number].asks.ring(what.0);
    }

    /// Asks all cores but this one.
    pub(in crate::serve) fn ask_others(&self, what: Asks) {
        let others = (0..self.count()).filter(|&number| number != self.number);
        others.for_each(|number| self.ask(number, what));
    }

    /// Asks all others for their numbers. The first core is told when they are there.
    pub(in crate::serve) fn ask_for_rows(&self) {
        self.team.to_show.store(self.count() - 1, Ordering::Relaxed);
        self.ask_others(Asks::SHOW);
    }

    /// These are this core's numbers now.
    pub(in crate::serve) fn show(&self, row: Row) {
        let core = self.place().core;
        *lock(&self.place().row) = Row { core, ..row };
    }

    /// The numbers were asked for, and are shown.
    pub(in crate::serve) fn shown(&self) {
        if self.team.to_show.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.ask(0, Asks::ALL_SHOWN);
        }
    }

    /// The numbers of all cores, as they were shown last.
    pub(in crate::serve) fn rows(&self) -> Vec<Row> {
        let rows = self
            .team
            .places
            .iter()
            .map(|place| lock(&place.row).clone());
        rows.collect()
    }

    /// Has every core, this one too, serve these documents instead of all others. The first one is told when all do, and
    /// when nothing is left of what was served before; until then nothing else is to be sent.
    pub(in crate::serve) fn send_fresh(&self, fresh: Fresh) {
        self.team.to_exchange.store(self.count(), Ordering::Relaxed);
        self.team.to_empty.store(self.count(), Ordering::Relaxed);
        let mut all: Vec<Fresh> = vec![fresh; self.count()];
        for number in 0..self.count() {
            lock(&self.team.places[number].mail).fresh = all.pop();
            self.ask(number, Asks::MAIL);
        }
    }

    /// This core serves the documents that it was sent.
    pub(in crate::serve) fn exchanged(&self) {
        if self.team.to_exchange.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.ask(0, Asks::ALL_EXCHANGED);
        }
    }

    /// Nothing is left on this core of what it served before.
    pub(in crate::serve) fn emptied(&self) {
        if self.team.to_empty.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.ask(0, Asks::ALL_EMPTIED);
        }
    }

    /// Has every core, this one too, hear of changes by its feed.
    pub(in crate::serve) fn send_feeds(&self, feeds: Vec<Feed>) {
        for (number, feed) in feeds.into_iter().enumerate() {
            lock(&self.team.places[number].mail).feed = Some(feed);
            self.ask(number, Asks::MAIL);
        }
    }

    /// What was sent to this core.
    pub(in crate::serve) fn take_mail(&self) -> Mail {
        std::mem::take(&mut lock(&self.place().mail))
    }

    /// This core ends.
    pub(in crate::serve) fn leave(&self) {
        self.ask(0, Asks::ONE_LEFT);
    }
}

/// Nothing is left half done by the one that panics with a lock.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_heard_once_and_wakes() {
        let seats = Seat::make(&[3, 5]).unwrap();
        let is_woken = |seat: &Seat| {
            use rustix::event::{PollFd, PollFlags, Timespec, poll};
            let fd = seat.fd();
            let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
        };
        assert_eq!(seats[1].take_asks(), Asks::default());
        seats[0].ask_others(Asks::STOP);
        seats[0].ask_others(Asks::SHOW);
        assert!(is_woken(&seats[1]) && !is_woken(&seats[0]));
        let asks = seats[1].take_asks();
        assert!(asks.contains(Asks::STOP) && asks.contains(Asks::SHOW));
        assert_eq!(seats[1].take_asks(), Asks::default());
        assert!(!is_woken(&seats[1]));
    }

    #[test]
    fn the_first_is_told_when_all_have_shown_their_numbers() {
        let seats = Seat::make(&[3, 5, 7]).unwrap();
        seats[0].ask_for_rows();
        for (seat, is_last) in [(&seats[1], false), (&seats[2], true)] {
            assert!(seat.take_asks().contains(Asks::SHOW));
            let row = Row {
                responses: 10,
                ..Row::default()
            };
            seat.show(row);
            seat.shown();
            assert_eq!(seats[0].take_asks().contains(Asks::ALL_SHOWN), is_last);
        }
        let rows: Vec<_> = seats[0]
            .rows()
            .iter()
            .map(|r| (r.core, r.responses))
            .collect();
        assert_eq!(rows[1..], [(5, 10), (7, 10)]);
    }
}
