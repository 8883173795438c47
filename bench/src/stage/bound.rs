//! A bound on what a server uses of the memory: a control group (cgroups(7)) for its processes, which counts what these have, and the pages of
//! files that the kernel keeps for them.
//!
//! Version 2 counts what sockets have to send as well; version 1 of that only pages of files.

use super::scratch::own_place;
use crate::limits::{GROUP_TIMEOUT, POLL_INTERVAL};
use exos_host::{Error, Result, error::Context as _};
use exos_lab::{Lab, Side};
use std::fmt::Display;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// A version of control groups: where groups that count memory are made, and their files.
struct Version {
    number: u32,
    root: &'static str,
    /// It is there where this file of the root has the word in it.
    sign: (&'static str, &'static str),
    limit: &'static str,
    /// Keeps from swap what the limit keeps from memory: the limit again where that is of both together.
    swap: &'static str,
    is_of_both: bool,
    used: &'static str,
    /// Has a line with the number of processes that the limit killed.
    events: &'static str,
}

static VERSIONS: [Version; 2] = [
    Version {
        number: 2,
        root: "/sys/fs/cgroup",
        sign: ("cgroup.subtree_control", "memory"),
        limit: "memory.max",
        swap: "memory.swap.max",
        is_of_both: false,
        used: "memory.current",
        events: "memory.events",
    },
    Version {
        number: 1,
        root: "/sys/fs/cgroup/memory",
        sign: ("memory.limit_in_bytes", ""),
        limit: "memory.limit_in_bytes",
        swap: "memory.memsw.limit_in_bytes",
        is_of_both: true,
        used: "memory.usage_in_bytes",
        events: "memory.oom_control",
    },
];

/// A control group with a limit, removed when dropped: what was started in it has to have ended by then.
pub(crate) struct Bound {
    path: PathBuf,
    version: &'static Version,
}

impl Version {
    /// That of this machine.
    fn here() -> Option<&'static Self> {
        VERSIONS.iter().find(|version| version.is_there())
    }

    fn is_there(&self) -> bool {
        let (file, word) = self.sign;
        let said = fs::read_to_string(Path::new(self.root).join(file));
        said.is_ok_and(|text| text.contains(word))
    }
}

impl Bound {
    /// Of this many bytes; those that sessions which were killed have left are removed first.
    pub fn new(bytes: u64) -> Result<Self> {
        let version = Version::here().ok_or_else(|| {
            Error::new("no control groups count memory here").mend(
                "mount them: mount -t cgroup2 cgroup /sys/fs/cgroup, and echo +memory > /sys/fs/cgroup/cgroup.subtree_control",
            )
        })?;
        Self::below(Path::new(version.root), version, bytes)
    }

    /// In this group.
    fn below(parent: &Path, version: &'static Version, bytes: u64) -> Result<Self> {
        let path = own_place(parent, |path| fs::remove_dir(path));
        fs::create_dir(&path)
            .context(|| format!("cannot make the control group {}", path.display()))?;
        let bound = Self { path, version };
        bound.set(version.limit, bytes)?;
        // Not there where nothing is swapped.
        if bound.path.join(version.swap).exists() {
            bound.set(version.swap, if version.is_of_both { bytes } else { 0 })?;
        }
        Ok(bound)
    }

    /// The version of control groups that counts.
    pub fn version(&self) -> u32 {
        self.version.number
    }

    fn set(&self, file: &str, bytes: u64) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, bytes.to_string()).context(|| format!("cannot write {}", path.display()))
    }

    /// A command that starts a program in it, on a side of a lab: a shell goes there, and becomes the program.
    pub fn command(&self, lab: &Lab, side: Side, program: &Path) -> Result<Command> {
        let mut command = lab.command(side, "sh")?;
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
        command.arg(self.path.join("cgroup.procs")).arg(program);
        Ok(command)
    }

    fn read(&self, file: &str) -> Result<String> {
        let path = self.path.join(file);
        fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))
    }

    /// Bytes that are used.
    pub fn used(&self) -> Result<u64> {
        let text = self.read(self.version.used)?;
        let strange = |_| Error::new(format!("{} is no number: {text}", self.version.used));
        text.trim().parse().map_err(strange)
    }

    /// An error where the kernel has killed a process of this program because more would have been used.
    pub fn check(&self, program: impl Display) -> Result<()> {
        match killed(&self.read(self.version.events)?) {
            0 => Ok(()),
            count => {
                let limit = self.read(self.version.limit)?;
                let limit = limit.trim();
                Err(Error::new(format!(
                    "{program} needed more than the {limit} bytes of memory that it may use: the kernel killed {count} of its processes"
                ))
                .mend("let it use more: --memory"))
            }
        }
    }
}

