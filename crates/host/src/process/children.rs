//! Processes that must not outlive us, and one that must.

use std::collections::HashSet;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use procfs::process::{Stat, all_processes};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_child_subreaper,
    set_parent_process_death_signal, wait,
};

/// Has a command's process asked to end (SIGTERM) when the thread that started it ends, whatever the reason:
/// also when this process is killed. So it must be started by a thread that lives as long as it shall.
pub fn end_with_us(command: &mut Command) {
    let us = getpid();
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

/// Has descendants whose parent ends become children of this process (`PR_SET_CHILD_SUBREAPER`), so that it finds them.
///
/// # Errors
///
/// The kernel's.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Takes the ends of all children that have ended, tells of each, and says whether a child is left.
///
/// # Errors
///
/// The kernel's.
pub fn reap(mut ended: impl FnMut(Pid, ExitStatus)) -> io::Result<bool> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => ended(pid, ExitStatus::from_raw(status.as_raw())),
            Ok(None) => return Ok(true),
            Err(Errno::CHILD) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends a signal to each descendant that there is, but for those of one process group, and says how many took it. Of orphans only
/// those are found that this process [adopts](adopt_orphans).
///
/// # Errors
///
/// There is no /proc.
pub fn signal_descendants(signal: Signal, but: Option<Pid>) -> io::Result<usize> {
    let processes = all_processes().map_err(io::Error::other)?;
    let all: Vec<Stat> = processes
        .filter_map(|process| process.ok()?.stat().ok())
        .collect();
    let mut family = HashSet::from([getpid().as_raw_pid()]);
    let mut found = Vec::new();
    loop {
        let is_next = |one: &&Stat| family.contains(&one.ppid) && !family.contains(&one.pid);
        let next: Vec<&Stat> = all.iter().filter(is_next).collect();
        if next.is_empty() {
            break;
        }
        family.extend(next.iter().map(|one| one.pid));
        found.extend(next);
    }
    let but = but.map(Pid::as_raw_pid);
    let asked = found.into_iter().filter(|one| Some(one.pgrp) != but);
    let pids = asked.filter_map(|one| Pid::from_raw(one.pid));
    Ok(pids
        .filter(|pid| kill_process(*pid, signal).is_ok())
        .count())
}

/// Asks all descendants to end (SIGTERM), and kills those that have not after this time. Returns when none is left, all their ends
/// being taken.
///
/// # Errors
///
/// As those of [`reap`] and [`signal_descendants`].
pub fn end_descendants(patience: Duration) -> io::Result<()> {
    const LOOK: Duration = Duration::from_millis(10);
    let until = Instant::now() + patience;
    if !reap(|_, _| {})? {
        return Ok(());
    }
    signal_descendants(Signal::TERM, None)?;
    while reap(|_, _| {})? {
        // Those that fork meanwhile are found by the next look.
        if Instant::now() >= until && signal_descendants(Signal::KILL, None)? == 0 {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
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

    /// By another process, for each end of a child of this one is taken.
    #[test]
    fn the_ends_of_all_children_are_taken_also_of_other_sessions() {
        const CHILD: &str = "EXOS_TAKES_ENDS";
        if std::env::var_os(CHILD).is_none() {
            let name = "the_ends_of_all_children_are_taken_also_of_other_sessions";
            let mut command = Command::new(std::env::current_exe().expect("known"));
            let status = command.arg(name).env(CHILD, "1").status();
            assert!(status.expect("it runs").success());
            return;
        }
        let mut command = Command::new("true");
        outlive_us(&mut command);
        let mut child = command.spawn().expect("true is everywhere");
        let mut ended = Vec::new();
        while reap(|pid, status| ended.push((pid, status.success()))).expect("it can be asked") {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(ended, [(Pid::from_child(&child), true)]);
        assert!(child.wait().is_err(), "nothing is left to be taken");
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
