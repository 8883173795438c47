//! The program that answers authorities in DNS (dns-01, RFC 8555 §8.4): ours has no way to a zone, and each name server has its own.
//!
//! ```text
//!   PROGRAM set|clear _acme-challenge.example.org VALUE
//! ```
//!
//! It sets a TXT record, and ends when all name servers of the zone have it, or takes that one away. What it says goes to our standard error.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::challenges::{Challenge, Kind};
use crate::limits::ACME_LOOK_TIME;

/// What it is to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Act {
    Set,
    Clear,
}

/// Has the program do so for a challenge of dns-01, within this time and for as long as that is wanted.
///
/// # Errors
///
/// It cannot be started, fails, takes too long, or is not wanted any more; for people.
pub(super) fn call(
    program: &Path,
    act: Act,
    challenge: &Challenge,
    (time, is_wanted): (Duration, impl Fn() -> bool),
) -> Result<(), String> {
    debug_assert_eq!(challenge.kind, Kind::Dns);
    let act = match act {
        Act::Set => "set",
        Act::Clear => "clear",
    };
    let record = record(&challenge.name);
    let fail = |why: String| format!("{} {act} {record}: {why}", program.display());
    let mut command = Command::new(program);
    command
        .args([act, &record, &challenge.key_authorization])
        .stdin(Stdio::null())
        .stdout(io::stderr())
        .process_group(0);
    let mut child = command
        .spawn()
        .map_err(|e| fail(format!("cannot be started: {e}")))?;
    let begun = Instant::now();
    let why = loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => {
                return Err(fail(format!("{status}; see what it has said before")));
            }
            Ok(None) if begun.elapsed() >= time => {
                break format!("has not ended in {} s", time.as_secs());
            }
            Ok(None) if !is_wanted() => break "is not wanted any more".to_owned(),
            Ok(None) => thread::sleep(ACME_LOOK_TIME),
            Err(error) => return Err(fail(error.to_string())),
        }
    };
    // With what it has started, which would else go on.
    if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
    Err(fail(why))
}

/// The record's name: of a star it is that of the name behind it.
fn record(name: &str) -> String {
    format!("_acme-challenge.{}", starless(name))
}

/// Records of these names have one name, so that what ends an order of one would take away what the other has set.
pub(super) fn is_same_record(one: &str, other: &str) -> bool {
    starless(one) == starless(other)
}

fn starless(name: &str) -> &str {
    name.strip_prefix("*.").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::limits::ACME_HOOK_TIME;

    /// A program of these lines.
    fn program(folder: &Path, lines: &str) -> PathBuf {
        let file = folder.join("hook");
        let text = format!("#!/bin/sh\ncd \"${{0%/*}}\"\n{lines}\n");
        // By another process: what has it open for writing here while another test starts a program, that program would have too.
        let write = "printf '%s' \"$1\" >\"$2\" && chmod 700 \"$2\"";
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", write, "sh", &text]).arg(&file);
        assert!(shell.status().unwrap().success());
        file
    }

    fn challenge(name: &str) -> Challenge {
        Challenge {
            kind: Kind::Dns,
            name: name.to_owned(),
            token: "token".to_owned(),
            key_authorization: "-value_".to_owned(),
        }
    }

    fn wanted() -> (Duration, impl Fn() -> bool) {
        (ACME_HOOK_TIME, || true)
    }

    #[test]
    fn it_is_told_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let hook = program(folder.path(), "echo \"$*\" >>told");
        call(&hook, Act::Set, &challenge("a.test"), wanted()).unwrap();
        call(&hook, Act::Clear, &challenge("*.b.test"), wanted()).unwrap();
        let told = fs::read_to_string(folder.path().join("told")).unwrap();
        let wanted = "set _acme-challenge.a.test -value_\nclear _acme-challenge.b.test -value_\n";
        assert_eq!(told, wanted);
    }

    #[test]
    fn what_it_fails_by_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let none = folder.path().join("none");
        let said = call(&none, Act::Set, &challenge("a.test"), wanted()).unwrap_err();
        assert!(said.contains("cannot be started"), "{said}");
        let hook = program(folder.path(), "exit 3");
        let said = call(&hook, Act::Set, &challenge("a.test"), wanted()).unwrap_err();
        assert!(
            said.contains("set _acme-challenge.a.test: exit status: 3"),
            "{said}"
        );
    }

    /// One that hangs is ended, with what it has started; and at once where nobody wants its record any more.
    #[test]
    fn it_does_not_hang() {
        const AN_HOUR: Duration = Duration::from_secs(3600);
        for (time, is_wanted, says) in [
            (Duration::from_secs(2), true, "has not ended in 2 s"),
            (AN_HOUR, false, "is not wanted any more"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let pid = folder.path().join("pid");
            let hook = program(
                folder.path(),
                "sleep 1000 & echo $! >pid.new; mv pid.new pid; wait",
            );
            let is_wanted = || is_wanted || !pid.exists();
            let said = call(&hook, Act::Set, &challenge("a.test"), (time, is_wanted));
            let said = said.unwrap_err();
            assert!(said.contains(says), "{said}");
            let Ok(pid) = fs::read_to_string(pid) else {
                continue; // It was not as far as that.
            };
            let stat = format!("/proc/{}/stat", pid.trim());
            let is_over = || fs::read_to_string(&stat).map_or(true, |it| it.contains(") Z"));
            while !is_over() {
                thread::sleep(ACME_LOOK_TIME);
            }
        }
    }
}
