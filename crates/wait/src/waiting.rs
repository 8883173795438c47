//! Looking for a while and then sleeping, whatever is waited for.

use crate::budget::Budget;
use crate::limits::{SPINS_PER_CHECK, SPINS_PER_CLOCK};
use std::time::{Duration, Instant};

/// What came of waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Waits that ended while this side looked again.
    pub looked: u64,
    /// Times that it slept, each at least one system call.
    pub sleeps: u64,
    /// Sleeps that ended before their time was over.
    pub wakes: u64,
    /// Of these, those after which the predicate did not hold.
    pub false_wakes: u64,
}

/// For how long to look before sleeping.
#[derive(Debug)]
pub enum Spin<'a> {
    /// Not at all.
    Not,
    /// This long.
    For(Duration),
    /// As long as it has paid.
    Adaptive(&'a mut Budget),
    /// For good: it never sleeps.
    On,
}

/// What came of going to sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slept {
    /// It slept and was woken, perhaps for nothing.
    Woken,
    /// It slept until its time was over, or a signal came.
    Elapsed,
    /// There was something to do first.
    Not,
}

/// What is waited for, on one side of shared memory.
pub trait Waited {
    /// What can go wrong.
    type Error;
    /// Whether it holds; without a system call.
    ///
    /// # Errors
    ///
    /// The other side does not do as agreed.
    fn holds(&mut self) -> Result<bool, Self::Error>;
    /// Says in shared memory what is waited for. It is looked behind this.
    fn publish(&mut self);
    /// Nothing is waited for any more.
    fn withdraw(&mut self);
    /// Sleeps until it is woken or has slept this long.
    ///
    /// # Errors
    ///
    /// The other side has ended, or the kernel refuses to sleep.
    fn sleep(&mut self, at_most: Option<Duration>) -> Result<Slept, Self::Error>;
    /// Looked at now and then by one that does not sleep: the other side may have ended.
    ///
    /// # Errors
    ///
    /// It has.
    fn check(&mut self) -> Result<(), Self::Error>;
}

/// Waits until it holds. False when the time has come before.
///
/// # Errors
///
/// Those of what is waited for.
pub fn wait<W: Waited>(
    waited: &mut W,
    spin: Spin<'_>,
    until: Option<Instant>,
    counts: &mut Counts,
) -> Result<bool, W::Error> {
    if waited.holds()? {
        return Ok(true);
    }
    let has_come = match spin {
        Spin::Not => false,
        Spin::On => look(waited, None, until)?,
        Spin::For(time) => look(waited, Some(time), until)?,
        Spin::Adaptive(budget) => {
            let has_come = look(waited, Some(budget.time()), until)?;
            match has_come {
                true => budget.paid(),
                false => budget.was_in_vain(),
            }
            has_come
        }
    };
    if has_come {
        counts.looked += 1;
        return Ok(true);
    }
    sleep(waited, until, counts)
}

/// Looks on; false when it was not so within this time, or when the time has come.
fn look<W: Waited>(
    waited: &mut W,
    at_most: Option<Duration>,
    until: Option<Instant>,
) -> Result<bool, W::Error> {
    if at_most == Some(Duration::ZERO) {
        return Ok(false);
    }
    let is_timed = at_most.is_some() || until.is_some();
    let mut end = None;
    loop {
        for spin in 1..=SPINS_PER_CHECK {
            if waited.holds()? {
                return Ok(true);
            }
            if is_timed && spin % SPINS_PER_CLOCK == 0 {
                let now = Instant::now();
                let own_end = || at_most.and_then(|time| now.checked_add(time));
                let end = *end.get_or_insert_with(|| own_end().into_iter().chain(until).min());
                if end.is_some_and(|end| now >= end) {
                    return Ok(false);
                }
            }
            std::hint::spin_loop();
        }
        waited.check()?;
    }
}

