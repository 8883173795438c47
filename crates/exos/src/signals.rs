//! The signals that a serving program answers: stop, and say how it goes.
//!
//! SIGINT and SIGTERM ask it to stop, SIGUSR1 to print its statistics. Their handlers set a flag
//! and write to a socket that the program's loop waits on.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use exos_host::Error;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};

/// Signals caught for the life of the process.
pub struct Signals {
    wake: UnixStream,
    stop: Arc<AtomicBool>,
    report: Arc<AtomicBool>,
}

impl Signals {
    /// Catch them from now on.
    pub fn catch() -> Result<Self, Error> {
        let what = |e| Error::io("cannot catch signals", e);
        let (wake, write) = UnixStream::pair().map_err(what)?;
        wake.set_nonblocking(true).map_err(what)?;
        let stop = Arc::new(AtomicBool::new(false));
        let report = Arc::new(AtomicBool::new(false));
        for (signal, flag) in [(SIGINT, &stop), (SIGTERM, &stop), (SIGUSR1, &report)] {
            signal_hook::flag::register(signal, Arc::clone(flag)).map_err(what)?;
            let write = write.try_clone().map_err(what)?;
            signal_hook::low_level::pipe::register(signal, write).map_err(what)?;
        }
        Ok(Self { wake, stop, report })
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
        let asked =
            self.report.load(Ordering::Relaxed) && self.report.swap(false, Ordering::Relaxed);
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
