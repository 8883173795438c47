//! Notices of the kernel that something below a directory has changed (inotify).
//!
//! A watch belongs to a directory, not to its name: after a rename it goes on, and the same directory
//! reached by two names has one watch. So each watch has the list of paths that it stands for.
//!
//! rustix speaks to inotify without `unsafe` of ours, and the workspace has it already; the crate
//! `inotify` would add its own descriptors and an allocation for each notice.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use super::SitePath;
use crate::limits::NOTICES_LEN;

/// What happened to a name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It leads elsewhere now, or nowhere: the result can be read at once.
    Named,
    /// Somebody has written to the file and closed it.
    Written,
    /// The file is new, or somebody writes to it. More may come.
    Touched,
    /// Its rights or times are others. More may come.
    Altered,
}

/// What a notice says.
#[derive(Debug)]
pub enum Notice<'a> {
    /// Something happened to a name in a directory.
    At {
        /// The directory, with a slash at its end.
        directory: &'a SitePath,
        /// The name in it.
        name: &'a [u8],
        /// What happened.
        what: What,
    },
    /// Something happened in a directory that only links lead to.
    Elsewhere,
    /// The directory that is served may be another one now.
    Root,
    /// Notices were lost: everything may have changed.
    Overflow,
}

/// Watched directories.
#[derive(Debug)]
pub struct Watch {
    fd: OwnedFd,
    paths: HashMap<i32, Vec<SitePath>>,
    /// The watch of the directory that the root lies in, and the root's name there.
    parent: Option<(i32, Vec<u8>)>,
    /// Directories that the kernel would not watch.
    refused: u64,
}

const NAMES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::EXCL_UNLINK);
const FILES: WatchFlags = NAMES
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB);

impl Watch {
    /// Watches nothing yet.
    pub fn new() -> io::Result<Watch> {
        Ok(Watch {
            fd: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?,
            paths: HashMap::new(),
            parent: None,
            refused: 0,
        })
    }

    /// Readable when there are notices.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// How many directories the kernel would not watch.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Watches a directory on behalf of a path.
    pub fn add(&mut self, directory: &OwnedFd, path: &SitePath) -> Option<i32> {
        let id = self.add_nameless(directory)?;
        let paths = self.paths.entry(id).or_default();
        if !paths.contains(path) {
            paths.push(path.clone());
        }
        Some(id)
    }

    /// Watches a directory that has no path of the site, because a link leads to a file in it.
    pub fn add_nameless(&mut self, directory: &OwnedFd) -> Option<i32> {
        // The descriptor, not a name: it cannot have been exchanged.
        let itself = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let id = inotify::add_watch(&self.fd, itself, FILES).ok();
        match id {
            Some(id) => drop(self.paths.entry(id).or_default()),
            None => self.refused += 1,
        }
        id
    }

    /// Forgets one of the paths of a watch, and with the last the watch.
    pub fn remove(&mut self, id: i32, path: &SitePath) {
        let Some(paths) = self.paths.get_mut(&id) else {
            return;
        };
        paths.retain(|known| known != path);
        if paths.is_empty() {
            self.paths.remove(&id);
            // The kernel may have removed it with its directory.
            let _ = inotify::remove_watch(&self.fd, id);
        }
    }

    /// Watches for another directory in the place of the root.
    pub fn add_parent(&mut self, root: &Path) {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.into());
        if let (Some(parent), Some(name)) = (root.parent(), root.file_name()) {
            let id = inotify::add_watch(&self.fd, parent, NAMES).ok();
            self.parent = id.map(|id| (id, name.as_encoded_bytes().to_vec()));
        }
    }

    /// Reads the notices that there are.
    pub fn read(&mut self, mut each: impl FnMut(Notice)) {
        let mut buffer = vec![MaybeUninit::uninit(); NOTICES_LEN];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        // Without a notice the error is EAGAIN; any other is of the kernel's memory, and comes again.
        while let Ok(event) = reader.next() {
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                each(Notice::Overflow);
            }
            if flags.contains(ReadFlags::IGNORED) {
                self.paths.remove(&event.wd());
            }
            let Some(name) = event.file_name().map(|name| name.to_bytes()) else {
                continue; // The directory itself, of which its own directory tells.
            };
            if let Some((id, root)) = &self.parent
                && *id == event.wd()
                && root == name
            {
                each(Notice::Root);
            }
            let Some(paths) = self.paths.get(&event.wd()) else {
                continue;
            };
            if paths.is_empty() {
                each(Notice::Elsewhere);
            }
            let what = what_of(flags);
            for directory in paths {
                each(Notice::At {
                    directory,
                    name,
                    what,
                });
            }
        }
    }
}

fn what_of(flags: ReadFlags) -> What {
    let named = ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO | ReadFlags::DELETE | ReadFlags::ISDIR;
    if flags.intersects(named) {
        What::Named
    } else if flags.contains(ReadFlags::CLOSE_WRITE) {
        What::Written
    } else if flags.contains(ReadFlags::ATTRIB) {
        What::Altered
    } else {
        What::Touched
    }
}