/// How many processes a limit has killed; old kernels do not count them.
fn killed(events: &str) -> u64 {
    let mut lines = events.lines();
    let count = lines.find_map(|line| line.strip_prefix("oom_kill "));
    count
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

impl Drop for Bound {
    fn drop(&mut self) {
        let end = Instant::now() + GROUP_TIMEOUT;
        while let Err(error) = fs::remove_dir(&self.path) {
            if error.kind() == ErrorKind::NotFound {
                return;
            }
            if Instant::now() > end {
                let path = self.path.display();
                exos_program::error!("cannot remove the control group {path}: {error}");
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group for the groups of one test, removed with it.
    struct Parent(PathBuf);

    impl Parent {
        /// Nothing where no group counts memory, or none may be made.
        fn new(name: &str) -> Option<(Self, &'static Version)> {
            let skipped = |why: &dyn Display| {
                println!("SKIPPED: control groups that count memory: {why}");
                None
            };
            let Some(version) = Version::here() else {
                return skipped(&"there are none");
            };
            let path = Path::new(version.root);
            let path = path.join(format!("exos-test-{name}-{}", std::process::id()));
            if let Err(error) = fs::create_dir(&path) {
                use ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
                assert!(
                    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem),
                    "{error}"
                );
                return skipped(&error);
            }
            if version.number == 2 {
                let file = path.join("cgroup.subtree_control");
                fs::write(file, "+memory").expect("as its parent");
            }
            Some((Self(path), version))
        }
    }

    impl Drop for Parent {
        fn drop(&mut self) {
            let _ = fs::remove_dir(&self.0);
        }
    }

    #[test]
    fn a_group_counts_and_goes() {
        let Some((parent, version)) = Parent::new("counts") else {
            return;
        };
        let make = || Bound::below(&parent.0, version, 32 << 20).expect("it may be made");
        let bound = make();
        let path = bound.path.clone();
        let limit = bound.read(version.limit).expect("readable");
        assert_eq!(limit.trim(), (32 << 20).to_string());
        assert!(bound.used().expect("readable") < 32 << 20);
        bound.check("a program").expect("nothing was killed");
        // One that was killed has left another.
        let abandoned = path.with_file_name("exos-bench-4999999-0");
        fs::create_dir(&abandoned).expect("writable");
        let second = make();
        assert!(!abandoned.exists() && second.path.exists() && path.exists());
        drop((bound, second));
        assert!(!path.exists());
    }

    /// A program that needs more than it may use is killed, and the error says for what.
    #[test]
    fn a_bound_that_kills_is_named() {
        let Some((parent, version)) = Parent::new("kills") else {
            return;
        };
        let bound = Bound::below(&parent.0, version, 8 << 20).expect("it may be made");
        let mut shell = Command::new("sh");
        // tail keeps all of a line that does not end; this much also where nothing bounds it.
        let script = "ulimit -v 262144 && echo $$ > \"$0\" && exec tail /dev/zero";
        shell.args(["-c", script]);
        shell.arg(bound.path.join("cgroup.procs"));
        let status = shell.status().expect("sh is there");
        assert!(!status.success());
        let error = bound.check("tail").expect_err("it was killed").to_string();
        assert!(
            error.starts_with("tail needed more than the 8388608 bytes"),
            "{error}"
        );
    }

    #[test]
    fn what_was_killed_is_counted_by_both_versions() {
        assert_eq!(killed("low 0\noom 2\noom_kill 2\noom_group_kill 0\n"), 2);
        assert_eq!(killed("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"), 1);
        assert_eq!(killed("oom_kill_disable 0\nunder_oom 0\n"), 0);
    }
}
