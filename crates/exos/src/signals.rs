//! The signals that a serving program answers: stop, and say how it goes.
//!
//! SIGINT and SIGTERM ask it to stop, SIGUSR1 to print its statistics; a program that knows what to do
//! about it catches more ([`Ask`]). SIGUSR2 does nothing to a program that has no use for it. Their handlers set a flag and then write to a socket that the program's
//! loop waits on.
//!
//! The socket is one for all signals, and anyone who takes one empties it. So it is readable for as long as there is a signal
//! that the program has not taken: whichever flags are set when it has been emptied are rung for again. A program takes
//! every signal that it catches, or its loop does not rest.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use exos_host::Error;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

/// What a program may be asked besides, if it catches the signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGUSR2: open the log again, which somebody has renamed.
    Reopen,
}

impl Ask {
    const fn signal(self) -> i32 {
        match self {
            Self::Reload => SIGHUP,
            Self::Reopen => SIGUSR2,
        }
    }
}

/// Signals caught for the life of the process.
pub struct Signals {
    wake: UnixStream,
    write: UnixStream,
    stop: Arc<AtomicBool>,
    /// The program knows that it is to stop.
    stop_taken: AtomicBool,
    report: Arc<AtomicBool>,
    asked: [Arc<AtomicBool>; 2],
}

impl Signals {
    /// Catch them from now on.
    pub fn catch() -> Result<Self, Error> {
        let what = |e| Error::io("cannot catch signals", e);
        let (wake, write) = UnixStream::pair().map_err(what)?;
        wake.set_nonblocking(true).map_err(what)?;
        let stop = Arc::new(AtomicBool::new(false));
        let report = Arc::new(AtomicBool::new(false));
        let signals = Self {
            wake,
            write,
            stop,
            stop_taken: AtomicBool::new(false),
            report,
            asked: Default::default(),
        };
        for signal in [SIGINT, SIGTERM] {
            signals.register(signal, &signals.stop)?;
        }
        signals.register(SIGUSR1, &signals.report)?;
        // Its default would end the program: a log rotation that tells a server without a log, say.
        signal_hook::flag::register(SIGUSR2, Arc::default()).map_err(what)?;
        Ok(signals)
    }

    /// Catch this one too.
    pub fn catch_also(&self, ask: Ask) -> Result<(), Error> {
        self.register(ask.signal(), &self.asked[ask as usize])
    }

    fn register(&self, signal: i32, flag: &Arc<AtomicBool>) -> Result<(), Error> {
        let what = |e| Error::io("cannot catch signals", e);
        signal_hook::flag::register(signal, Arc::clone(flag)).map_err(what)?;
        let write = self.write.try_clone().map_err(what)?;
        signal_hook::low_level::pipe::register(signal, write).map_err(what)?;
        Ok(())
    }

    /// Readable when a signal came.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The program was asked to stop.
    pub fn stop_requested(&self) -> bool {
        let asked = self.stop.load(Ordering::Relaxed);
        if asked {
            self.stop_taken.store(true, Ordering::Relaxed);
            self.drain();
        }
        asked
    }

    /// The program was asked for its statistics since the last call.
    pub fn take_report_request(&self) -> bool {
        self.take(&self.report)
    }

    /// The program was asked this since the last call.
    pub fn take_asked(&self, ask: Ask) -> bool {
        self.take(&self.asked[ask as usize])
    }

    fn take(&self, flag: &AtomicBool) -> bool {
        let asked = flag.load(Ordering::Relaxed) && flag.swap(false, Ordering::Relaxed);
        if asked {
            self.drain();
        }
        asked
    }

    /// Empty the socket, or it would keep the loop awake; but for signals that nobody has taken.
    fn drain(&self) {
        let mut bytes = [0; 64];
        while (&self.wake).read(&mut bytes).is_ok_and(|n| n > 0) {}
        // A handler sets its flag before it writes: whose byte was read has its flag set by now.
        if self.is_any_untaken() {
            // It was empty, so there is room, unless handlers have filled it, which is as good.
            let _ = (&self.write).write(&[0]);
        }
    }

    fn is_any_untaken(&self) -> bool {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::SeqCst);
        let is_stop_untaken = is_set(&self.stop) && !is_set(&self.stop_taken);
        is_stop_untaken || is_set(&self.report) || self.asked.iter().any(|asked| is_set(asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use signal_hook::low_level::raise;

    #[test]
    fn a_signal_for_which_there_is_no_use_ends_nothing() {
        let _signals = Signals::catch().expect("signals");
        raise(SIGUSR2).expect("it is caught");
    }

    fn is_readable(signals: &Signals) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&at_once)).expect("poll") > 0
    }

    /// What a loop does between two waits, while a signal comes after it has been looked for, and before another is taken.
    #[test]
    fn a_signal_that_comes_while_others_are_taken_wakes_the_loop() {
        let signals = Signals::catch().expect("signals");
        signals.catch_also(Ask::Reload).expect("SIGHUP");
        assert!(!is_readable(&signals));
        raise(SIGHUP).expect("raised");
        assert!(is_readable(&signals));
        assert!(!signals.stop_requested() && !signals.take_report_request());
        raise(SIGUSR1).expect("raised");
        assert!(signals.take_asked(Ask::Reload));
        assert!(is_readable(&signals), "the report is wanted yet");
        assert!(!signals.stop_requested());
        raise(SIGTERM).expect("raised");
        assert!(signals.take_report_request());
        assert!(is_readable(&signals), "and so is the end");
        assert!(signals.stop_requested());
        assert!(!is_readable(&signals), "nothing is wanted any more");

        // On the way to the end the program goes on answering, and rests in between.
        raise(SIGUSR1).expect("raised");
        assert!(is_readable(&signals) && signals.take_report_request());
        assert!(!is_readable(&signals) && signals.stop_requested());
    }
}
