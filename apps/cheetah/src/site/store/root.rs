//! The directory that is served, and reading what lies in it.
//!
//! A symbolic link counts only if what it leads to lies in the directory. The link is resolved
//! first; then the result is opened relative to the directory with `openat2` and
//! `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`, so that the kernel refuses to leave it even if
//! somebody exchanges parts of the path in between.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use exos_buf::SharedBytes;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2, statat,
};

use crate::limits::READS_MAX;
use crate::site::document::FileContent;
use crate::site::load::Reason;

/// Device and inode: what a file is whatever its name.
pub type Identity = (u64, u64);

/// What tells that a file has been written to: as long as all of it is the same, so is the content,
/// unless it is written to without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// Which file.
    pub identity: Identity,
    /// Its length in bytes.
    pub len: u64,
    /// Seconds and nanoseconds of the last write.
    pub modified: (i64, u64),
    /// Of the last change, of its times too: nobody can set this one back.
    pub changed: (i64, u64),
}

impl Version {
    /// Seconds since 1970 of the last write; a time in the future is replaced by the present (RFC 9110
    /// §8.8.2.1).
    pub fn modified_secs(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_secs = now.map_or(0, |time| time.as_secs());
        u64::try_from(self.modified.0).unwrap_or(0).min(now_secs)
    }

    /// Whether both are of one file that nobody has written to in between; names may have come or gone.
    pub fn has_bytes_of(&self, other: &Version) -> bool {
        let bytes = |of: &Version| (of.identity, of.len, of.modified);
        bytes(self) == bytes(other)
    }

    /// The version that `stat` speaks of.
    pub fn of(stat: &Stat) -> Version {
        Version {
            identity: identity(stat),
            len: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// Which file `stat` speaks of.
pub fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// The directory that is served.
#[derive(Debug)]
pub struct Root {
    fd: Arc<OwnedFd>,
    path: PathBuf,
}

/// What is at a path.
pub(super) enum Found {
    Nothing,
    Directory(PathBuf),
    File(PathBuf, Stat),
}

impl Root {
    /// Opens the directory.
    pub fn open(directory: &Path) -> io::Result<Root> {
        let path = fs::canonicalize(directory)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = Arc::new(rustix::fs::open(&path, flags, Mode::empty())?);
        Ok(Root { fd, path })
    }

    /// The directory itself.
    pub fn fd(&self) -> &Arc<OwnedFd> {
        &self.fd
    }

    /// Where a symbolic link leads, relative to the root.
    pub fn resolve(&self, real: &Path) -> Result<PathBuf, Reason> {
        let target = fs::canonicalize(self.path.join(real)).map_err(Reason::Unreadable)?;
        let inside = target
            .strip_prefix(&self.path)
            .map_err(|_| Reason::LeavesDirectory)?;
        Ok(Path::new(".").join(inside))
    }

    /// What is at a path without links, itself perhaps a link.
    pub fn stat(&self, real: &Path) -> io::Result<Stat> {
        Ok(statat(self.fd.as_fd(), real, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn open_at(&self, real: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | flags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let fd = openat2(self.fd.as_fd(), real, flags, Mode::empty(), resolve)?;
        Ok(fd)
    }

    /// The file at a path without links, if it may be opened; a pipe does not wait for its other end.
    pub fn open_file(&self, real: &Path) -> io::Result<OwnedFd> {
        self.open_at(real, OFlags::NONBLOCK)
    }

    /// A directory and which one it is.
    pub fn directory(&self, real: &Path) -> io::Result<(OwnedFd, Identity)> {
        let fd = self.open_at(real, OFlags::DIRECTORY)?;
        let identity = identity(&fstat(&fd)?);
        Ok((fd, identity))
    }

    /// A file's content and of which version it is; `None` if somebody wrote to it each time that it
    /// was read. It is looked for with `lend` first, which gets the file and how long it is.
    ///
    /// # Errors
    ///
    /// It cannot be read or is no file, or `too_long` when it is longer than `limit` bytes.
    pub fn read(
        &self,
        real: &Path,
        limit: u64,
        too_long: Reason,
        lend: impl Fn(&File, u64) -> Option<SharedBytes>,
    ) -> Result<Option<(Version, FileContent)>, Reason> {
        let unreadable = |e: io::Error| Reason::Unreadable(e);
        for _ in 0..READS_MAX {
            let fd = self.open_file(real).map_err(unreadable)?;
            let file = File::from(fd);
            let before = fstat(&file).map_err(|e| unreadable(e.into()))?;
            if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
                return Err(Reason::NotRegular); // Exchanged since it was looked at.
            }
            let version = Version::of(&before);
            if version.len > limit {
                return Err(too_long);
            }
            let lent = lend(&file, version.len);
            let Some(bytes) =
                content(&file, lent.as_ref(), version.len, limit).map_err(unreadable)?
            else {
                return Err(too_long);
            };
            let content = FileContent { bytes, lent };
            let after = fstat(&file).map_err(|e| unreadable(e.into()))?;
            if Version::of(&after) == version && content.bytes.len() as u64 == version.len {
                return Ok(Some((version, content)));
            }
        }
        Ok(None)
    }
}

/// The names in a directory, sorted so that two loads of the same files agree.
pub fn sorted_names(directory: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The content of a file: what was lent, else read.
fn content(
    file: &File,
    lent: Option<&SharedBytes>,
    len: u64,
    limit: u64,
) -> io::Result<Option<Vec<u8>>> {
    let Some(lent) = lent else {
        return read_at_most(file, len, limit);
    };
    let mut bytes = Vec::with_capacity(lent.len());
    lent.buffer().whole().append_to(&mut bytes);
    Ok(Some(bytes))
}

/// The content of a file, or `None` when it is longer than `limit`, now or by the time it is
/// read. `len` is what it should be.
fn read_at_most(file: &File, len: u64, limit: u64) -> io::Result<Option<Vec<u8>>> {
    if len > limit {
        return Ok(None);
    }
    let mut content = Vec::with_capacity(len as usize + 1); // One more, to see the end.
    file.take(limit.saturating_add(1))
        .read_to_end(&mut content)?;
    Ok(Some(content).filter(|content| content.len() as u64 <= limit))
}
