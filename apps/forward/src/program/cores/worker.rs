//! What cores ask of one another, and what each has counted.
//!
//! The first one leads: it hears signals, answers who asks, checks servers and reports; the others are asked. No packet touches
//! anything here.

use std::os::fd::BorrowedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use exos::Error;
use exos_program::workers;

use crate::limits::COUNTED_WITHIN;

/// What a core may be asked or told, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asks(u32);

impl Asks {
    /// End.
    pub const STOP: Self = Self(workers::STOP);
    /// End when all that the link's rings hold has gone on: packets pass by from now on.
    pub const HAND_OVER: Self = Self(4);
    /// Say what you have counted ([`Worker::show`]).
    pub const SHOW: Self = Self(8);
    /// To the first: a core has ended.
    pub const ONE_LEFT: Self = Self(workers::ONE_LEFT);

    /// To the first: neighbours of flows in the kernel are to be found by its stack.
    pub const NEIGHBOURS: Self = Self(16);

    /// As a word that is asked.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Any of what the other has.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Counts by their names.
pub type Counts = Vec<(String, u64)>;

/// What a core has counted.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The processor.
    pub core: usize,
    /// Of each link by its interface.
    pub links: Vec<(String, Counts)>,
    /// What is no link's.
    pub own: Counts,
}

/// What all cores have counted.
struct Rows {
    /// How often that was asked for.
    asked: u64,
    /// For which question the row of each core is.
    rows: Vec<(u64, Row)>,
}

pub struct Told {
    rows: Mutex<Rows>,
    has_come: Condvar,
}

/// The threads of the cores but the first.
pub type Threads<'scope, 'env> = workers::Threads<'scope, 'env, usize, Told>;

/// A core among all.
#[derive(Clone)]
pub struct Worker {
    place: workers::Worker<usize, Told>,
    number: usize,
}

impl Worker {
    /// One for each of these processors.
    ///
    /// # Errors
    ///
    /// The kernel has no descriptors for them.
    pub fn make(cores: &[usize]) -> Result<Vec<Self>, Error> {
        let row = |core: &usize| {
            let core = *core;
            (
                0,
                Row {
                    core,
                    ..Row::default()
                },
            )
        };
        let told = Told {
            rows: Mutex::new(Rows {
                asked: 0,
                rows: cores.iter().map(row).collect(),
            }),
            has_come: Condvar::new(),
        };
        let places = workers::Worker::make(cores.iter().copied(), told)?;
        let worker = |(number, place)| Self { place, number };
        Ok(places.into_iter().enumerate().map(worker).collect())
    }

    /// Cores in all.
    pub fn count(&self) -> usize {
        self.place.count()
    }

    /// The processor.
    pub fn core(&self) -> usize {
        *self.place.shows()
    }

    /// Readable when something was asked.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.place.fd()
    }

    /// What was asked since the last call.
    #[inline]
    pub fn take_asks(&self) -> Asks {
        Asks(self.place.take_asked())
    }

    /// Asks all cores but this one.
    pub fn ask_others(&self, what: Asks) {
        self.place.ask_others(what.0);
    }

    /// This is the first one.
    pub fn is_first(&self) -> bool {
        self.place.is_first()
    }

    /// For the threads of the others, of which none has begun.
    pub fn threads<'scope, 'env>(
        &self,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Threads<'scope, 'env> {
        Threads::new("forward", scope, &self.place)
    }

    /// Tells the first core.
    pub fn tell_first(&self, what: Asks) {
        self.place.ask(0, what.0);
    }

    /// This is what this core has counted.
    pub fn show(&self, row: Row) {
        let mut rows = self.rows();
        let asked = rows.asked;
        rows.rows[self.number] = (asked, row);
        drop(rows);
        self.place.shared().has_come.notify_all();
    }

    /// What all cores have counted, this one as it says: the others are asked, and waited for as long as a turn takes. One that
    /// does not answer is as it was last seen. No lock is to be held that a turn takes.
    pub fn all_rows(&self, own: Row) -> Vec<Row> {
        let mut rows = self.rows();
        rows.asked += 1;
        let asked = rows.asked;
        rows.rows[self.number] = (asked, own);
        drop(rows);
        self.ask_others(Asks::SHOW);
        let is_missing = |rows: &mut Rows| rows.rows.iter().any(|(of, _)| *of < asked);
        let has_come = &self.place.shared().has_come;
        let waited = has_come.wait_timeout_while(self.rows(), COUNTED_WITHIN, is_missing);
        let (rows, _) = waited.unwrap_or_else(PoisonError::into_inner);
        rows.rows.iter().map(|(_, row)| row.clone()).collect()
    }

    /// What all cores have counted in the end, when the others have.
    pub fn last_rows(&self, own: Row) -> Vec<Row> {
        self.show(own);
        self.rows()
            .rows
            .iter()
            .map(|(_, row)| row.clone())
            .collect()
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        let rows = self.place.shared().rows.lock();
        rows.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    fn row(core: usize, count: u64) -> Row {
        Row {
            core,
            own: vec![("turns".into(), count)],
            ..Row::default()
        }
    }

    fn counts(rows: &[Row]) -> Vec<(usize, Option<u64>)> {
        let count = |row: &Row| (row.core, row.own.first().map(|(_, count)| *count));
        rows.iter().map(count).collect()
    }

    /// Who is asked says what it has counted by then; who does not answer keeps nobody waiting for long, and is as it was.
    #[test]
    fn others_are_asked_what_they_have_counted() {
        let workers = Worker::make(&[4, 7]).unwrap();
        let other = workers[1].clone();
        let answers = std::thread::spawn(move || {
            poll(&mut [PollFd::new(&other.fd(), PollFlags::IN)], None).unwrap();
            assert!(other.take_asks().contains(Asks::SHOW));
            other.show(row(7, 20));
        });
        let all = workers[0].all_rows(row(4, 1));
        answers.join().unwrap();
        assert_eq!(counts(&all), [(4, Some(1)), (7, Some(20))]);
        let all = workers[0].all_rows(row(4, 2));
        assert_eq!(counts(&all), [(4, Some(2)), (7, Some(20))]);
        // What comes too late is no answer to the next question.
        workers[1].show(row(7, 21));
        workers[1].tell_first(Asks::ONE_LEFT);
        assert_eq!(workers[0].take_asks(), Asks::ONE_LEFT);
        let all = workers[0].last_rows(row(4, 3));
        assert_eq!(counts(&all), [(4, Some(3)), (7, Some(21))]);
    }
}
