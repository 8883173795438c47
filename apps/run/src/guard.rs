//! The guard: the process between `exos run` and its program, which leaves nothing of the program behind.
//!
//! It starts the program, adopts what that leaves behind (`PR_SET_CHILD_SUBREAPER`), and ends when the last of them has ended, with the
//! status of the program. So there is a process that knows them all when `exos run` is killed: the kernel tells the guard
//! (`PR_SET_PDEATHSIG`), and it asks them to end, and kills those that have not in time. What `exos run` orders ([`ORDER`]) it passes on as
//! SIGTERM: to the program, or where that has ended already to what it has left behind. SIGTERM itself is for `exos run`; where the guard has
//! it too, their whole process group was asked, and those that are of it are not asked a second time, which some take for an order to end at
//! once.
//!
//! The program starts with the signals ignored and blocked that `exos run` was started with, whatever the guard itself catches.
//!
//! It is this program itself, started by `exos run` (`--guard-of`), under the filter of the program's calls: they begin here.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::time::Instant;

use exos::Error;
use exos_host::children::{adopt_orphans, end_descendants, end_with_us, reap, signal_descendants};
use exos_host::signals::{StartSignals, block, start_blocked, unblock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getpgid, getpgrp, getppid, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};

use crate::limits::{GOODBYE_TIME, GROUP_MEMORY, GROUP_TIME, LEFT_LOOK};
use crate::signals::{pipe, take};
use crate::supervise::exit_code;

/// The option by which `exos run` starts it, with its own number.
const OPTION: &str = "--guard-of";

/// And by which it says what signals the program is to start with.
const SIGNALS: &str = "--start-signals";

/// By what `exos run` has the program asked to end.
pub(crate) const ORDER: Signal = Signal::USR2;

/// The command that starts a program, with these signals, behind a guard of this process's.
pub(crate) fn command(program: &[OsString], signals: StartSignals) -> Command {
    // By this name it is the file that runs, also where another has taken its place meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("exos").args(["run", OPTION]);
    command.arg(std::process::id().to_string());
    command.arg(format!("{SIGNALS}={signals}")).arg("--");
    command.args(program);
    // Without us it would not hear when it is to end.
    end_with_us(&mut command);
    // What is ordered before it can hear waits for it.
    start_blocked(&mut command, ORDER);
    command
}

/// Is the guard of a program that the process of this number runs.
///
/// # Errors
///
/// The program cannot be started, or no more be waited for.
pub(crate) fn guard(
    supervisor: u32,
    program: &[OsString],
    start_signals: StartSignals,
) -> Result<ExitCode, Error> {
    let signals = Signals::catch().map_err(|e| Error::io("cannot catch signals", e))?;
    adopt_orphans().map_err(|e| Error::io("cannot adopt orphans", e))?;
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]);
    end_with_us(&mut command);
    start_signals.give(&mut command);
    let child = signals.start(&mut command).map_err(|e| {
        let name = program[0].to_string_lossy();
        Error::io(format!("cannot run {name}"), e)
            .mend("check its name and whether it can be executed")
    })?;
    let guard = Guard {
        supervisor: Pid::from_raw(supervisor.cast_signed()),
        program: Pid::from_child(&child),
        ended: None,
        over: None,
        asked: None,
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
    /// When it was sent SIGTERM itself.
    asked: Option<Instant>,
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
                signal_descendants(Signal::KILL, None)?;
            }
            let until = if is_over {
                Some(now + LEFT_LOOK)
            } else {
                self.over
            };
            if self.hear(signals, until)? {
                let group = self.asked_group(signals)?;
                self.ask_to_end(group)?;
            }
        }
    }

    /// Waits for signals, or until then; whether it was ordered to have the program end.
    fn hear(&mut self, signals: &Signals, until: Option<Instant>) -> io::Result<bool> {
        let heard = signals.wait(until)?;
        if heard.is_asked {
            self.asked = Some(Instant::now());
        }
        Ok(heard.is_ordered)
    }

    /// The process group where all of it was asked to end, as this process was.
    fn asked_group(&mut self, signals: &Signals) -> io::Result<Option<Pid>> {
        let now = Instant::now();
        let mut is_over = false;
        loop {
            // Another one, of which `exos run` makes no order, is not this one.
            let is_recent = |asked: Instant| now < asked + GROUP_MEMORY;
            if self.asked.take().is_some_and(is_recent) {
                return Ok(Some(getpgrp()));
            }
            if is_over || getppid() != self.supervisor {
                return Ok(None);
            }
            // What has come in this time is heard, also where this process had no turn until it was over.
            is_over = now.elapsed() >= GROUP_TIME;
            self.hear(signals, Some(now + GROUP_TIME))?;
        }
    }

    /// Asks the program to end, or those that it has left behind, but for those of a process group that was asked. They get their time
    /// once.
    fn ask_to_end(&mut self, but: Option<Pid>) -> io::Result<()> {
        if getppid() != self.supervisor {
            return Ok(());
        }
        match (self.ended, self.over) {
            (None, _) if but.is_some() && getpgid(Some(self.program)).ok() == but => {}
            (None, _) => drop(kill_process(self.program, Signal::TERM)),
            (Some(_), None) => {
                signal_descendants(Signal::TERM, but)?;
                self.over = Some(Instant::now() + GOODBYE_TIME);
            }
            (Some(_), Some(_)) => self.over = Some(Instant::now()),
        }
        Ok(())
    }
}

