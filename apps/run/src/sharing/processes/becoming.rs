//! Processes that become other programs (execve(2)), and when to look at which descriptors they have kept: the kernel tells when one begins
//! to, not when it has.

use std::time::{Duration, Instant};

/// How long after it was about to: most have by the first, and those that take longer by the last.
const TIMES: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// Processes by their numbers, each with a time.
#[derive(Default)]
pub(super) struct Becoming(Vec<(Instant, u32)>);

impl Becoming {
    /// A process is about to become another program.
    pub fn note(&mut self, pid: u32, now: Instant) {
        self.0.extend(TIMES.map(|time| (now + time, pid)));
    }

    /// A process has ended, or is known as the program that it has become. Those that end soon would otherwise have us wake up for each,
    /// twice, with nothing to look at.
    pub fn forget(&mut self, pid: u32) {
        self.0.retain(|(_, of)| *of != pid);
    }

    /// When one is to be looked at next.
    pub fn due(&self) -> Option<Instant> {
        self.0.iter().map(|(due, _)| *due).min()
    }

    /// One that is to be looked at by now.
    pub fn take(&mut self, now: Instant) -> Option<u32> {
        let at = self.0.iter().position(|(due, _)| *due <= now)?;
        Some(self.0.swap_remove(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_looked_at_twice_unless_they_end() {
        let begin = Instant::now();
        let mut becoming = Becoming::default();
        becoming.note(7, begin);
        becoming.note(8, begin);
        assert_eq!(becoming.due(), Some(begin + TIMES[0]));
        assert_eq!(becoming.take(begin), None);
        becoming.forget(7);
        assert_eq!(becoming.take(begin + TIMES[0]), Some(8));
        assert_eq!(becoming.take(begin + TIMES[0]), None);
        assert_eq!(becoming.due(), Some(begin + TIMES[1]));
        becoming.forget(8);
        assert_eq!(becoming.due(), None, "nothing wakes us for it");
    }
}
