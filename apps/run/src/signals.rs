//! What signals ask of `exos run`.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use signal_hook::consts::{SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};

/// Those that are caught.
pub(crate) const CAUGHT: [i32; 5] = [SIGTERM, SIGUSR1, SIGCHLD, SIGINT, SIGQUIT];

/// What is asked of us by signals.
pub(crate) struct Signals {
    /// To end (SIGTERM), which goes to the program. What a terminal sends it has by itself.
    pub to_end: UnixStream,
    /// To say what was counted (SIGUSR1), which is for us.
    pub to_report: UnixStream,
    /// To take the end of a child (SIGCHLD): the program, or one that it has left behind.
    pub to_reap: UnixStream,
}

impl Signals {
    pub fn catch() -> io::Result<Self> {
        let (to_end, to_report, to_reap) = (pipe(SIGTERM)?, pipe(SIGUSR1)?, pipe(SIGCHLD)?);
        // We end when the program does.
        signal_hook::flag::register(SIGINT, Arc::default())?;
        signal_hook::flag::register(SIGQUIT, Arc::default())?;
        Ok(Self {
            to_end,
            to_report,
            to_reap,
        })
    }
}

/// What a signal writes to.
pub(crate) fn pipe(signal: i32) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(signal, theirs)?;
    Ok(ours)
}

/// Empties what signals have written to, and says whether any has: one request or several, they are answered once.
pub(crate) fn take(mut requests: &UnixStream) -> bool {
    let (mut bytes, mut is_any) = ([0; 16], false);
    while matches!(requests.read(&mut bytes), Ok(1..)) {
        is_any = true;
    }
    is_any
}
