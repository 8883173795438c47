//! What a process was started with of signals, for a program that it starts in its turn: which are ignored, and which are blocked
//! (signal(7)).
//!
//! Both pass from a process to the programs that it starts, and its callers count on that: nohup(1), shells that keep ^C from what they
//! start in the background. A process that catches signals itself takes down first what it was started with, and gives it to the program.
//! What it has no handler for stays as it was.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::num::ParseIntError;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;

/// The highest number of a signal.
const LAST: i32 = 64;

/// SIGPIPE was ignored before the runtime of this language ignored it, as it does in each program.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

extern "C" fn look_at_pipe() {
    PIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
}

/// Called before `main`, and before the runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look_at_pipe;

/// The signals that a process was started with, each a bit: the first is signal 1.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StartSignals {
    ignored: u64,
    blocked: u64,
}

impl StartSignals {
    /// Those of this process, before it catches any. Those that it is to catch are not blocked in this thread from then on, so that it
    /// hears them. The others stay blocked: one that it does not catch may end it, and its caller has blocked it for the program.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn take(to_catch: &[i32]) -> io::Result<Self> {
        let ignored = bits(|signal| match signal {
            libc::SIGPIPE => PIPE_IGNORED.load(Ordering::Relaxed),
            _ => is_ignored(signal),
        });
        let blocked = mask(libc::SIG_UNBLOCK, of(to_catch))?;
        Ok(Self { ignored, blocked })
    }

    /// Has a command's process start with these. Where this process has them [blocked](block) while it starts the command, one that
    /// comes before the program runs is the program's, and is not taken by what this process catches it with.
    pub fn give(self, command: &mut Command) {
        let arrange = move || {
            for signal in 1..=LAST {
                let action = match self.ignored & bit(signal) != 0 {
                    true => libc::SIG_IGN,
                    false if is_ignored(signal) => continue,
                    false => libc::SIG_DFL,
                };
                // SAFETY: no handler is involved. What this C library keeps for itself it refuses.
                unsafe { libc::signal(signal, action) };
            }
            mask(libc::SIG_SETMASK, self.blocked).map(drop)
        };
        // SAFETY: between fork and exec the closure makes system calls, and neither allocates nor locks.
        unsafe { command.pre_exec(arrange) };
    }
}

/// Has a command's process start with this signal blocked, besides those that are here: one that comes before it can be caught is kept
/// ([`unblock`]).
pub fn start_blocked(command: &mut Command, signal: Signal) {
    let arrange = move || mask(libc::SIG_BLOCK, bit(signal.as_raw())).map(drop);
    // SAFETY: as above.
    unsafe { command.pre_exec(arrange) };
}

/// Blocks these signals in this thread from now on.
///
/// # Errors
///
/// The kernel's.
pub fn block(signals: &[i32]) -> io::Result<()> {
    mask(libc::SIG_BLOCK, of(signals)).map(drop)
}

/// These signals are not blocked in this thread from now on. One that has waited comes before this returns, where no other thread takes it.
///
/// # Errors
///
/// The kernel's.
pub fn unblock(signals: &[i32]) -> io::Result<()> {
    mask(libc::SIG_UNBLOCK, of(signals)).map(drop)
}

/// Blocks all signals in this thread: others of its process take them.
///
/// # Errors
///
/// The kernel's.
pub fn block_all() -> io::Result<()> {
    mask(libc::SIG_BLOCK, u64::MAX).map(drop)
}

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

fn bits(has: impl Fn(i32) -> bool) -> u64 {
    let those = (1..=LAST).filter(|signal| has(*signal));
    those.fold(0, |bits, signal| bits | bit(signal))
}

fn of(signals: &[i32]) -> u64 {
    signals.iter().fold(0, |bits, signal| bits | bit(*signal))
}

fn is_ignored(signal: i32) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: there is room for what it writes, and it writes it where it does not fail.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) == 0
            && now.assume_init_ref().sa_sigaction == libc::SIG_IGN
    }
}

