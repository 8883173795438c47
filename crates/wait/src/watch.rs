//! Waiting at lines of several writers at once, until any of their values does, a descriptor is ready, or a time has come.
//!
//! For words and a time alone it sleeps by futex_waitv(2) (Linux 5.16); with descriptors by poll(2), to which io_uring's waits for words (Linux
//! 6.7) are descriptors too. The writers wake it by [`Line::tell`]. Of a writer that ends it does not hear unless one of the descriptors
//! tells.

use crate::limits::TERMS_MAX;
use crate::line::Line;
use crate::predicate::Predicate;
use crate::waiting::{Slept, Waited};
use exos_host::uring::WordWait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What is waited for at one writer.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Where the writer finds it.
    pub line: &'a Line,
    /// Any of these terms.
    pub predicate: Predicate,
    /// The values, by their numbers in the predicate; three at most.
    pub values: &'a [&'a AtomicU64],
}

impl Place<'_> {
    fn holds(&self) -> bool {
        let mut values = [0; TERMS_MAX];
        for (value, word) in values.iter_mut().zip(self.values) {
            *value = word.load(Ordering::Acquire);
        }
        self.predicate.holds(&values[..self.values.len()])
    }
}

/// A wait at several places, to be [waited](crate::wait) for as often as one likes. Descriptors are looked at only before it would sleep.
#[derive(Default)]
pub struct Watch<'a> {
    places: Vec<Place<'a>>,
    fds: Vec<BorrowedFd<'a>>,
    number: u32,
    /// Of each place, where there are descriptors.
    words: Vec<WordWait>,
    is_ready: bool,
}

impl<'a> Watch<'a> {
    /// Waits here too.
    ///
    /// # Panics
    ///
    /// When it has more values than a predicate has terms.
    #[must_use]
    pub fn or(mut self, place: Place<'a>) -> Self {
        assert!(place.values.len() <= TERMS_MAX, "three values at most");
        self.places.push(place);
        self
    }

    /// Waits until this is readable too, or its other end has gone.
    #[must_use]
    pub fn or_readable(mut self, fd: BorrowedFd<'a>) -> Self {
        self.fds.push(fd);
        self
    }

    fn sleep_at_words(&self, at_most: Option<Duration>) -> io::Result<Slept> {
        let wait = |place: &Place<'_>| {
            let mut wait = futex::Wait::new();
            wait.val = self.number.into();
            wait.uaddr = futex::WaitPtr::new(place.line.state_word().as_ptr().cast());
            wait.flags = futex::WaitFlags::SIZE_U32;
            wait
        };
        let waits: Vec<futex::Wait> = self.places.iter().map(wait).collect();
        let end = at_most.and_then(|time| {
            let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).ok()?;
            // What is too long to be told is for good.
            Timespec::try_from(now.checked_add(time)?).ok()
        });
        let flags = futex::WaitvFlags::empty();
        match futex::waitv(&waits, flags, end.as_ref(), ClockId::Monotonic) {
            // One was woken, or before it slept.
            Ok(_) | Err(Errno::AGAIN) => Ok(Slept::Woken),
            Err(Errno::TIMEDOUT | Errno::INTR) => Ok(Slept::Elapsed),
            Err(Errno::NOSYS) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "cannot wait for words of memory: that takes Linux 5.16; look for them instead (Spin::On)",
            )),
            Err(error) => Err(error.into()),
        }
    }

    fn sleep_at_descriptors(&mut self, at_most: Option<Duration>) -> io::Result<Slept> {
        for (n, place) in self.places.iter().enumerate() {
            let word = place.line.state_word();
            match self.words.get_mut(n) {
                Some(wait) => wait.again(word, self.number)?,
                None => self.words.push(WordWait::new(word, self.number)?),
            }
        }
        let fds = self.fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN));
        let words = self.words.iter().map(|w| PollFd::new(w, PollFlags::IN));
        let mut all: Vec<PollFd<'_>> = fds.chain(words).collect();
        let time = at_most.and_then(|time| Timespec::try_from(time).ok());
        let slept = match poll(&mut all, time.as_ref()) {
            Ok(0) | Err(Errno::INTR) => Slept::Elapsed,
            Ok(_) => Slept::Woken,
            Err(error) => return Err(error.into()),
        };
        self.is_ready = all[..self.fds.len()]
            .iter()
            .any(|fd| !fd.revents().is_empty());
        Ok(slept)
    }
}

