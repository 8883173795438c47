//! The signals that a serving program answers: stop, and say how it goes.
//!
//! SIGINT and SIGTERM ask it to stop, SIGUSR1 to print its statistics; a program that knows what to do
//! about it catches more ([`Ask`]). Their handlers set a flag and write to a socket that the program's
//! loop waits on.

use std::io::Read as _;
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
            report,
            asked: Default::default(),
        };
        for signal in [SIGINT, SIGTERM] {
            signals.register(signal, &signals.stop)?;
        }
        signals.register(SIGUSR1, &signals.report)?;
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

    /// Empty the socket, or it would keep the loop awake.
    fn drain(&self) {
        let mut bytes = [0; 64];
        while (&self.wake).read(&mut bytes).is_ok_and(|n| n > 0) {}
    }
}
