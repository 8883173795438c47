//! The loop: scrapers, and the daemon asked on their behalf.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use exos::signals::Signals;
use exos_host::Error;
use exos_host::caps::{self, CapabilitySet};
use exos_program::status::{Daemon, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cli::MetricsArgs;
use crate::exposition;
use crate::server::{Now, Server};

/// Serves until it is told to stop.
///
/// # Errors
/// The address cannot be listened at.
pub fn run(args: &MetricsArgs) -> Result<ExitCode, Error> {
    let mut server = Server::listen(args.listen)?;
    args.user.give_up()?;
    caps::keep_only(CapabilitySet::empty())?;
    let signals = Signals::catch()?;
    let mut source = Source::new(args.xokd.clone().unwrap_or_else(exos::via::socket_path));
    let address = server.address()?;
    exos_program::say!("metrics at http://{address}/metrics");
    let started = Instant::now();
    while !signals.stop_requested() {
        wait(&server, &signals, started.elapsed())?;
        // SIGUSR1 asks for nothing here, but has to be taken off the socket that wakes us.
        signals.take_report_request();
        server.serve(started.elapsed(), || source.text());
    }
    Ok(ExitCode::SUCCESS)
}

fn wait(server: &Server, signals: &Signals, now: Now) -> Result<(), Error> {
    let left = server.deadline().map(|at| at.saturating_sub(now));
    let timeout = left.and_then(|left| Timespec::try_from(left).ok());
    let signals = signals.fd();
    let mut fds = vec![PollFd::from_borrowed_fd(signals, PollFlags::IN)];
    let interest = server.interest();
    fds.extend(interest.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(Error::io("cannot wait for scrapers", e)),
    }
}

/// Where reports come from: a daemon that may end and start again.
struct Source {
    path: PathBuf,
    daemon: Option<Daemon>,
    /// Why there was none the last time, so that it is said once.
    trouble: Option<String>,
}

impl Source {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            daemon: None,
            trouble: None,
        }
    }

    /// How the daemon is now.
    fn text(&mut self) -> String {
        // A connection that was kept may be one to a daemon that has ended since.
        let kept = self.daemon.is_some();
        let asked = match self.ask() {
            Err(_) if kept => self.ask(),
            asked => asked,
        };
        let trouble = asked.as_ref().err().map(ToString::to_string);
        if self.trouble != trouble {
            exos_program::warn!(
                "exos metrics: {}",
                trouble.as_deref().unwrap_or("the daemon is there")
            );
            self.trouble = trouble;
        }
        asked.map_or_else(|_| exposition::DOWN.to_owned(), |it| exposition::text(&it))
    }

    fn ask(&mut self) -> Result<Status, Error> {
        let mut daemon = match self.daemon.take() {
            Some(daemon) => daemon,
            None => Daemon::connect(&self.path)?,
        };
        let status = Status::parse(&daemon.report()?)?;
        self.daemon = Some(daemon);
        Ok(status)
    }
}
