//! What programs on several cores have in common: on which cores their loops run ([`choose`]), how one loop is asked for
//! something by another ([`Bell`]), and what became of a loop's thread ([`ended`]).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use exos::Error;
use rustix::event::{EventfdFlags, eventfd};

/// The cores for this many loops, of those that this process may use: the first ones; or from the one on that is named; or
/// those that are named. None for one loop that runs anywhere.
///
/// # Errors
///
/// There are not as many, or others are named.
pub fn choose(count: usize, named: &[usize], allowed: &[usize]) -> Result<Vec<usize>, Error> {
    let is_allowed = |core: &usize| allowed.contains(core);
    let twice = |at: usize| named[..at].contains(&named[at]);
    if let Some(core) = named.iter().find(|core| !is_allowed(core)) {
        return Err(
            Error::new(format!("this process may not run on core {core}"))
                .mend(format!("choose from {allowed:?}")),
        );
    }
    if let Some(at) = (0..named.len()).find(|&at| twice(at)) {
        return Err(Error::new(format!("core {} is named twice", named[at]))
            .mend("name each once: a core runs one stack"));
    }
    match named {
        [] if count == 1 => Ok(Vec::new()),
        [] | [_] => {
            let first = named.first().map_or(0, |first| place_of(*first, allowed));
            let cores: Vec<usize> = allowed.iter().skip(first).take(count).copied().collect();
            match cores.len() == count {
                true => Ok(cores),
                false => Err(too_few(count, &cores)),
            }
        }
        _ if named.len() == count => Ok(named.to_vec()),
        _ => Err(Error::new(format!(
            "{} cores are named, and {count} are wanted",
            named.len()
        ))
        .mend("name the first, or as many as --cores says")),
    }
}

fn place_of(core: usize, allowed: &[usize]) -> usize {
    let at = allowed.iter().position(|&other| other == core);
    at.unwrap_or(0)
}

fn too_few(count: usize, cores: &[usize]) -> Error {
    let there = cores.len();
    Error::new(format!(
        "{count} cores are wanted, and this process may use {there}: {cores:?}"
    ))
    .mend(format!(
        "give --cores {there}, or let it run on more (taskset, cpuset)"
    ))
}

/// By which other loops ask one for something, of things that are bits of a word. It costs the one that is asked a comparison
/// each turn, of a word that is written when somebody asks and never otherwise.
#[derive(Debug)]
pub struct Bell {
    asked: AtomicU32,
    wake: OwnedFd,
}

impl Bell {
    /// Nobody has asked for anything.
    ///
    /// # Errors
    ///
    /// The kernel has no descriptor for it.
    pub fn new() -> Result<Self, Error> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let wake = eventfd(0, flags);
        Ok(Self {
            asked: AtomicU32::new(0),
            wake: wake.map_err(|e| Error::io("cannot make an event descriptor", e))?,
        })
    }

    /// What was asked since the last call.
    #[inline]
    pub fn take(&self) -> u32 {
        if self.asked.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        // First the descriptor: what is asked after that wakes again.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        self.asked.swap(0, Ordering::Acquire)
    }

    /// Asks for this.
    pub fn ring(&self, what: u32) {
        self.asked.fetch_or(what, Ordering::Release);
        // It cannot fail but by being full, and then it is readable.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

impl AsFd for Bell {
    /// Readable when something was asked.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// How a loop on a core ended, whose thread was joined.
///
/// # Errors
///
/// Its own, or that it has panicked.
pub fn ended<T>(core: usize, joined: std::thread::Result<Result<T, Error>>) -> Result<T, Error> {
    let how = joined.unwrap_or_else(|_| {
        Err(
            Error::new(format!("the thread on core {core} has panicked"))
                .mend("report what it says above, it is an error of the program"),
        )
    });
    how.map_err(|e| Error {
        what: format!("on core {core}: {}", e.what),
        ..e
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    #[test]
    fn cores_are_the_first_ones_or_those_that_are_named() {
        let allowed = [1, 2, 5, 7];
        for (count, named, wanted) in [
            (1, &[][..], &[][..]),
            (1, &[5], &[5]),
            (2, &[], &[1, 2]),
            (3, &[2], &[2, 5, 7]),
            (2, &[7, 1], &[7, 1]),
        ] {
            assert_eq!(
                choose(count, named, &allowed).unwrap(),
                wanted,
                "{count} {named:?}"
            );
        }
        for (count, named, says) in [
            (5, &[][..], "give --cores 4"),
            (2, &[7], "give --cores 1"),
            (2, &[3, 4], "choose from [1, 2, 5, 7]"),
            (1, &[3], "choose from [1, 2, 5, 7]"),
            (3, &[1, 2], "2 cores are named, and 3 are wanted"),
            (2, &[2, 2], "core 2 is named twice"),
        ] {
            let error = choose(count, named, &allowed).unwrap_err().to_string();
            assert!(error.contains(says), "{count} {named:?}: {error}");
        }
    }

    #[test]
    fn what_is_asked_is_heard_once_and_wakes() {
        let bell = Bell::new().unwrap();
        let is_awake = || {
            let mut fds = [PollFd::new(&bell, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
        };
        assert_eq!((bell.take(), is_awake()), (0, false));
        bell.ring(1);
        bell.ring(4);
        assert!(is_awake());
        assert_eq!((bell.take(), is_awake()), (5, false));
        assert_eq!(bell.take(), 0);
    }

    #[test]
    fn the_end_of_a_thread() {
        assert_eq!(ended(3, Ok(Ok(7))).unwrap(), 7);
        let error = ended::<()>(3, Ok(Err(Error::new("no queue")))).unwrap_err();
        assert_eq!(error.to_string(), "on core 3: no queue");
        let error = ended::<()>(3, Err(Box::new("of this test"))).unwrap_err();
        assert!(error.to_string().contains("core 3 has panicked"), "{error}");
    }
}