fn sleep<W: Waited>(
    waited: &mut W,
    until: Option<Instant>,
    counts: &mut Counts,
) -> Result<bool, W::Error> {
    let mut is_woken = false;
    loop {
        if waited.holds()? {
            return Ok(true);
        }
        counts.false_wakes += u64::from(is_woken);
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(false);
        }
        waited.publish();
        let holds = waited.holds();
        let slept = match holds {
            Ok(false) => waited.sleep(left),
            _ => Ok(Slept::Not),
        };
        waited.withdraw();
        if holds? {
            return Ok(true);
        }
        let slept = slept?;
        is_woken = slept == Slept::Woken;
        counts.sleeps += u64::from(slept != Slept::Not);
        counts.wakes += u64::from(is_woken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It holds after a given number of looks; every sleep is woken or not, as this says.
    struct Script {
        looks: u32,
        wakes: Vec<Slept>,
        is_published: bool,
    }

    impl Waited for Script {
        type Error = &'static str;
        fn holds(&mut self) -> Result<bool, Self::Error> {
            self.looks = self.looks.saturating_sub(1);
            Ok(self.looks == 0)
        }
        fn publish(&mut self) {
            self.is_published = true;
        }
        fn withdraw(&mut self) {
            self.is_published = false;
        }
        fn sleep(&mut self, _: Option<Duration>) -> Result<Slept, Self::Error> {
            assert!(self.is_published);
            self.wakes.pop().ok_or("it sleeps for good")
        }
        fn check(&mut self) -> Result<(), Self::Error> {
            Err("it looks for good")
        }
    }

    fn script(looks: u32, wakes: &[Slept]) -> Script {
        Script {
            looks,
            wakes: wakes.to_vec(),
            is_published: false,
        }
    }

    #[test]
    fn sleeps_are_told_from_wakes_and_these_from_false_ones() {
        let mut counts = Counts::default();
        // Two looks before each sleep: one was woken for nothing, one ended by time, one was none, and one was woken for what it waits for.
        let sleeps = [Slept::Woken, Slept::Not, Slept::Elapsed, Slept::Woken];
        let mut waited = script(10, &sleeps);
        let has_come = wait(&mut waited, Spin::Not, None, &mut counts);
        assert_eq!(has_come, Ok(true));
        let Counts {
            looked,
            sleeps,
            wakes,
            false_wakes,
        } = counts;
        assert_eq!((looked, sleeps, wakes, false_wakes), (0, 3, 2, 1));
        assert!(!waited.is_published);
    }

    #[test]
    fn what_comes_while_it_looks_is_no_sleep() {
        let (mut counts, mut budget) = (Counts::default(), Budget::default());
        budget.was_in_vain();
        let before = budget.time();
        // What is there at once was not waited for, and no spin has paid.
        let spin = Spin::Adaptive(&mut budget);
        assert_eq!(wait(&mut script(1, &[]), spin, None, &mut counts), Ok(true));
        assert_eq!((counts, budget.time()), (Counts::default(), before));
        let spin = Spin::Adaptive(&mut budget);
        assert_eq!(wait(&mut script(9, &[]), spin, None, &mut counts), Ok(true));
        assert_eq!((counts.looked, counts.sleeps), (1, 0));
        assert_eq!(budget.time(), before * 2);
        let spin = Spin::Adaptive(&mut budget);
        let waited = &mut script(u32::MAX, &[]);
        assert!(wait(waited, spin, None, &mut counts).is_err());
        assert_eq!(budget.time(), before);
        // One that never sleeps looks at the rest of the world.
        let spun = wait(&mut script(u32::MAX, &[]), Spin::On, None, &mut counts);
        assert_eq!(spun, Err("it looks for good"));
    }

    #[test]
    fn a_time_that_is_over_ends_it() {
        let (now, mut counts) = (Instant::now(), Counts::default());
        let mut budget = Budget::default();
        let long = Duration::MAX;
        let spins = [
            Spin::Not,
            Spin::On,
            Spin::For(long),
            Spin::Adaptive(&mut budget),
        ];
        for spin in spins {
            let waited = &mut script(1000, &[]);
            assert_eq!(wait(waited, spin, Some(now), &mut counts), Ok(false));
        }
        assert_eq!(counts, Counts::default());
    }
}
