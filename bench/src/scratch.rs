//! A directory for the files of one session, removed with it.

use exos_host::{Result, error::Context as _};
use std::path::{Path, PathBuf};

/// The names of such directories go on with the process number of their session.
const PREFIX: &str = "exos-bench-";

/// Removes the directories of sessions whose process is no more, or has our number and so is another.
fn remove_abandoned(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid: Option<u32> = name
            .to_str()
            .and_then(|n| n.strip_prefix(PREFIX)?.parse().ok());
        let abandoned =
            |pid: u32| pid == std::process::id() || !Path::new(&format!("/proc/{pid}")).exists();
        if pid.is_some_and(abandoned) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A directory of our own.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes one below the system's directory for temporary files, and removes those that sessions which were
    /// killed have left there.
    pub(crate) fn new() -> Result<Self> {
        let parent = std::env::temp_dir();
        remove_abandoned(&parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .context(|| format!("cannot make the directory {}", path.display()))?;
        Ok(Self { path })
    }

    /// The path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes a directory in it.
    pub(crate) fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.file(name);
        std::fs::create_dir_all(&path)
            .context(|| format!("cannot make the directory {}", path.display()))?;
        Ok(path)
    }

    /// Writes a file in it.
    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.file(name);
        write(&path, contents)?;
        Ok(path)
    }
}

/// Writes a file.
pub(crate) fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(path, contents).context(|| format!("cannot write {}", path.display()))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_sessions_left_goes_and_the_rest_stays() {
        let parent = std::env::temp_dir().join(format!("exos-scratch-test-{}", std::process::id()));
        let names = [
            "exos-bench-1",
            "exos-bench-4999999",
            "exos-bench-x",
            "other-4999999",
        ];
        for name in names {
            std::fs::create_dir_all(parent.join(name).join("inside")).expect("writable");
        }
        remove_abandoned(&parent);
        // Process 1 is always there; 4999999 is above the most that a kernel numbers.
        let left = names.map(|name| parent.join(name).exists());
        assert_eq!(left, [true, false, true, true]);
        std::fs::remove_dir_all(parent).expect("ours");
    }
}
