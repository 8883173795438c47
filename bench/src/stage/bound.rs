//! A bound on what a server uses of the memory: a control group (cgroups(7)) for its processes, which counts what these have, and the pages of
//! files that the kernel keeps for them.
//!
//! Version 2 counts what sockets have to send as well; version 1 of that only pages of files.

use super::scratch::own_place;
use crate::limits::{GROUP_TIMEOUT, POLL_INTERVAL};
use exos_host::{Error, Result, error::Context as _};
use exos_lab::{Lab, Side};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// A version of control groups: where groups that count memory are made, and their files.
struct Version {
    root: &'static str,
    /// It is there where this file of the root has the word in it.
    sign: (&'static str, &'static str),
    limit: &'static str,
    /// Keeps from swap what the limit keeps from memory: the limit again where that is of both together.
    swap: &'static str,
    is_of_both: bool,
    used: &'static str,
}

static VERSIONS: [Version; 2] = [
    Version {
        root: "/sys/fs/cgroup",
        sign: ("cgroup.subtree_control", "memory"),
        limit: "memory.max",
        swap: "memory.swap.max",
        is_of_both: false,
        used: "memory.current",
    },
    Version {
        root: "/sys/fs/cgroup/memory",
        sign: ("memory.limit_in_bytes", ""),
        limit: "memory.limit_in_bytes",
        swap: "memory.memsw.limit_in_bytes",
        is_of_both: true,
        used: "memory.usage_in_bytes",
    },
];

/// A control group with a limit, removed when dropped: what was started in it has to have ended by then.
pub(crate) struct Bound {
    path: PathBuf,
    version: &'static Version,
}

impl Version {
    fn is_there(&self) -> bool {
        let (file, word) = self.sign;
        let said = fs::read_to_string(Path::new(self.root).join(file));
        said.is_ok_and(|text| text.contains(word))
    }
}

impl Bound {
    /// Of this many bytes; those that sessions which were killed have left are removed first.
    pub fn new(bytes: u64) -> Result<Self> {
        let version = VERSIONS.iter().find(|version| version.is_there());
        let version = version.ok_or_else(|| {
            Error::new("no control groups count memory here").mend(
                "mount them: mount -t cgroup2 cgroup /sys/fs/cgroup, and echo +memory > /sys/fs/cgroup/cgroup.subtree_control",
            )
        })?;
        let path = own_place(Path::new(version.root), |path| fs::remove_dir(path));
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

    /// Bytes that are used.
    pub fn used(&self) -> Result<u64> {
        let path = self.path.join(self.version.used);
        let what = || format!("cannot read {}", path.display());
        let text = fs::read_to_string(&path).context(what)?;
        text.trim().parse().map_err(|_| Error::new(what()))
    }
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

    /// Where there are none, or without root, nothing is made.
    #[test]
    fn a_group_counts_and_goes() {
        let Ok(bound) = Bound::new(32 << 20) else {
            return;
        };
        let path = bound.path.clone();
        let limit = fs::read_to_string(path.join(bound.version.limit)).expect("readable");
        assert_eq!(limit.trim(), (32 << 20).to_string());
        assert!(bound.used().expect("readable") < 32 << 20);
        // One that was killed has left another.
        let abandoned = path.with_file_name("exos-bench-4999999-0");
        fs::create_dir(&abandoned).expect("writable");
        let second = Bound::new(32 << 20).expect("as the first");
        assert!(!abandoned.exists() && second.path.exists() && path.exists());
        drop((bound, second));
        assert!(!path.exists());
    }
}
