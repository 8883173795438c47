//! Loading a directory.
//!
//! # What is loaded
//!
//! Every regular file below the directory, under its own name. Files reached by several names
//! (hard links, symbolic links) are in memory once for each media type and set of fields by rules. What
//! is left out is listed with its reason, see [`Reason`]: nothing disappears silently.
//!
//! `x.html.br` beside `x.html` is its [variant](super::variants), unless it is older.
//!
//! # Nothing from outside
//!
//! A symbolic link counts only if what it leads to lies in the directory. The link is resolved
//! first; then the result is opened relative to the directory with `openat2` and
//! `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`, so that the kernel refuses to leave it even if
//! somebody exchanges parts of the path in between.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2, statat,
};

use super::document::CONTENT_LEN_MAX;
use super::settings::Manner;
use super::{Document, Settings, Site, variants};
use crate::limits;

/// How much a site may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one document.
    pub document_len: u64,
    /// Bytes of all documents.
    pub site_len: u64,
    /// Files.
    pub files: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            document_len: limits::DOCUMENT_LEN_MAX,
            site_len: limits::SITE_LEN_MAX,
            files: limits::SITE_FILES_MAX,
        }
    }
}

/// Why nothing could be loaded at all.
#[derive(Debug)]
pub struct LoadError {
    directory: PathBuf,
    source: io::Error,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = match self.source.kind() {
            io::ErrorKind::NotFound => "give the path of a directory that exists",
            io::ErrorKind::PermissionDenied => "give this user the right to read and enter it",
            io::ErrorKind::NotADirectory => "give the directory that holds the documents",
            _ => "check the path and its file system",
        };
        write!(
            f,
            "cannot serve {}: {}; {remedy}",
            self.directory.display(),
            self.source
        )
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Something in the directory that is not served.
#[derive(Debug)]
pub struct Omission {
    /// Its path, relative to the directory.
    pub path: PathBuf,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

/// Why something is not served. Requests for it are answered with 403, for hidden files with 404;
/// a file that is only no variant of another is served under its own name.
#[derive(Debug)]
pub enum Reason {
    /// Its name begins with a dot (but for `.well-known`, RFC 8615).
    Hidden,
    /// Neither file nor directory: a device, a socket, a pipe.
    NotRegular,
    /// A symbolic link to outside the directory.
    LeavesDirectory,
    /// A symbolic link to a directory that it is itself in.
    Cycle,
    /// It cannot be opened or read.
    Unreadable(io::Error),
    /// Longer than a document may be.
    TooLong {
        /// The limit in bytes.
        limit: u64,
    },
    /// The site is full.
    SiteFull {
        /// The limit in bytes.
        limit: u64,
    },
    /// There are too many files.
    TooManyFiles {
        /// The limit.
        limit: usize,
    },
    /// Too many directories inside one another.
    TooDeep,
    /// A coded variant from before the last change of what it was made from.
    Outdated,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Hidden => write!(f, "hidden: its name begins with a dot"),
            Reason::NotRegular => write!(f, "neither a file nor a directory"),
            Reason::LeavesDirectory => write!(f, "a link to outside the directory"),
            Reason::Cycle => write!(f, "a link to a directory that holds it"),
            Reason::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Reason::TooLong { limit } => write!(f, "longer than {limit} bytes"),
            Reason::SiteFull { limit } => write!(f, "the site would exceed {limit} bytes"),
            Reason::TooManyFiles { limit } => write!(f, "more than {limit} files"),
            Reason::TooDeep => write!(f, "more than {} levels deep", limits::SITE_DEPTH_MAX),
            Reason::Outdated => write!(f, "older than its original; compress that again"),
        }
    }
}

impl Site {
    /// Loads a directory into memory.
    ///
    /// # Errors
    ///
    /// When the directory itself cannot be opened. What is wrong inside it is listed in
    /// [`Site::omissions`].
    pub fn load(directory: &Path, limits: Limits) -> Result<Site, LoadError> {
        Site::load_with(directory, limits, Arc::default())
    }

    /// Loads a directory into memory, with settings for its documents.
    ///
    /// # Errors
    ///
    /// As [`Site::load`].
    pub fn load_with(
        directory: &Path,
        limits: Limits,
        settings: Arc<Settings>,
    ) -> Result<Site, LoadError> {
        let fail = |source| LoadError {
            directory: directory.into(),
            source,
        };
        let root_path = fs::canonicalize(directory).map_err(fail)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root =
            rustix::fs::open(&root_path, flags, Mode::empty()).map_err(|e| fail(e.into()))?;
        let mut loader = Loader {
            root,
            root_path,
            limits,
            now_secs: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |time| time.as_secs()),
            site: Site::with(settings),
            shared: HashMap::new(),
            trail: Vec::new(),
        };
        loader
            .directory(Path::new("."), Path::new(""), b"/")
            .map_err(fail)?;
        Ok(loader.site)
    }
}

/// Device and inode: what a file is whatever its name.
type Identity = (u64, u64);

struct Loader {
    root: OwnedFd,
    root_path: PathBuf,
    limits: Limits,
    now_secs: u64,
    site: Site,
    shared: HashMap<(Identity, Manner), Document>,
    /// The directories that are being walked, from the root.
    trail: Vec<Identity>,
}

