//! What is at a path now, by the rules of loading: symbolic links are followed within the directory, and what must not be
//! served has its reason.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};

use super::nodes::Node;
use super::root::{Found, Version, identity};
use super::tree::Tree;
use crate::limits;
use crate::site::load::Reason;
use crate::site::path::SitePath;

impl Tree {
    /// What is at a path, links followed.
    pub(super) fn look(&mut self, path: &SitePath) -> Result<Found, Reason> {
        let (parent, name) = split(path);
        let Some(Node::Directory(directory)) = self.nodes.get(parent) else {
            return Ok(Found::Nothing);
        };
        let mut real = directory.real.join(OsStr::from_bytes(name));
        let Some(mut stat) = self.stat(&real)? else {
            self.links.remove(path);
            return Ok(Found::Nothing);
        };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            self.links.insert(path.clone());
            real = self.root.resolve(&real)?;
            let gone = || Reason::Unreadable(io::ErrorKind::NotFound.into());
            stat = self.stat(&real)?.ok_or_else(gone)?;
            self.watch_target(&real);
        } else if stat.st_nlink == 1 || FileType::from_raw_mode(stat.st_mode).is_dir() {
            self.links.remove(path);
        } else {
            self.links.insert(path.clone());
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if depth(path) >= limits::SITE_DEPTH_MAX => Err(Reason::TooDeep),
            FileType::Directory if self.nodes.is_below(path, identity(&stat)) => Err(Reason::Cycle),
            FileType::Directory => Ok(Found::Directory(real)),
            FileType::RegularFile => Ok(Found::File(real, stat)),
            _ => Err(Reason::NotRegular),
        }
    }

    /// Whether the name itself has gone since it was looked at. A link that is there and leads nowhere has not; anything else that is
    /// there has come since, and has a notice of its own.
    pub(super) fn has_vanished(&mut self, path: &SitePath, reason: &Reason) -> bool {
        let is_not_found =
            matches!(reason, Reason::Unreadable(e) if e.kind() == io::ErrorKind::NotFound);
        let (parent, name) = split(path);
        let Some(Node::Directory(directory)) = self.nodes.get(parent) else {
            return is_not_found;
        };
        let real = directory.real.join(OsStr::from_bytes(name));
        let is_link = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        is_not_found
            && matches!(self.stat(&real), Ok(found) if !found.as_ref().is_some_and(is_link))
    }

    fn stat(&self, real: &Path) -> Result<Option<Stat>, Reason> {
        match self.root.stat(real) {
            Ok(stat) => Ok(Some(stat)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Reason::Unreadable(e)),
        }
    }

    /// The directory of what a link leads to may be one that is not served.
    fn watch_target(&mut self, real: &Path) {
        if let (Some(watch), Some(parent)) = (&mut self.watch, real.parent())
            && let Ok((fd, _)) = self.root.directory(parent)
        {
            watch.add_nameless(&fd);
        }
    }

    /// Where the regular file at a path is, and its version.
    pub(super) fn regular_file(&mut self, path: &SitePath) -> Option<(PathBuf, Version)> {
        match self.look(path) {
            Ok(Found::File(real, stat)) => Some((real, Version::of(&stat))),
            _ => None,
        }
    }

    /// The version of the regular file at a path.
    pub(super) fn file_version(&mut self, path: &SitePath) -> Option<Version> {
        self.regular_file(path).map(|(_, version)| version)
    }
}

/// How many directories a path lies in.
fn depth(path: &[u8]) -> usize {
    path.iter().filter(|&&byte| byte == b'/').count()
}

/// The directory of a path, with its slash, and the name in it.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|&byte| byte == b'/');
    path.split_at(slash.map_or(0, |at| at + 1))
}
