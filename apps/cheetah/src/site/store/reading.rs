//! From a file that has changed to the documents that are made of it.

use std::path::Path;
use std::sync::Arc;

use rustix::fs::Stat;

use super::nodes::Node;
use super::root::Version;
use super::tree::{Sink, Tree};
use super::{Change, SitePath};
use crate::site::document::{CONTENT_LEN_MAX, Draft};
use crate::site::long::LongFile;
use crate::site::settings::Manner;
use crate::site::{Limits, Reason};

impl Tree {
    /// Says which document a file is; false when somebody is writing to it.
    pub(super) fn file(
        &mut self,
        path: &SitePath,
        real: &Path,
        stat: &Stat,
        written: bool,
        sink: &mut Sink,
    ) -> Result<bool, Reason> {
        let version = Version::of(stat);
        let known = match self.nodes.get(path) {
            Some(Node::File(known)) => Some(*known),
            _ => None,
        };
        if known == Some(version) && !written {
            return Ok(true);
        }
        if known.is_none() && self.nodes.file_count() >= self.limits.files {
            let limit = self.limits.files;
            return Err(Reason::TooManyFiles { limit });
        }
        self.remove_below(path, sink);
        let is_long = version.len > self.limits.memory_len;
        if !written
            && !is_long
            && let Some(other) = self.nodes.same(path, version)
        {
            self.nodes.record(path, version);
            sink(Change::Again(path.clone(), other));
            self.doubt_variants(path);
            return Ok(true);
        }
        if is_long {
            self.publish_long(path, real, version, sink)?;
            return Ok(true);
        }
        let Some((version, content)) = self.read(real, known)? else {
            return Ok(false);
        };
        self.publish(path, version, &content, sink);
        Ok(true)
    }

    /// Makes documents of a file that is not read, for all its names: each has its own, since all that they share is in
    /// the file system.
    fn publish_long(
        &mut self,
        path: &SitePath,
        real: &Path,
        version: Version,
        sink: &mut Sink,
    ) -> Result<(), Reason> {
        let limit = self.limits.document_len;
        if version.len > limit {
            return Err(Reason::TooLong { limit });
        }
        self.publish_name(path, real, version, sink)?;
        for other in self.nodes.names(version.identity).to_vec() {
            let is_told = matches!(self.nodes.get(&other), Some(Node::File(v)) if *v == version);
            if !is_told
                && let Some((real, seen)) = self.regular_file(&other)
                && seen == version
            {
                self.publish_name(&other, &real, version, sink)?;
            }
        }
        Ok(())
    }

    fn publish_name(
        &mut self,
        path: &SitePath,
        real: &Path,
        version: Version,
        sink: &mut Sink,
    ) -> Result<(), Reason> {
        let file = self.long_file(path, real, version)?;
        let manner = self.nodes.settings().manner(path);
        let description = manner.description(version.modified_secs());
        let draft = Draft::long(file, &description);
        self.nodes.record(path, version);
        self.doubt_variants(path);
        sink(Change::Document(path.clone(), draft));
        Ok(())
    }

    /// What is read of a file while it is sent, as the document at a path.
    pub(super) fn long_file(
        &self,
        path: &SitePath,
        real: &Path,
        version: Version,
    ) -> Result<Arc<LongFile>, Reason> {
        // Whoever opens it has to be allowed to: better told now than to each client.
        drop(self.root.open_file(real).map_err(Reason::Unreadable)?);
        let file = LongFile::new(self.root.fd().clone(), real, path.clone(), version);
        file.map(Arc::new).map_err(Reason::Unreadable)
    }

    /// Reads a file within the limits; `known` is its version that is counted already.
    fn read(
        &self,
        real: &Path,
        known: Option<Version>,
    ) -> Result<Option<(Version, Vec<u8>)>, Reason> {
        let Limits {
            document_len,
            memory_len,
            site_len,
            ..
        } = self.limits;
        let limit = document_len.min(memory_len).min(CONTENT_LEN_MAX as u64);
        let counted = known.map_or(0, |version| self.nodes.len_in_memory(version));
        let left = (site_len + counted).saturating_sub(self.content_len());
        let too_long = match limit <= left {
            true => Reason::TooLong { limit },
            false => Reason::SiteFull { limit: site_len },
        };
        match self.root.read(real, limit.min(left), too_long) {
            // It has become a long one since it was looked at.
            Err(Reason::TooLong { limit }) if limit < document_len => Ok(None),
            read => read,
        }
    }

    /// Makes documents of content that was read, for all paths of its file.
    fn publish(&mut self, path: &SitePath, version: Version, content: &[u8], sink: &mut Sink) {
        self.nodes.record(path, version);
        let mut drafted: Vec<(Manner, SitePath)> = Vec::new();
        for other in self.nodes.names(version.identity).to_vec() {
            // Another file may have the identity of one that has gone.
            let seen = (other != *path).then(|| self.file_version(&other));
            if seen.is_some_and(|seen| seen.map(|v| v.identity) != Some(version.identity)) {
                continue;
            }
            self.nodes.record(&other, version);
            self.doubt_variants(&other);
            let manner = self.nodes.settings().manner(&other);
            match drafted.iter().find(|(known, _)| *known == manner) {
                Some((_, first)) => sink(Change::Again(other, first.clone())),
                None => {
                    let description = manner.description(version.modified_secs());
                    let draft = Draft::new(content, &description);
                    drafted.push((manner, other.clone()));
                    sink(Change::Document(other, draft));
                }
            }
        }
    }
}
