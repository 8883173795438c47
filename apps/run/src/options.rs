//! The command line of `exos run`.

use std::ffi::OsString;

use exos_program::LinkArgs;

/// Run a program whose TCP connections are on a stack of its own
///
/// The program needs no change, and neither do those that it starts: servers that fork, static programs, scripts. Its connections
/// with other hosts come and go by the link; all else of it, and its connections with this host, stay the kernel's. UDP stays the
/// kernel's too, but with --preload. The exit status is the program's.
///
/// Bytes pass through this process, a copy and a wake-up more each way. With --preload they go through memory that it shares with
/// the programs, without system calls: for programs that use the C library as a shared one.
#[derive(clap::Args, Clone, Debug)]
#[command(override_usage = "exos run [OPTIONS] -- PROGRAM [ARGUMENTS]...")]
pub struct RunArgs {
    /// Print each intercepted call and its result to standard error
    #[arg(long, conflicts_with = "preload")]
    pub(crate) trace: bool,
    /// For speed: load a library into the programs that shares their sockets with this process
    #[arg(long)]
    pub(crate) preload: bool,
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    /// The program, and what it is given
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}
