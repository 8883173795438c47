//! What becomes of a document that is asked for and not in memory.

use std::io;
use std::time::Instant;

use rustix::io::Errno;

use super::change::Change;
use super::nodes::Node;
use super::tree::{Sink, Tree};
use crate::site::load::Reason;
use crate::site::path::SitePath;

impl Tree {
    /// Reads a document that somebody asks for, and says what becomes of it: it is there, or has gone, or is not served, or
    /// could not be read this time. It is read as it is now, by the rules of loading. One that is too large to be kept is
    /// said to be there, and at once to be listed again. Nothing is said of a path about which something else is on its
    /// way to who asks.
    pub fn fetch(&mut self, path: &SitePath, now: Instant, sink: &mut Sink) {
        if !self.is_file(path) || self.holds(path) {
            return;
        }
        self.demanded = Some(path.clone());
        if self.file_version(path).is_some() {
            self.examine(path, true, sink);
            self.remove_gone(sink);
            self.join_variants(sink);
        } else {
            // It is something else by now, of which a notice tells, perhaps not the first that there is.
            self.doubt(path.clone(), now);
            self.poll(now, sink);
        }
        if self.demanded.take().is_some() && self.is_file(path) {
            sink(self.site, Change::Failed(path.clone()));
        }
    }

    /// Whether a path leads to a file that is served.
    pub(super) fn is_file(&self, path: &[u8]) -> bool {
        matches!(self.nodes.get(path), Some(Node::File(_)))
    }

    /// Whether a document that is asked for may be read another time, though not now.
    pub(super) fn is_failure(&self, path: &SitePath, reason: &Reason) -> bool {
        let Reason::Unreadable(error) = reason else {
            return false;
        };
        self.is_demanded(path) && is_passing(error)
    }

    /// Tells the reason of a failure, once for all until it is over.
    pub(super) fn fail(&mut self, path: &SitePath, reason: Reason) {
        if self.unreadable.insert(path.clone()) {
            self.omit(path, reason);
        }
    }
}

/// Errors that say nothing about the file: its disk fails, or this program has no descriptors left.
fn is_passing(error: &io::Error) -> bool {
    let passing = [
        Errno::IO,
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::INTR,
        Errno::AGAIN,
        Errno::STALE,
        Errno::TIMEDOUT,
        Errno::NOENT, // Gone since it was looked at: a notice is on its way.
    ];
    Errno::from_io_error(error).is_some_and(|errno| passing.contains(&errno))
}
