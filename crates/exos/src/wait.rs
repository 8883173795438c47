//! Adaptive waiting: spin while traffic comes, sleep when it does not.
//!
//! After each batch the loop goes on looking for a while before it sleeps, for as long as such looking has lately been worth it
//! ([`Budget`]): an idle program sleeps at once and all the time.

use std::os::fd::BorrowedFd;

use exos_inet::Instant;
use exos_wait::Budget;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Decides between spinning and sleeping.
#[derive(Debug, Default)]
pub struct Waiting {
    budget: Budget,
    /// There are no spins for now.
    is_held: bool,
    /// When the spin under way began.
    since: Option<Instant>,
    /// Sleeps so far.
    pub sleeps: u64,
}

impl Waiting {
    /// Never spins: other loops run on this core, and would wait until it ends.
    pub fn without_spinning() -> Self {
        Self {
            budget: Budget::NOTHING,
            ..Self::default()
        }
    }

    /// Has it sleep at once from now on, or spin again where that is worth it.
    pub fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// The turn moved frames.
    pub fn worked(&mut self) {
        if self.since.take().is_some() {
            self.budget.paid();
        }
    }

    /// The turn moved nothing: true when the loop shall look again at once, false when to sleep.
    pub fn should_spin(&mut self, now: Instant) -> bool {
        if self.is_held {
            // What comes meanwhile says nothing about spins.
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        if now - since < self.budget.time() {
            return true;
        }
        self.since = None;
        self.budget.was_in_vain();
        false
    }
}

/// How a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// It has not begun: frames were moved.
    Worked,
    /// It has not begun for another reason: it is looked for frames again, or something was due.
    Awake,
    /// It was a sleep, and says whether one of the other descriptors may be ready.
    Slept(bool),
}

/// Sleep until one of the descriptors is ready or `until` is reached; true where one of `others` is ready, or may be.
pub fn sleep(
    now: Instant,
    until: Option<Instant>,
    link: &[(BorrowedFd<'_>, bool)],
    others: &[BorrowedFd<'_>],
) -> std::io::Result<bool> {
    let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(link.len() + others.len());
    for (fd, writing) in link {
        let flags = if *writing {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        };
        fds.push(PollFd::new(fd, flags));
    }
    fds.extend(others.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
    let timeout = until.and_then(|at| Timespec::try_from(at - now).ok());
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) => Ok(fds[link.len()..].iter().any(|fd| !fd.revents().is_empty())),
        // A signal: its handler has written to one of the descriptors.
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_wait::limits::{SPIN_MAX, SPIN_MIN};
    use std::os::fd::AsFd as _;
    use std::time::Duration;

    #[test]
    fn who_shares_a_core_never_spins() {
        let mut waiting = Waiting::without_spinning();
        for micros in 0..100 {
            assert!(!waiting.should_spin(Instant::START + Duration::from_micros(micros)));
            waiting.worked();
        }
    }

    #[test]
    fn a_sleep_says_whether_it_was_for_another_descriptor() {
        let pipes = [(); 2].map(|()| rustix::pipe::pipe().expect("a pipe"));
        let [link, other] = pipes.each_ref().map(|(reader, _)| reader.as_fd());
        let sleep = || {
            let soon = Instant::START + Duration::from_millis(1);
            sleep(Instant::START, Some(soon), &[(link, false)], &[other]).expect("it may")
        };
        assert!(!sleep(), "its time was over");
        rustix::io::write(&pipes[0].1, b"x").expect("room");
        assert!(!sleep(), "it was for the link");
        rustix::io::write(&pipes[1].1, b"x").expect("room");
        assert!(sleep());
    }

    #[test]
    fn who_is_held_sleeps_at_once_and_spins_as_long_as_before_then() {
        let mut waiting = Waiting::default();
        let at = |micros| Instant::START + Duration::from_micros(micros);
        assert!(waiting.should_spin(at(0)));
        waiting.hold(true);
        for micros in [1, 2, 3] {
            assert!(!waiting.should_spin(at(micros)));
            waiting.worked();
        }
        waiting.hold(false);
        assert!(waiting.should_spin(at(100)) && waiting.should_spin(at(149)));
        assert!(!waiting.should_spin(at(150)));
    }

    #[test]
    fn spins_shrink_in_vain_and_grow_when_worth_it() {
        let mut waiting = Waiting::default();
        let mut now = Instant::START;
        let spun = |waiting: &mut Waiting, now: &mut Instant| {
            let start = *now;
            while waiting.should_spin(*now) {
                *now += Duration::from_micros(1);
            }
            *now - start
        };
        assert_eq!(spun(&mut waiting, &mut now), SPIN_MAX);
        assert_eq!(spun(&mut waiting, &mut now), SPIN_MAX / 2);
        for _ in 0..10 {
            spun(&mut waiting, &mut now);
        }
        assert_eq!(spun(&mut waiting, &mut now), SPIN_MIN);
        for _ in 0..10 {
            assert!(waiting.should_spin(now));
            waiting.worked();
        }
        assert_eq!(spun(&mut waiting, &mut now), SPIN_MAX);
    }
}
