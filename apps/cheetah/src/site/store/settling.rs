//! Which files are not to be looked at yet, because somebody writes to them.
//!
//! [`Dirty`](super::dirty::Dirty) says when a path is due of which the kernel has told. But a file is looked at for other
//! reasons too: another of its names, a link to it, a rescan. Then it has to be asked whether any of its names is being
//! written to; its old version is served meanwhile, and the writer's close brings the new one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::Stat;

use super::looking::split;
use super::nodes::Node;
use super::root::Version;
use super::tree::Tree;
use super::watch::What;
use crate::site::path::SitePath;

impl Tree {
    /// The version of the file at a path whose name leads nowhere else: a link has nothing to settle, nor has a new name of a
    /// file that is served in this version.
    pub(super) fn settling_version(&mut self, path: &SitePath) -> Option<Version> {
        let (parent, name) = split(path);
        let (real, version) = self.regular_file(path)?;
        let Some(Node::Directory(directory)) = self.nodes.get(parent) else {
            return None;
        };
        let is_link = real != directory.real.join(OsStr::from_bytes(name));
        let is_served = |other: &SitePath| matches!(self.nodes.get(other), Some(Node::File(known)) if known.has_bytes_of(&version));
        let is_new_name =
            !self.is_file(path) && self.nodes.names(version.identity).iter().any(is_served);
        (!is_link && !is_new_name).then_some(version)
    }

    /// Whether a file's bytes are others though no notice has said that they are whole: a writer has just begun, or has
    /// a name for it that is not ours. It is looked at when it rests, or when a notice comes.
    pub(super) fn is_untold(&mut self, path: &SitePath, stat: &Stat) -> bool {
        let version = Version::of(stat);
        let is_same_file = |known: &Version| known.identity == version.identity;
        match self.nodes.get(path) {
            Some(Node::File(known)) if is_same_file(known) && *known != version => {}
            _ => return false,
        }
        // What is to be read again for another name's sake is not waited for.
        if !self.is_being_written(path, version) && !self.reread.contains(path) {
            self.dirty.note(path.clone(), What::Touched, self.now);
        }
        true
    }

    /// Whether somebody writes to a file, by whichever of its names, so that it is not to be read now. What was not there
    /// before is read all the same when everything is, since notices may have been lost; and so is what somebody waits
    /// for, or what has been waited for long enough.
    pub(super) fn is_being_written(&self, path: &SitePath, version: Version) -> bool {
        let is_new = !matches!(self.nodes.get(path), Some(Node::File(_)));
        let is_read_anyway = self.at_rest || self.is_demanded(path) || (self.is_scanning && is_new);
        let mut names = self.nodes.names(version.identity).iter().chain([path]);
        !is_read_anyway && names.any(|name| self.dirty.is_unsettled(name))
    }
}
