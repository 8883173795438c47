//! Processes that must not outlive us, and one that must.

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

/// Has a command's process be its own session: what ends this terminal or this process does not end it.
pub fn outlive_us(command: &mut Command) {
    let arrange = || {
        rustix::process::setsid()?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes one system call, and neither allocates nor locks.
    unsafe { command.pre_exec(arrange) };
}

/// Puts nothing in place of this process's standard streams, so that anyone who reads them hears of the end while
/// the process goes on.
pub fn close_standard_streams() -> io::Result<()> {
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    #[test]
    fn a_process_that_outlives_us_leads_its_own_session() {
        let mut command = Command::new("sleep");
        outlive_us(command.arg("20"));
        let mut child = command.spawn().expect("sleep is everywhere");
        let pid = rustix::process::Pid::from_child(&child);
        assert_eq!(rustix::process::getsid(Some(pid)), Ok(pid));
        child.kill().expect("ours");
        child.wait().expect("it ends");
    }

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
