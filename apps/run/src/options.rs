//! The command line of `exos run`.

use std::ffi::OsString;

use exos_program::LinkArgs;

/// Run a program whose TCP connections are on a stack of its own
///
/// The program needs no change, and neither do those that it starts: servers that fork, static programs, scripts. Its connections
/// with other hosts come and go by the link; all else of it, and its connections with this host, stay the kernel's. UDP stays the
/// kernel's too. The exit status is the program's.
///
/// A library is loaded into the programs, which shares their sockets with this process in memory. Programs that do not use the C
/// library as a shared one (static ones, Go) have their system calls intercepted instead, which costs more.
#[derive(clap::Args, Clone, Debug)]
#[command(override_usage = "exos run [OPTIONS] -- PROGRAM [ARGUMENTS]...")]
pub struct RunArgs {
    /// Print each call and its result to standard error; implies --no-preload
    #[arg(long)]
    pub(crate) trace: bool,
    /// Load nothing into the program: only intercept its system calls
    #[arg(long)]
    pub(crate) no_preload: bool,
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    /// The program, and what it is given
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}
