//! Packets as they come: from the daemon, which has them copied in the kernel, and from programs that attach directly,
//! which copy them themselves.
//!
//! The loop takes what is there, hands on what it put out when there is nothing more, and then sleeps over the daemon's
//! ring and socket and the signals. Programs tell nobody of a packet, because that would cost them a system call: their
//! rings are looked at a hundred times a second. It ends by a signal, after `--count` packets, when nobody reads the output
//! any more, when the daemon goes, or the process that was asked for.

mod clock;
mod daemon;
mod names;
mod programs;

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use exos::signals::Signals;
use exos::via::control::Control;
use exos::watch::watchable;
use exos_host::error::{Error, ErrorKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cli::DumpArgs;
use crate::output::Output;
use daemon::{Daemon, Opened};
use programs::Programs;

/// How often the rings of programs are looked at: their 8 MiB hold what comes in that time at 6 Gbit/s.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How often programs are looked for that have begun, and those let go that have ended.
const REFRESH_EVERY: Duration = Duration::from_millis(500);

pub(crate) fn run(args: &DumpArgs, mut output: Output) -> Result<ExitCode, Error> {
    let signals = Signals::catch()?;
    let mut live = Live::open(args)?;
    exos_program::info!(
        "exos dump: listening on {}, snap length {} bytes",
        live.sources(args).join(", "),
        args.snaplen()
    );
    let ended = live.turns(&mut output, &signals);
    let lost = live.lost(output.has_enough());
    output.finish(lost.map_or(0, |lost| lost.packets))?;
    exos_program::info!("exos dump: {}", counts(output.captured, lost));
    ended.map(|()| ExitCode::SUCCESS)
}

/// Packets for which there was no room in a ring.
#[derive(Clone, Copy, Debug)]
struct Lost {
    packets: u64,
    /// Some of them may have come after the last packet that was put out.
    at_most: bool,
}

/// How it went, in tcpdump's manner.
fn counts(captured: u64, lost: Option<Lost>) -> String {
    let plural = if captured == 1 { "" } else { "s" };
    let lost = match lost {
        Some(Lost { packets, at_most }) if at_most && packets > 0 => {
            format!("at most {packets} lost by the ring")
        }
        Some(Lost { packets, .. }) => format!("{packets} lost by the ring"),
        None => "it is not known how many were lost".to_owned(),
    };
    format!("{captured} packet{plural} captured, {lost}")
}

struct Live {
    daemon: Option<Daemon>,
    /// `None` where the daemon alone is asked.
    programs: Option<Programs>,
    refreshed: Instant,
    /// Ends with the process that was asked for.
    ends_with_programs: bool,
}

impl Live {
    fn open(args: &DumpArgs) -> Result<Self, Error> {
        // Who names a daemon means that one.
        let mut programs = args.xokd.is_none().then(|| Programs::new(args));
        if let Some(programs) = &mut programs {
            programs.refresh()?;
        }
        let some_programs = programs.as_ref().is_some_and(|all| !all.is_empty());
        let path = args.xokd.clone().unwrap_or_else(exos::via::socket_path);
        let connected = Control::connect(&path);
        let mut others = Vec::new();
        let daemon = match connected {
            Ok(control) => match Daemon::open(control, args)? {
                Opened::Copies(daemon) => Some(*daemon),
                Opened::Others(names) => {
                    others = names;
                    None
                }
            },
            Err(_) if some_programs => None,
            Err(error) => return Err(nobody(error, args)),
        };
        if daemon.is_none() && !some_programs {
            let what = match (args.pid, &args.interface) {
                (Some(pid), _) => format!("process {pid} shows nobody its packets"),
                (_, name) => format!(
                    "no daemon and no program shows packets of {}",
                    name.as_deref().unwrap_or("an interface")
                ),
            };
            return Err(Error::new(what).mend(mend(args, others)));
        }
        Ok(Self {
            ends_with_programs: args.pid.is_some() && daemon.is_none(),
            daemon,
            programs,
            refreshed: Instant::now(),
        })
    }

    /// Where packets come from, for a person.
    fn sources(&self, args: &DumpArgs) -> Vec<String> {
        let daemon = self.daemon.iter().map(|_| match &args.interface {
            Some(interface) => format!("{interface} by the daemon"),
            None => "all of the daemon's interfaces".to_owned(),
        });
        let programs = self.programs.iter().flat_map(Programs::names);
        daemon.chain(programs).collect()
    }

    fn turns(&mut self, output: &mut Output, signals: &Signals) -> Result<(), Error> {
        while !signals.stop_requested() {
            match self.take(output)? {
                ControlFlow::Break(()) => return Ok(()),
                ControlFlow::Continue(true) => continue,
                ControlFlow::Continue(false) => {}
            }
            if output.flush()?.is_break() {
                return Ok(());
            }
            if signals.take_report_request() {
                exos_program::info!("exos dump: {}", counts(output.captured, self.lost(false)));
            }
            if let Some(daemon) = &mut self.daemon {
                daemon.listen()?;
            }
            if self.refresh()?.is_break() {
                return Ok(());
            }
            self.sleep(signals)?;
        }
        Ok(())
    }

    /// Puts out what is there; true when there may be more.
    fn take(&mut self, output: &mut Output) -> Result<ControlFlow<(), bool>, Error> {
        let mut more = false;
        if let Some(daemon) = &mut self.daemon {
            match daemon.take(output)? {
                ControlFlow::Continue(some) => more |= some,
                ended => return Ok(ended),
            }
        }
        if let Some(programs) = &mut self.programs {
            match programs.take(output)? {
                ControlFlow::Continue(some) => more |= some,
                ended => return Ok(ended),
            }
        }
        Ok(ControlFlow::Continue(more))
    }

    /// Sees to programs that come and go. `Break` when the one that was asked for has gone.
    fn refresh(&mut self) -> Result<ControlFlow<()>, Error> {
        if let Some(programs) = &mut self.programs
            && self.refreshed.elapsed() >= REFRESH_EVERY
        {
            self.refreshed = Instant::now();
            programs.refresh()?;
            if self.ends_with_programs && programs.is_empty() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// What rings had no room for: up to now, or where that is known up to the last packet that was put out. `None` when
    /// the daemon does not say.
    fn lost(&mut self, up_to_last: bool) -> Option<Lost> {
        let programs = self.programs.as_ref();
        let of_programs = programs.map_or(0, |all| all.lost(up_to_last));
        let of_daemon = match &mut self.daemon {
            Some(daemon) => daemon.lost()?,
            None => 0,
        };
        Some(Lost {
            packets: of_daemon + of_programs,
            at_most: up_to_last && self.daemon.is_some(),
        })
    }

    fn sleep(&self, signals: &Signals) -> Result<(), Error> {
        let mut fds = vec![signals.fd()];
        fds.extend(self.daemon.iter().flat_map(Daemon::fds));
        let watched = self.programs.as_ref().filter(|all| !all.is_empty());
        let time = match (watched, &self.programs) {
            (Some(_), _) => Some(LOOK_EVERY),
            (None, Some(_)) => Some(REFRESH_EVERY),
            (None, None) => None,
        };
        let time = time.map(|time| Timespec::try_from(time).expect("a short time"));
        let fds = fds.into_iter();
        let mut fds: Vec<_> = fds
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        match poll(&mut fds, time.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(Error::io("cannot wait for packets", e)),
        }
    }
}

/// What to do where there is nothing to look at.
const MEND: &str = "start a program (as its user, or root, you see its packets) or the daemon (exos daemon --interface NAME); \
    what passes the host's own stack is seen by tcpdump, files are read with -r";

/// What to do where nobody shows packets of the interface that is named: there are `others` of the daemon's, and those of programs.
fn mend(args: &DumpArgs, mut others: Vec<String>) -> String {
    if args.interface.is_some() && args.xokd.is_none() {
        others.extend(watchable(args.pid).into_iter().map(|it| it.interface));
    }
    match &args.interface {
        Some(_) => mend_among(others),
        None => MEND.to_owned(),
    }
}

fn mend_among(mut interfaces: Vec<String>) -> String {
    interfaces.sort_unstable();
    interfaces.dedup();
    match interfaces.is_empty() {
        true => MEND.to_owned(),
        false => format!(
            "packets are shown of {}: name one of these, or {MEND}",
            interfaces.join(", ")
        ),
    }
}

/// There is no daemon, and no program that this user may watch.
fn nobody(error: Error, args: &DumpArgs) -> Error {
    match (&args.xokd, args.pid) {
        // All options that help are named here.
        (Some(_), _) => error.of_kind(ErrorKind::Other).mend(
            "start the daemon (exos daemon --interface NAME), name its socket, or leave --xokd out to see programs without a daemon",
        ),
        (None, Some(pid)) => Error::new(format!("process {pid} shows nobody its packets, and there is no daemon")).mend(MEND),
        (None, None) => match &args.interface {
            Some(name) => Error::new(format!("no program shows packets of {name}, and there is no daemon")),
            None => Error::new("there is no program and no daemon that shows packets"),
        }
        .mend(mend(args, Vec::new())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_there_is_not_is_answered_with_those_that_there_are() {
        let others = ["wire", "eth0", "wire"].map(str::to_owned).to_vec();
        let said = mend_among(others);
        assert!(
            said.starts_with(
                "packets are shown of eth0, wire: name one of these, or start a program"
            ),
            "{said}"
        );
        assert_eq!(mend_among(Vec::new()), MEND);
    }
}