/// Changes which signals are blocked in this thread as sigprocmask(2) has it; gives those that were. It neither allocates nor locks.
fn mask(how: i32, signals: u64) -> io::Result<u64> {
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    let mut now = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are written before they are read.
    unsafe {
        libc::sigemptyset(now.as_mut_ptr());
        for signal in (1..=LAST).filter(|signal| signals & bit(*signal) != 0) {
            libc::sigaddset(now.as_mut_ptr(), signal);
        }
        match libc::pthread_sigmask(how, now.as_ptr(), before.as_mut_ptr()) {
            0 => Ok(bits(|signal| {
                libc::sigismember(before.as_ptr(), signal) == 1
            })),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// As it reads again: two numbers in base 16.
impl fmt::Display for StartSignals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}:{:x}", self.ignored, self.blocked)
    }
}

impl FromStr for StartSignals {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (ignored, blocked) = text.split_once(':').unwrap_or((text, ""));
        Ok(Self {
            ignored: u64::from_str_radix(ignored, 16)?,
            blocked: u64::from_str_radix(blocked, 16)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Stdio;

    /// The two lines of a process's status that say what it ignores and what it blocks.
    fn started_with(signals: StartSignals) -> String {
        let mut command = Command::new("grep");
        command.args(["-E", "^Sig(Blk|Ign)", "/proc/self/status"]);
        signals.give(&mut command);
        let out = command.stderr(Stdio::inherit()).output().expect("it runs");
        String::from_utf8(out.stdout).expect("text")
    }

    #[test]
    fn a_program_starts_with_the_signals_that_it_is_given() {
        // Also what this process has without our doing, and what the C library keeps for itself.
        let own = procfs::process::Process::myself().and_then(|process| process.status());
        let here = own.expect("there is /proc").sigign & !bit(libc::SIGPIPE);
        let none = StartSignals::default();
        let some = StartSignals {
            ignored: of(&[libc::SIGINT, libc::SIGPIPE, libc::SIGCHLD, 40]),
            blocked: of(&[libc::SIGTERM, libc::SIGUSR2, LAST]),
        };
        assert_eq!(some.to_string().parse(), Ok(some));
        for signals in [none, some] {
            let (ignored, blocked) = (signals.ignored | here, signals.blocked);
            let expected = format!("SigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\n");
            assert_eq!(started_with(signals), expected);
        }
        assert!("1".parse::<StartSignals>().is_err());
    }

    /// In a process of its own: as long as it runs a signal is blocked, and another ignored.
    #[test]
    fn a_process_takes_what_it_was_started_with() {
        const CHILD: &str = "EXOS_TAKES_SIGNALS";
        let Ok(given) = std::env::var(CHILD) else {
            let here = StartSignals::take(&[]).expect("they are told").ignored;
            let signals = StartSignals {
                ignored: here | bit(libc::SIGPIPE) | bit(libc::SIGQUIT),
                blocked: of(&[libc::SIGUSR1, libc::SIGHUP]),
            };
            let name = "a_process_takes_what_it_was_started_with";
            let mut command = Command::new(std::env::current_exe().expect("known"));
            command.arg(name).env(CHILD, signals.to_string());
            signals.give(&mut command);
            assert!(command.status().expect("it runs").success());
            return;
        };
        // A thread has of them what the one has that started it.
        let taken = StartSignals::take(&[libc::SIGUSR1]).expect("they are told");
        assert_eq!(taken.to_string(), given);
        // Nobody catches this one here: it is the program's.
        assert_eq!(mask(libc::SIG_BLOCK, 0).expect("told"), bit(libc::SIGHUP));
    }

    /// It is caught here, which the program's process has until it runs the program.
    #[test]
    fn a_signal_that_comes_before_the_program_runs_is_the_programs() {
        extern "C" fn caught(_: i32) {}
        const SIGNAL: i32 = libc::SIGPROF;
        let handler = caught as extern "C" fn(i32) as libc::sighandler_t;
        // SAFETY: the handler does nothing.
        unsafe { libc::signal(SIGNAL, handler) };
        let with = |ignored| {
            let mut command = Command::new("true");
            // SAFETY: it makes one call.
            let raise = || match unsafe { libc::raise(SIGNAL) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            };
            // SAFETY: between fork and exec the closure neither allocates nor locks.
            unsafe { command.pre_exec(raise) };
            let (ignored, blocked) = (ignored, 0);
            StartSignals { ignored, blocked }.give(&mut command);
            block(&[SIGNAL]).expect("it can be blocked");
            let status = command.status().expect("it runs");
            unblock(&[SIGNAL]).expect("it can be unblocked");
            status.signal()
        };
        assert_eq!(with(0), Some(SIGNAL));
        assert_eq!(with(bit(SIGNAL)), None);
    }
}
