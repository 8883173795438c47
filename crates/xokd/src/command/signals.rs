//! The signals that the daemon answers: stop, and read the policy again. Those that would end it by default, and that a
//! rotation of logs or the kernel may send (SIGIO when a lease is broken), do nothing.

use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use exos_host::Error;
use exos_host::error::Result;
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGIO, SIGTERM, SIGUSR1, SIGUSR2};

/// Signals caught for the life of the process: handlers set a flag and write to a socket.
pub(super) struct Signals {
    wake: UnixStream,
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    pub(super) fn catch() -> Result<Self> {
        let what = |e| Error::io("cannot catch signals", e);
        let (wake, write) = UnixStream::pair().map_err(what)?;
        wake.set_nonblocking(true).map_err(what)?;
        let (stop, reload) = (Arc::default(), Arc::default());
        for (signal, flag) in [(SIGINT, &stop), (SIGTERM, &stop), (SIGHUP, &reload)] {
            signal_hook::flag::register(signal, Arc::clone(flag)).map_err(what)?;
            let write = write.try_clone().map_err(what)?;
            signal_hook::low_level::pipe::register(signal, write).map_err(what)?;
        }
        for signal in [SIGUSR1, SIGUSR2, SIGALRM, SIGIO] {
            signal_hook::flag::register(signal, Arc::default()).map_err(what)?;
        }
        Ok(Self { wake, stop, reload })
    }

    /// Readable when a signal came.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// We are to stop.
    pub(super) fn stop(&self) -> bool {
        let mut bytes = [0; 64];
        while (&self.wake).read(&mut bytes).is_ok_and(|n| n > 0) {}
        self.stop.load(Ordering::Relaxed)
    }

    /// The policy is to be read again.
    pub(super) fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::low_level::raise;

    #[test]
    fn what_has_no_meaning_ends_nothing() {
        let signals = Signals::catch().expect("signals");
        for signal in [SIGUSR1, SIGUSR2, SIGALRM, SIGIO] {
            raise(signal).expect("raised");
        }
        assert!(!signals.stop() && !signals.take_reload());
        raise(SIGHUP).expect("raised");
        assert!(signals.take_reload());
    }
}
