//! Files too long to be kept in memory: what is known of them, and the descriptor while they are sent.
//!
//! [`LongFile`] says where a file is and which version of it is meant; a document's header fields are made from that,
//! so HEAD, preconditions and lists of parts need no more. It holds no descriptor: there may be a hundred thousand such
//! files. [`OpenFile`] is one of them opened, and checked to be that version. It lives as long as responses read from
//! it; a file that takes its name meanwhile is another one.
//!
//! # When it is another version
//!
//! A file that is opened has to be the same inode, of the same length and time of writing to the nanosecond. After each
//! read the last two are compared once more ([`OpenFile::is_unchanged`]). The kernel sets the time before it changes a
//! byte, so what was read before an unchanged time is of one version. The time of change (ctime) is part of the entity
//! tag, but is not compared under way: giving a file another name or other rights moves it too, and so does taking its
//! name away, and none of these may end a download.

use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use exos_host::uring::Request;
use rustix::fs::{AtFlags, FileType, OFlags, StatxFlags, fcntl_getfl, fcntl_setfl, makedev, statx};

use super::path::SitePath;
use super::store::root::Version;

/// Which version of which file a document is.
#[derive(Debug)]
pub struct LongFile {
    root: Arc<OwnedFd>,
    /// Below the root, without links.
    real: CString,
    path: SitePath,
    version: Version,
}

impl LongFile {
    /// The file at `real` below a directory, of which a site has this version at `path`.
    ///
    /// # Errors
    ///
    /// The name holds a zero byte, as none of a file system does.
    pub fn new(
        root: Arc<OwnedFd>,
        real: &Path,
        path: SitePath,
        version: Version,
    ) -> io::Result<LongFile> {
        let real = CString::new(real.as_os_str().as_bytes())?;
        Ok(LongFile {
            root,
            real,
            path,
            version,
        })
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.version.len
    }

    /// Which version is meant.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The path by which a change of it will be told.
    pub fn path(&self) -> &SitePath {
        &self.path
    }

    /// What opens it.
    pub fn open(&self) -> Request {
        Request::Open {
            root: self.root.clone(),
            path: self.real.clone(),
        }
    }
}

/// A version of a file, open.
#[derive(Debug)]
pub struct OpenFile {
    fd: Arc<OwnedFd>,
    version: Version,
    /// Somebody has written to it.
    has_changed: Cell<bool>,
}

impl OpenFile {
    /// What was opened, if it is the version that is meant; `None` if it is another.
    ///
    /// # Errors
    ///
    /// The kernel does not tell.
    pub fn new(file: &LongFile, fd: OwnedFd) -> io::Result<Option<OpenFile>> {
        let about = about(&fd)?;
        let is_file = FileType::from_raw_mode(about.stx_mode.into()) == FileType::RegularFile;
        let identity = (
            makedev(about.stx_dev_major, about.stx_dev_minor),
            about.stx_ino,
        );
        let file = OpenFile {
            fd: Arc::new(fd),
            version: file.version,
            has_changed: Cell::new(false),
        };
        if !(is_file && identity == file.version.identity && file.is_as(&about)) {
            return Ok(None);
        }
        // It was opened so that no pipe in its place would keep us. A file has to be waited for.
        let flags = fcntl_getfl(&file.fd)?;
        fcntl_setfl(&file.fd, flags - OFlags::NONBLOCK)?;
        Ok(Some(file))
    }

    /// Whether nobody has written to it since.
    pub fn is_unchanged(&self) -> bool {
        if !about(&self.fd).is_ok_and(|about| self.is_as(&about)) {
            self.has_changed.set(true);
        }
        !self.has_changed.get()
    }

    fn is_as(&self, about: &rustix::fs::Statx) -> bool {
        let written = (about.stx_mtime.tv_sec, about.stx_mtime.tv_nsec.into());
        about.stx_size == self.version.len && written == self.version.modified
    }

    /// The descriptor.
    pub fn fd(&self) -> &Arc<OwnedFd> {
        &self.fd
    }

    /// The descriptor, for anyone who closes it.
    pub fn into_fd(self) -> Arc<OwnedFd> {
        self.fd
    }

    /// Which version it is.
    pub fn version(&self) -> &Version {
        &self.version
    }
}

/// From what the kernel has in memory: a file system elsewhere is not asked, for that may take long.
fn about(fd: &OwnedFd) -> io::Result<rustix::fs::Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    Ok(statx(fd, c"", flags, StatxFlags::BASIC_STATS)?)
}

/// A long file as a thread that serves it has it.
#[derive(Debug)]
pub struct Long {
    file: Arc<LongFile>,
    open: RefCell<Weak<OpenFile>>,
}

impl From<Arc<LongFile>> for Long {
    fn from(file: Arc<LongFile>) -> Long {
        let open = RefCell::default();
        Long { file, open }
    }
}

impl Long {
    /// Which file it is.
    pub fn file(&self) -> &Arc<LongFile> {
        &self.file
    }

    /// The file, if it is open and not known to have changed.
    pub fn opened(&self) -> Option<Rc<OpenFile>> {
        let file = self.open.borrow().upgrade();
        file.filter(|file| !file.has_changed.get())
    }

    /// It is open from now on, for as long as somebody holds it.
    pub fn set_open(&self, file: &Rc<OpenFile>) {
        *self.open.borrow_mut() = Rc::downgrade(file);
    }
}
