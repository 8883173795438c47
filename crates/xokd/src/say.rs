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

    /// In a process of its own, whose output nobody reads.
    #[test]
    fn role() {
        if exos_testing::role().is_none() {
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
        exos_testing::done();
    }

    #[test]
    fn what_nobody_hears_is_no_reason_to_end() {
        let ended = exos_testing::play("say::tests::role", "unheard");
        assert!(exos_testing::is_done(ended), "{ended}");
    }
}
