//! The command line of `exos run`, and which way it has a program go.

use std::ffi::OsString;

use exos::Error;
use exos_host::signals::StartSignals;
use exos_program::LinkArgs;

use crate::check::{Finding, Way};

/// Run a program whose TCP connections are on a stack of its own
///
/// The program needs no change, and neither do those that it starts: servers that fork, static programs, scripts. Its connections
/// with other hosts come and go by the link; all else of it, and its connections with this host, stay the kernel's. UDP stays the
/// kernel's too where sockets are not shared. The exit status is the program's; 127 when there is no such program, 126 when it cannot be
/// executed.
///
/// A program that uses the GNU C library as a shared one shares its sockets with this process, in memory, and makes no system calls
/// for them. Others go by intercepted calls, which is slower: static programs, Go's, and what may not be loaded into. --check says
/// which way a program goes.
///
/// On SIGUSR1 it prints what it has counted to standard error.
#[derive(clap::Args, Clone, Debug)]
#[command(
    override_usage = "exos run [OPTIONS] -- PROGRAM [ARGUMENTS]...\n       exos run --check PROGRAM"
)]
pub struct RunArgs {
    /// Say which way a program would go, why, and what of it will not work, without running it
    ///
    /// It is decided by its file. The exit status is 0 for shared sockets, 3 for intercepted calls, 4 when its connections would stay the
    /// kernel's (32-bit programs), 126 and 127 as above.
    #[arg(long, value_name = "PROGRAM", exclusive = true)]
    pub(crate) check: Option<OsString>,
    /// Intercept calls, even where sockets can be shared
    #[arg(long, conflicts_with = "preload")]
    pub(crate) intercept: bool,
    /// Share sockets, or fail where the program does not allow it
    #[arg(long)]
    pub(crate) preload: bool,
    /// Print socket calls and their results to standard error, as strace does
    ///
    /// Of programs that share their sockets, all calls on sockets of IPv4 and IPv6; of others those that are intercepted.
    #[arg(long)]
    pub(crate) trace: bool,
    /// Be the guard of the program for the process of this number, which starts it so
    #[arg(long, value_name = "PID", hide = true)]
    pub(crate) guard_of: Option<u32>,
    /// Signals that the program is to start with, for its guard
    #[arg(long, value_name = "IGNORED:BLOCKED", hide = true, default_value_t)]
    pub(crate) start_signals: StartSignals,
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    /// The program, and what it is given
    #[arg(required_unless_present = "check", last = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

impl RunArgs {
    /// Whether a program shares its sockets.
    ///
    /// # Errors
    ///
    /// It is to, and cannot.
    pub(crate) fn shares(&self, finding: &Finding) -> Result<bool, Error> {
        let (program, why) = (finding.file.display(), &finding.why);
        match finding.way {
            _ if self.intercept => Ok(false),
            Way::Shared => Ok(true),
            _ if self.preload => Err(Error::new(format!(
                "{program} cannot share its sockets: {why}"
            ))
            .mend("run it without --preload")),
            Way::Intercepted => {
                exos_program::info!("exos run: {program} goes by intercepted calls, for {why}");
                Ok(false)
            }
            Way::Kernel => {
                exos_program::warn!(
                    "exos run: connections of {program} stay the kernel's, for {why}"
                );
                Ok(false)
            }
        }
    }
}