impl Loader {
    /// Loads what is in a directory. `real` is where it is, relative to the root and without
    /// links; `name` is how it was reached; `url` is its path for clients, with a slash at its end.
    fn directory(&mut self, real: &Path, name: &Path, url: &[u8]) -> io::Result<()> {
        self.site.insert_directory(url);
        let fd = self.open(real, OFlags::DIRECTORY)?;
        let stat = fstat(&fd)?;
        let identity = identity(&stat);
        if self.trail.contains(&identity) {
            self.omit(name, Reason::Cycle);
            return Ok(());
        }
        let names = sorted_names(&fd)?;
        self.trail.push(identity);
        for file_name in &names {
            let file_url = [url, file_name.as_slice()].concat();
            let file_name = Path::new(OsStr::from_bytes(file_name));
            self.entry(&real.join(file_name), &name.join(file_name), &file_url);
        }
        self.trail.pop();
        self.join_variants(name, url, &names);
        Ok(())
    }

    /// Makes coded files the variants of the documents beside them.
    fn join_variants(&mut self, name: &Path, url: &[u8], names: &[Vec<u8>]) {
        for original in variants::originals(names) {
            let path = [url, original].concat();
            for (coding, reason) in self.site.join_variants(&path, self.limits.site_len) {
                let file_name = [original, coding.extension().as_bytes()].concat();
                self.omit(&name.join(OsStr::from_bytes(&file_name)), reason);
            }
        }
    }

    /// Loads a file or directory, or lists it as left out.
    fn entry(&mut self, real: &Path, name: &Path, url: &[u8]) {
        let file_name = name.file_name().unwrap_or_default();
        if file_name.as_bytes().starts_with(b".") && file_name != ".well-known" {
            return self.omit(name, Reason::Hidden);
        }
        if let Err(reason) = self.try_entry(real, name, url) {
            self.site.insert_forbidden(url);
            self.omit(name, reason);
        }
    }

    fn try_entry(&mut self, real: &Path, name: &Path, url: &[u8]) -> Result<(), Reason> {
        let mut real = real.to_path_buf();
        let mut stat = self.stat(&real)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            real = self.resolve(&real)?;
            stat = self.stat(&real)?;
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if self.trail.len() >= limits::SITE_DEPTH_MAX => {
                Err(Reason::TooDeep)
            }
            FileType::Directory => {
                let url = [url, b"/"].concat();
                self.directory(&real, name, &url)
                    .map_err(Reason::Unreadable)
            }
            FileType::RegularFile => self.file(&real, url),
            _ => Err(Reason::NotRegular),
        }
    }

    fn file(&mut self, real: &Path, url: &[u8]) -> Result<(), Reason> {
        let limit = self.limits.files;
        if self.site.document_count() >= limit {
            return Err(Reason::TooManyFiles { limit });
        }
        let fd = self
            .open(real, OFlags::NONBLOCK)
            .map_err(Reason::Unreadable)?;
        let stat = fstat(&fd).map_err(|e| Reason::Unreadable(e.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Reason::NotRegular); // Exchanged since it was looked at.
        }
        let key = (identity(&stat), self.site.settings().manner(url));
        if let Some(document) = self.shared.get(&key) {
            self.site.insert_again(url, document.clone());
            return Ok(());
        }
        let content = self.content(fd, u64::try_from(stat.st_size).unwrap_or(0))?;
        // RFC 9110 §8.8.2.1: a time in the future is replaced by the present.
        let modified_secs = u64::try_from(stat.st_mtime).unwrap_or(0).min(self.now_secs);
        let document = Document::new(&content, &key.1.description(modified_secs));
        self.shared.insert(key, document.clone());
        self.site.insert(url, document);
        Ok(())
    }

    /// The content of a file that should be `len` bytes long, if there is room for it.
    fn content(&self, fd: OwnedFd, len: u64) -> Result<Vec<u8>, Reason> {
        let Limits {
            document_len,
            site_len,
            ..
        } = self.limits;
        let document_len = document_len.min(CONTENT_LEN_MAX as u64);
        let left = site_len.saturating_sub(self.site.content_len());
        let content = read_at_most(fd, len, document_len.min(left))?;
        content.ok_or(match document_len <= left {
            true => Reason::TooLong {
                limit: document_len,
            },
            false => Reason::SiteFull { limit: site_len },
        })
    }

    /// Where a symbolic link leads, relative to the root.
    fn resolve(&self, real: &Path) -> Result<PathBuf, Reason> {
        let target = fs::canonicalize(self.root_path.join(real)).map_err(Reason::Unreadable)?;
        let inside = target
            .strip_prefix(&self.root_path)
            .map_err(|_| Reason::LeavesDirectory)?;
        Ok(Path::new(".").join(inside))
    }

    fn open(&self, real: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | flags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        Ok(openat2(
            self.root.as_fd(),
            real,
            flags,
            Mode::empty(),
            resolve,
        )?)
    }

    fn stat(&self, real: &Path) -> Result<Stat, Reason> {
        statat(self.root.as_fd(), real, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|e| Reason::Unreadable(e.into()))
    }

    fn omit(&mut self, name: &Path, reason: Reason) {
        self.site.omissions.push(Omission {
            path: name.into(),
            reason,
        });
    }
}

impl Site {
    /// Another name for a document that is there already: its bytes count once.
    fn insert_again(&mut self, url: &[u8], document: Document) {
        let content_len = self.content_len;
        self.insert(url, document);
        self.content_len = content_len;
    }
}

fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// The names in a directory, sorted so that two loads of the same files agree.
fn sorted_names(directory: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
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

/// The content of a file, or `None` when it is longer than `limit`, now or by the time it is
/// read. `len` is what it should be.
fn read_at_most(fd: OwnedFd, len: u64, limit: u64) -> Result<Option<Vec<u8>>, Reason> {
    if len > limit {
        return Ok(None);
    }
    let mut content = Vec::with_capacity(len as usize + 1); // One more, to see the end.
    let mut file = File::from(fd).take(limit.saturating_add(1));
    file.read_to_end(&mut content).map_err(Reason::Unreadable)?;
    Ok(Some(content).filter(|content| content.len() as u64 <= limit))
}
