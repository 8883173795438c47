//! What the daemon tells whoever started it, line by line.
//!
//! Nobody may be there to read it any more: the service manager's log was started anew, the other end of a pipe has
//! ended, a disk is full. The line is lost then, and the daemon goes on.

use std::fmt::Arguments;
use std::io::{Write as _, stderr, stdout};

/// To standard output.
pub(crate) fn say(line: Arguments<'_>) {
    let _ = writeln!(stdout(), "{line}");
}

/// To standard error: what went wrong, and the daemon goes on without.
pub(crate) fn warn(line: Arguments<'_>) {
    let _ = writeln!(stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const ROLE: &str = "EXOS_TEST_UNHEARD";

    /// In a process of its own, whose output nobody reads.
    #[test]
    fn role() {
        if std::env::var_os(ROLE).is_none() {
            return;
        }
        let (reader, writer) = rustix::pipe::pipe().expect("descriptors are left");
        drop(reader);
        rustix::stdio::dup2_stdout(&writer).expect("both are open");
        rustix::stdio::dup2_stderr(&writer).expect("both are open");
        for _ in 0..1000 {
            say(format_args!("one line"));
            warn(format_args!("and another"));
        }
        std::process::exit(42);
    }

    #[test]
    fn what_nobody_hears_is_no_reason_to_end() {
        let mut command = Command::new(std::env::current_exe().expect("we run"));
        command.args(["--exact", "say::tests::role"]);
        let ended = command.env(ROLE, "1").status().expect("it starts");
        assert_eq!(ended.code(), Some(42));
    }
}
