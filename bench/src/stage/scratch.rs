//! A directory for the files of one session, removed with it.

use exos_host::{Result, error::Context as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The names of such directories go on with the process number of their session, and its number in the process.
const PREFIX: &str = "exos-bench-";

/// Sessions of this process so far.
static SESSIONS: AtomicU32 = AtomicU32::new(0);

/// The path of a directory of a session's own, which is not there; those of sessions whose process is no more are removed beside it.
pub(super) fn own_place(parent: &Path, remove: fn(&Path) -> std::io::Result<()>) -> PathBuf {
    remove_abandoned(parent, remove);
    let session = SESSIONS.fetch_add(1, Ordering::Relaxed);
    let path = parent.join(format!("{PREFIX}{}-{session}", std::process::id()));
    // Of another process, which had our number.
    let _ = remove(&path);
    path
}

fn remove_abandoned(parent: &Path, remove: fn(&Path) -> std::io::Result<()>) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid: Option<u32> = name
            .to_str()
            .and_then(|n| n.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
        let abandoned = |pid: u32| !Path::new(&format!("/proc/{pid}")).exists();
        if pid.is_some_and(abandoned) {
            let _ = remove(&entry.path());
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
        let path = own_place(&std::env::temp_dir(), |path| std::fs::remove_dir_all(path));
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

/// A text with values in place of its marks.
pub(crate) fn fill(text: &str, values: &[(&str, String)]) -> String {
    values.iter().fold(text.to_owned(), |text, (mark, value)| {
        text.replace(mark, value)
    })
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
    fn each_session_has_its_own() {
        let [one, two] = [(), ()].map(|()| Scratch::new().expect("writable"));
        let path = one.write("a", "1").expect("writable");
        drop(two);
        assert_eq!(std::fs::read(path).expect("it is there"), b"1");
    }

    #[test]
    fn what_killed_sessions_left_goes_and_the_rest_stays() {
        let parent = std::env::temp_dir().join(format!("exos-scratch-test-{}", std::process::id()));
        let names = [
            "exos-bench-1-0",
            "exos-bench-4999999-3",
            "exos-bench-x",
            "other-4999999",
        ];
        for name in names {
            std::fs::create_dir_all(parent.join(name).join("inside")).expect("writable");
        }
        remove_abandoned(&parent, |path| std::fs::remove_dir_all(path));
        // Process 1 is always there; 4999999 is above the most that a kernel numbers.
        let left = names.map(|name| parent.join(name).exists());
        assert_eq!(left, [true, false, true, true]);
        std::fs::remove_dir_all(parent).expect("ours");
    }
}
