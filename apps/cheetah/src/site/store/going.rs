//! What is not served any more: what has gone, and what is left out.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::change::Change;
use super::nodes::Node;
use super::tree::{Sink, Tree};
use crate::site::load::{Omission, Reason};
use crate::site::path::SitePath;

impl Tree {
    /// What was in a directory and is not among the names in it has gone.
    pub(super) fn miss(&mut self, directory: &SitePath, names: &[Vec<u8>]) {
        for path in self.nodes.below(directory).skip(1) {
            let below = path.strip_suffix(b"/").unwrap_or(path);
            let name = &below[directory.len()..];
            if !name.contains(&b'/') && names.binary_search_by(|n| n.as_slice().cmp(name)).is_err()
            {
                self.gone.push(below.into());
            }
        }
    }

    pub(super) fn leave_out(&mut self, path: &SitePath, reason: Reason, sink: &mut Sink) {
        self.crowded |= matches!(reason, Reason::TooManyFiles { .. });
        self.remove_below(path, sink);
        if matches!(self.nodes.get(path), Some(Node::NotServed)) {
            return;
        }
        self.forget(path);
        self.doubt_variants(path);
        self.nodes.insert(path.clone(), Node::NotServed);
        sink(self.site, Change::Forbidden(path.clone()));
        self.omit(path, reason);
    }

    pub(super) fn omit(&mut self, path: &[u8], reason: Reason) {
        let path = OsStr::from_bytes(&path[1..]).into();
        self.omissions.push(Omission { path, reason });
    }

    pub(super) fn remove_gone(&mut self, sink: &mut Sink) {
        for path in std::mem::take(&mut self.gone) {
            self.links.remove(&path);
            self.remove_below(&path, sink);
            self.remove(&path, sink);
        }
    }

    /// Takes away what was seen at a path; true if something was.
    fn forget(&mut self, path: &SitePath) -> bool {
        self.cache.lock().leave(self.site, path);
        self.unreadable.remove(path);
        self.nodes.forget(path)
    }

    pub(super) fn remove(&mut self, path: &SitePath, sink: &mut Sink) {
        if self.forget(path) {
            self.doubt_variants(path);
            sink(self.site, Change::Gone(path.clone()));
        }
    }

    /// Removes the directory at a path and what is in it, the innermost first.
    pub(super) fn remove_below(&mut self, path: &SitePath, sink: &mut Sink) {
        let directory: SitePath = [path, &b"/"[..]].concat().into();
        let paths: Vec<SitePath> = self.nodes.below(&directory).cloned().collect();
        for path in paths.into_iter().rev() {
            self.links.remove(&path);
            match self.nodes.get(&path) {
                Some(Node::Directory(node)) => {
                    if let (Some(id), Some(watch)) = (node.watch, &mut self.watch) {
                        watch.remove(id, &path);
                    }
                    self.nodes.forget(&path);
                    sink(self.site, Change::GoneDirectory(path));
                }
                _ => self.remove(&path, sink),
            }
        }
    }
}
