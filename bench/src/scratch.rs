//! A directory for the files of one session, removed with it.

use exos_host::{Result, error::Context as _};
use std::path::{Path, PathBuf};

/// A directory of our own.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes one below the system's directory for temporary files.
    pub(crate) fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("exos-bench-{}", std::process::id()));
        // Ours by name; whatever is there was left by a process that had this number before.
        let _ = std::fs::remove_dir_all(&path);
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
