//! The guard: the process between `exos run` and its program, which leaves nothing of the program behind.
//!
//! It starts the program, adopts what that leaves behind (`PR_SET_CHILD_SUBREAPER`), and ends when the last of them has ended, with the
//! status of the program. So there is a process that knows them all when `exos run` is killed: the kernel tells the guard
//! (`PR_SET_PDEATHSIG`), and it asks them to end, and kills those that have not in time. What `exos run` orders ([`ORDER`]) it passes on as
//! SIGTERM: to the program, or where that has ended already to what it has left behind. SIGTERM itself, which both are sent by who asks their
//! process group, is for `exos run`: twice it would be taken for an order to kill at once.
//!
//! It is this program itself, started by `exos run` (`--guard-of`), under the filter of the program's calls: they begin here.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::time::Instant;

use exos::Error;
use exos_host::children::{adopt_orphans, end_descendants, end_with_us, reap, signal_descendants};
use procfs::process::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getppid, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};

use crate::limits::{GOODBYE_TIME, LEFT_LOOK};
use crate::signals::{pipe, take};
use crate::supervise::exit_code;

/// The option by which `exos run` starts it, with its own number.
const OPTION: &str = "--guard-of";

/// By what `exos run` has the program asked to end.
pub(crate) const ORDER: Signal = Signal::USR2;

/// What the end of a guard is for `exos run`: one whom the order has ended, before it could hear any, was asked to end.
pub(crate) fn ending(status: ExitStatus) -> ExitStatus {
    match status.signal() == Some(ORDER.as_raw()) {
        true => ExitStatus::from_raw(SIGTERM),
        false => status,
    }
}

/// The command that starts a program behind a guard of this process's.
pub(crate) fn command(program: &[OsString]) -> Command {
    // By this name it is the file that runs, also where another has taken its place meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("exos").args(["run", OPTION]);
    command.arg(std::process::id().to_string()).arg("--");
    command.args(program);
    // Without us it would not hear when it is to end.
    end_with_us(&mut command);
    command
}

/// Is the guard of a program that the process of this number runs.
///
/// # Errors
///
/// The program cannot be started, or no more be waited for.
pub(crate) fn guard(supervisor: u32, program: &[OsString]) -> Result<ExitCode, Error> {
    let signals = Signals::catch().map_err(|e| Error::io("cannot catch signals", e))?;
    adopt_orphans().map_err(|e| Error::io("cannot adopt orphans", e))?;
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]);
    end_with_us(&mut command);
    let child = command.spawn().map_err(|e| {
        let name = program[0].to_string_lossy();
        Error::io(format!("cannot run {name}"), e)
            .mend("check its name and whether it can be executed")
    })?;
    let guard = Guard {
        supervisor: Pid::from_raw(supervisor.cast_signed()),
        program: Pid::from_child(&child),
        ended: None,
        over: None,
    };
    let status = guard.run(&signals);
    status.map_or_else(
        |e| Err(Error::io("cannot wait for the program", e)),
        |status| Ok(status.map_or(ExitCode::FAILURE, exit_code)),
    )
}

struct Guard {
    supervisor: Option<Pid>,
    program: Pid,
    /// How the program has ended.
    ended: Option<ExitStatus>,
    /// When what it has left behind is killed, once that was asked to end.
    over: Option<Instant>,
}

impl Guard {
    /// Until none is left; gives how the program has ended.
    fn run(mut self, signals: &Signals) -> io::Result<Option<ExitStatus>> {
        loop {
            let (program, ended) = (self.program, &mut self.ended);
            let is_any_left = reap(|pid, status| {
                if pid == program {
                    ended.get_or_insert(status);
                }
            })?;
            if !is_any_left {
                return Ok(self.ended);
            }
            if getppid() != self.supervisor {
                end_descendants(GOODBYE_TIME)?;
                return Ok(self.ended);
            }
            let now = Instant::now();
            let is_over = self.over.is_some_and(|over| over <= now);
            // Those that fork meanwhile are found by the next look.
            if is_over {
                signal_descendants(Signal::KILL)?;
            }
            if signals.wait(if is_over {
                Some(now + LEFT_LOOK)
            } else {
                self.over
            })? {
                self.ask_to_end()?;
            }
        }
    }

    /// Asks the program to end, or those that it has left behind. These get their time once.
    fn ask_to_end(&mut self) -> io::Result<()> {
        if getppid() != self.supervisor {
            return Ok(());
        }
        match (self.ended, self.over) {
            (None, _) => drop(kill_process(self.program, Signal::TERM)),
            (Some(_), None) => {
                signal_descendants(Signal::TERM)?;
                self.over = Some(Instant::now() + GOODBYE_TIME);
            }
            (Some(_), Some(_)) => self.over = Some(Instant::now()),
        }
        Ok(())
    }
}

/// What it hears of.
struct Signals {
    /// The [order](ORDER).
    to_end: UnixStream,
    /// SIGTERM, which comes when `exos run` has ended; else it is not for the guard.
    is_left: UnixStream,
    /// SIGCHLD.
    to_reap: UnixStream,
}

impl Signals {
    fn catch() -> io::Result<Self> {
        // Those of a terminal go to the program by themselves, and the last is for `exos run`. One that was started to ignore them does.
        let own = Process::myself().and_then(|process| process.status());
        let ignored = own.map_err(io::Error::other)?.sigign;
        for signal in [SIGINT, SIGQUIT, SIGHUP, SIGUSR1] {
            if ignored & (1 << (signal - 1)) == 0 {
                signal_hook::flag::register(signal, Arc::default())?;
            }
        }
        Ok(Self {
            to_end: pipe(ORDER.as_raw())?,
            is_left: pipe(SIGTERM)?,
            to_reap: pipe(SIGCHLD)?,
        })
    }

    /// Waits for one, or until then; whether it was asked to end.
    fn wait(&self, until: Option<Instant>) -> io::Result<bool> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let all = [&self.to_end, &self.is_left, &self.to_reap].map(|signal| signal.as_fd());
        let mut fds = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, left.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        take(&self.is_left);
        take(&self.to_reap);
        Ok(take(&self.to_end))
    }
}