/// What has come.
#[derive(Default)]
struct Heard {
    is_ordered: bool,
    is_asked: bool,
}

/// Those of a terminal go to the program by themselves, and the last is for `exos run`.
const OTHERS: [i32; 4] = [SIGINT, SIGQUIT, SIGHUP, SIGUSR1];

/// What it hears of.
struct Signals {
    /// The [order](ORDER).
    to_end: UnixStream,
    /// SIGTERM: `exos run` has ended, or the whole process group is asked to end.
    asked: UnixStream,
    /// SIGCHLD.
    to_reap: UnixStream,
}

impl Signals {
    fn catch() -> io::Result<Self> {
        for signal in OTHERS {
            signal_hook::flag::register(signal, Arc::default())?;
        }
        let all = Self {
            to_end: pipe(ORDER.as_raw())?,
            asked: pipe(SIGTERM)?,
            to_reap: pipe(SIGCHLD)?,
        };
        unblock(&OTHERS)?;
        unblock(&[ORDER.as_raw(), SIGTERM, SIGCHLD])?;
        Ok(all)
    }

    /// Starts the program. What its process group is sent meanwhile it has from its first moment on, and is not caught in its place.
    fn start(&self, command: &mut Command) -> io::Result<Child> {
        block(&OTHERS)?;
        block(&[SIGTERM])?;
        let child = command.spawn();
        unblock(&OTHERS)?;
        unblock(&[SIGTERM])?;
        // There was no program when the group was asked, or not for all of that time: the order is its request.
        take(&self.asked);
        child
    }

    /// Waits for one, or until then.
    fn wait(&self, until: Option<Instant>) -> io::Result<Heard> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let all = [&self.to_end, &self.asked, &self.to_reap].map(|signal| signal.as_fd());
        let mut fds = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, left.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Heard::default()),
            Err(error) => return Err(error.into()),
        }
        take(&self.to_reap);
        Ok(Heard {
            is_ordered: take(&self.to_end),
            is_asked: take(&self.asked),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(60);

    /// In a process of its own, for it catches signals.
    #[test]
    fn role() {
        if exos_testing::role().is_none() {
            return;
        }
        let signals = Signals::catch().expect("they are caught");
        signal_hook::low_level::raise(SIGTERM).expect("sent");
        signal_hook::low_level::raise(ORDER.as_raw()).expect("sent");
        let mut child = signals.start(&mut Command::new("true")).expect("it starts");
        let heard = signals.wait(Some(Instant::now())).expect("heard");
        assert!(heard.is_ordered && !heard.is_asked);
        assert!(child.wait().expect("it ends").success());
        signal_hook::low_level::raise(SIGTERM).expect("sent");
        assert!(signals.wait(None).expect("heard").is_asked);
        exos_testing::done();
    }

    #[test]
    fn a_group_that_was_asked_before_the_program_was_there_is_no_reason_not_to_ask_it() {
        assert!(exos_testing::is_done(exos_testing::play(
            "guard::tests::role",
            "starts"
        )));
    }

    /// A guard that no signal comes to, and what it would write to as its group is asked.
    fn guard(asked: Option<Instant>) -> (Guard, Signals, UnixStream) {
        let pair = || UnixStream::pair().expect("descriptors are left");
        let ((asked_by, theirs), (to_end, _), (to_reap, _)) = (pair(), pair(), pair());
        for stream in [&asked_by, &to_end, &to_reap] {
            stream.set_nonblocking(true).expect("it can be");
        }
        let guard = Guard {
            supervisor: getppid(),
            program: rustix::process::getpid(),
            ended: None,
            over: None,
            asked,
        };
        let signals = Signals {
            to_end,
            asked: asked_by,
            to_reap,
        };
        (guard, signals, theirs)
    }

    /// `exos run` may have taken an earlier one for a repetition, and ordered nothing.
    #[test]
    fn the_group_was_asked_where_that_came_with_the_order() {
        let ago = |time: Duration| Instant::now().checked_sub(time);
        let (mut late, signals, _open) = guard(ago(Duration::from_millis(700)));
        assert_eq!(late.asked_group(&signals).expect("heard"), None);
        // Just now, however late this looks.
        let (mut before, signals, _open) = guard(Some(Instant::now() + LONG));
        assert_eq!(
            before.asked_group(&signals).expect("heard"),
            Some(getpgrp())
        );
        assert_eq!(before.asked_group(&signals).expect("heard"), None);
        let (mut behind, signals, mut theirs) = guard(None);
        theirs.write_all(b"t").expect("it has room");
        assert_eq!(
            behind.asked_group(&signals).expect("heard"),
            Some(getpgrp())
        );
    }
}
