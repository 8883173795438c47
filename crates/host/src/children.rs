//! Processes that must not outlive us.

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Has a command's process asked to end (SIGTERM) when the thread that started it ends, whatever the reason:
/// also when this process is killed. So it must be started by a thread that lives as long as it shall.
pub fn end_with_us(command: &mut Command) {
    let us = rustix::process::getpid();
    let arrange = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // We may have ended between fork and the line above; then the signal will never come.
        if getppid() == Some(us) {
            Ok(())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    };
    // SAFETY: between fork and exec the closure makes two system calls, and neither allocates nor locks.
    unsafe { command.pre_exec(arrange) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    #[test]
    fn a_process_ends_with_the_thread_that_started_it() {
        let start = || {
            let mut command = Command::new("sleep");
            end_with_us(command.arg("20"));
            command.spawn().expect("sleep is everywhere")
        };
        let mut child = std::thread::spawn(start).join().expect("no panic");
        let status = child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    }
}