impl Waited for Watch<'_> {
    type Error = io::Error;

    #[inline]
    fn holds(&mut self) -> io::Result<bool> {
        // Once: whether it still is, the next sleep says.
        Ok(std::mem::take(&mut self.is_ready) || self.places.iter().any(Place::holds))
    }

    fn publish(&mut self) {
        self.number = self.number.checked_add(1).unwrap_or(1);
        for place in &self.places {
            place.line.publish(self.number, &place.predicate);
        }
    }

    fn withdraw(&mut self) {
        self.places.iter().for_each(|place| place.line.withdraw());
    }

    fn sleep(&mut self, at_most: Option<Duration>) -> io::Result<Slept> {
        match self.fds.is_empty() {
            true => self.sleep_at_words(at_most),
            false => self.sleep_at_descriptors(at_most),
        }
    }

    fn check(&mut self) -> io::Result<()> {
        let mut fds: Vec<PollFd<'_>> = self
            .fds
            .iter()
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .collect();
        self.is_ready = poll(&mut fds, Some(&Timespec::default()))? > 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predicate::Test;
    use crate::waiting::{Counts, Spin, wait};
    use std::os::fd::AsFd as _;
    use std::time::Instant;

    /// A writer's words.
    #[derive(Default)]
    struct Writer {
        line: Line,
        value: AtomicU64,
    }

    impl Writer {
        fn count_to(&self, last: u64) -> usize {
            let count = |value| {
                self.value.store(value, Ordering::Release);
                self.line.tell(&[value])
            };
            let before = self.value.load(Ordering::Relaxed);
            (before + 1..=last).filter(|value| count(*value)).count()
        }
    }

    fn at<'a>(writer: &'a Writer, values: &'a [&'a AtomicU64], reached: u64) -> Place<'a> {
        Place {
            line: &writer.line,
            predicate: Predicate::NEVER.or(0, Test::Reached(reached)),
            values,
        }
    }

    /// Nobody wakes it before; and what comes of it is told. On a kernel that cannot it says so.
    fn waits_for_any_of_two(beside: Option<BorrowedFd<'_>>) {
        let writers = [Writer::default(), Writer::default()];
        let values = [[&writers[0].value], [&writers[1].value]];
        let mut watch = Watch::default()
            .or(at(&writers[0], &values[0], 1 << 40))
            .or(at(&writers[1], &values[1], 50));
        if let Some(fd) = beside {
            watch = watch.or_readable(fd);
        }
        let mut counts = Counts::default();
        let end = Some(Instant::now() + Duration::from_secs(20));
        let has_come = std::thread::scope(|scope| {
            let told = scope.spawn(|| {
                while !writers[1].line.is_waited_at() {
                    std::thread::yield_now();
                }
                (writers[0].count_to(1000), writers[1].count_to(100))
            });
            let has_come = wait(&mut watch, Spin::Not, end, &mut counts);
            if has_come.is_err() {
                writers[1].line.publish(1, &Predicate::NEVER);
            }
            let (of_first, of_second) = told.join().expect("it does not panic");
            if has_come.is_ok() {
                // It is told once at most: it may see the value itself.
                assert!(of_first == 0 && of_second <= 1, "{of_first} {of_second}");
            }
            has_come
        });
        match has_come {
            Ok(has_come) => assert!(has_come && counts.false_wakes == 0, "{counts:?}"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}"),
        }
    }

    #[test]
    fn it_waits_for_words() {
        waits_for_any_of_two(None);
    }

    #[test]
    fn it_waits_for_words_beside_descriptors() {
        let (reader, _writer) = rustix::pipe::pipe().expect("descriptors");
        waits_for_any_of_two(Some(reader.as_fd()));
    }

    #[test]
    fn a_descriptor_or_a_time_ends_it() {
        let writer = Writer::default();
        let values = [&writer.value];
        let (reader, other) = rustix::pipe::pipe().expect("descriptors");
        let soon = || Some(Instant::now() + Duration::from_millis(5));
        let mut counts = Counts::default();
        let mut watch = Watch::default().or(at(&writer, &values, 1));
        let mut both = Watch::default()
            .or(at(&writer, &values, 1))
            .or_readable(reader.as_fd());
        for watch in [&mut watch, &mut both] {
            match wait(watch, Spin::Not, soon(), &mut counts) {
                Ok(has_come) => assert!(!has_come),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}"),
            }
        }
        // Also of one whose other end has gone.
        drop(other);
        for spin in [Spin::Not, Spin::On] {
            match wait(&mut both, spin, None, &mut counts) {
                Ok(has_come) => assert!(has_come),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}"),
            }
        }
        assert!(!writer.line.is_waited_at());
    }
}
