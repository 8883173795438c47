//! From a file that has changed to the documents that are made of it.
//!
//! A file is read if its document is in memory, or there is room for it, or somebody asks for it; else it is listed. All
//! names of one file that are sent in the same manner have one document, and have it together or not at all.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use exos_buf::SharedBytes;
use rustix::fs::Stat;

use super::cache::{Admission, Arrival, Evicted, FromCache};
use super::change::Change;
use super::exposure;
use super::nodes::Node;
use super::root::Version;
use super::tree::{Sink, Tree};
use crate::message::coding::Coding;
use crate::site::document::{CONTENT_LEN_MAX, Draft, FileContent};
use crate::site::load::Reason;
use crate::site::long::LongFile;
use crate::site::path::{About, SitePath};
use crate::site::settings::Manner;

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
        // A file with several names is looked at for other reasons too. When its writer closes it, all names that
        // are known by then have the new version; another is looked at again.
        if self.is_being_written(path, version) {
            return Ok(known.is_some());
        }
        self.has_room_for(version, known.is_none())?;
        exposure::note(path, stat);
        self.remove_below(path, sink);
        if version.len > self.limits.memory_len {
            self.publish_long(path, real, version, sink)?;
            return Ok(true);
        }
        if !written && self.is_another_name(path, version, sink) {
            return Ok(true);
        }
        if !self.is_worth_reading(path, version) {
            self.list(path, version, sink);
            return Ok(true);
        }
        let has_lent_room = self.make_lent_room([version.len], sink);
        let Some((version, content)) = self.read(path, real, has_lent_room)? else {
            return Ok(false);
        };
        // Somebody may have begun to write before it was opened: the kernel had told by then.
        self.take_notices();
        if self.is_being_written(path, version) {
            return Ok(known.is_some());
        }
        self.publish(path, version, &content, sink);
        Ok(true)
    }

    /// Whether the site may have a file, by how many and how long they may be.
    fn has_room_for(&self, version: Version, is_new: bool) -> Result<(), Reason> {
        let limit = self.limits.files;
        if is_new && self.nodes.file_count() >= limit {
            return Err(Reason::TooManyFiles { limit });
        }
        let limit = self.limits.document_len;
        if version.len > limit {
            return Err(Reason::TooLong { limit });
        }
        Ok(())
    }

    /// Whether the file has a document by another of its names, which it then has by this one, too.
    fn is_another_name(&mut self, path: &SitePath, version: Version, sink: &mut Sink) -> bool {
        // One with variants has a document of its own.
        let is_shared = |other: &SitePath| self.holds(other) && !self.joined.contains(other);
        let Some(other) = self.nodes.same(path, version).filter(is_shared) else {
            return false;
        };
        self.nodes.record(path, version);
        self.say_same(path, &other, version, sink);
        self.doubt_variants(path);
        true
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
        if self.has_coded_files(path) {
            self.doubtful.insert(path.clone(), true);
        } else {
            self.admit(path, draft, Vec::new(), sink);
        }
        Ok(())
    }

    /// What is read of a file while it is sent, as the document at a path.
    pub(super) fn long_file(
        &self,
        path: &SitePath,
        real: &Path,
        version: Version,
    ) -> Result<Arc<LongFile>, Reason> {
        // Anyone who opens it has to be allowed to: better told now than to each client.
        drop(self.root.open_file(real).map_err(Reason::Unreadable)?);
        let file = LongFile::new(self.root.fd().clone(), real, path.clone(), version);
        file.map(Arc::new).map_err(Reason::Unreadable)
    }

    /// Reads a file that is not long.
    fn read(
        &self,
        path: &SitePath,
        real: &Path,
        has_lent_room: bool,
    ) -> Result<Option<(Version, FileContent)>, Reason> {
        let (most, memory_len) = (self.limits.document_len, self.limits.memory_len);
        let limit = most.min(memory_len).min(CONTENT_LEN_MAX as u64);
        let lend = self.lends(path, has_lent_room);
        match self.root.read(real, limit, Reason::TooLong { limit }, lend) {
            // It has become a long one since it was looked at.
            Err(Reason::TooLong { limit }) if limit < most => Ok(None),
            read => read,
        }
    }

    /// What looks for the content of a file in the file cache, for the document at a path, if there is room; nothing where it is to be in this
    /// process's memory.
    pub(super) fn lends(
        &self,
        path: &SitePath,
        has_room: bool,
    ) -> impl Fn(&File, u64) -> Option<SharedBytes> {
        let (lender, statistics) = {
            let cache = self.cache.lock();
            (cache.lender().cloned(), cache.statistics().clone())
        };
        let lender = lender.filter(|_| !self.is_kept(path));
        move |file, len| {
            let lender = lender.as_ref().filter(|_| FromCache::is_for(len))?;
            let lent = has_room.then(|| lender.lend(file, len)).flatten();
            statistics.note_lent(lent.is_some());
            lent
        }
    }

    /// Has others go from the file cache, where files of these lengths are to come from there for one document; whether there is room.
    pub(super) fn make_lent_room(
        &self,
        lens: impl IntoIterator<Item = u64>,
        sink: &mut Sink,
    ) -> bool {
        let lent = lens.into_iter().filter(|len| self.is_lent(*len));
        let taken: u64 = lent.map(FromCache::taken).sum();
        if taken == 0 {
            return true;
        }
        let (evicted, has_room) = self.cache.lock().make_lent_room(taken);
        say_evicted(evicted, sink);
        has_room
    }

    /// Whether files of this length come from the file cache, if it takes them.
    fn is_lent(&self, len: u64) -> bool {
        FromCache::is_for(len) && self.cache.lock().lender().is_some()
    }

    /// Whether a document of this length is read though nobody has asked for it: not where it would come from the file cache, which is not asked
    /// before anybody serves.
    pub(super) fn is_read_unasked(&self, len: u64) -> bool {
        !self.is_lent(len) && self.cache.lock().has_room(len)
    }

    /// Whether the document at a path is in memory.
    pub(super) fn holds(&self, path: &SitePath) -> bool {
        self.cache.lock().holds(self.site, path)
    }

    /// Whether a document is to be in memory, however long it is.
    pub(super) fn is_wanted(&self, path: &SitePath) -> bool {
        self.is_demanded(path) || self.is_kept(path) || self.holds(path)
    }

    /// Whether somebody waits for a document.
    pub(super) fn is_demanded(&self, path: &SitePath) -> bool {
        self.demanded.as_ref() == Some(path)
    }

    /// Error pages are sent when something else was asked for.
    fn is_kept(&self, path: &SitePath) -> bool {
        self.nodes.settings().pages_at(path).next().is_some()
    }

    fn is_worth_reading(&self, path: &SitePath, version: Version) -> bool {
        let mut names = self.nodes.names(version.identity).iter().chain([path]);
        names.any(|name| self.is_wanted(name)) || self.is_read_unasked(version.len)
    }

    /// A path has the document of another, which may be in memory or not.
    fn say_same(&mut self, path: &SitePath, other: &SitePath, version: Version, sink: &mut Sink) {
        let is_held = self.cache.lock().share(self.site, path, other);
        self.joined.remove(path);
        let change = match is_held {
            true => Change::Again(path.clone(), other.clone()),
            false => Change::Listed(path.clone(), About::of(&version)),
        };
        sink(self.site, change);
    }

    /// Makes known that there is another version of a file, of which no name's document is in memory.
    fn list(&mut self, path: &SitePath, version: Version, sink: &mut Sink) {
        self.nodes.record(path, version);
        for name in self.nodes.names(version.identity).to_vec() {
            self.nodes.record(&name, version);
            self.doubt_variants(&name);
            sink(self.site, Change::Listed(name, About::of(&version)));
        }
    }

    /// Makes documents of content that was read, for all paths of its file.
    fn publish(
        &mut self,
        path: &SitePath,
        version: Version,
        content: &FileContent,
        sink: &mut Sink,
    ) {
        self.nodes.record(path, version);
        let mut groups: Vec<(Manner, Vec<SitePath>)> = Vec::new();
        for other in self.nodes.names(version.identity).to_vec() {
            // Another file may have the identity of one that has gone.
            let seen = (other != *path).then(|| self.file_version(&other));
            if seen.is_some_and(|seen| seen.map(|v| v.identity) != Some(version.identity)) {
                continue;
            }
            self.nodes.record(&other, version);
            self.doubt_variants(&other);
            let manner = self.nodes.settings().manner(&other);
            match groups.iter_mut().find(|(known, _)| *known == manner) {
                Some((_, names)) => names.push(other),
                None => groups.push((manner, vec![other])),
            }
        }
        for (manner, names) in groups {
            self.publish_one(&manner, names, version, content, sink);
        }
    }

    /// Makes a document for names that share it.
    fn publish_one(
        &mut self,
        manner: &Manner,
        mut names: Vec<SitePath>,
        version: Version,
        content: &FileContent,
        sink: &mut Sink,
    ) {
        // A document with variants is made together with them, when all of them are known.
        let with_variants = names.extract_if(.., |name| self.has_coded_files(name));
        let with_variants: Vec<SitePath> = with_variants.collect();
        let unsaid = with_variants.into_iter().map(|name| (name, true));
        self.doubtful.extend(unsaid);
        names.sort_by_key(|name| !self.is_demanded(name));
        let Some((first, others)) = names.split_first() else {
            return;
        };
        let is_wanted = names.iter().any(|name| self.is_wanted(name));
        if is_wanted || self.is_read_unasked(version.len) {
            let draft = Draft::of_file(content, &manner.description(version.modified_secs()));
            self.admit(first, draft, Vec::new(), sink);
        } else {
            sink(
                self.site,
                Change::Listed(first.clone(), About::of(&version)),
            );
        }
        for other in others {
            self.say_same(other, first, version, sink);
        }
    }

    /// Says that a document is there, with its variants, and which others have to go for it.
    pub(super) fn admit(
        &mut self,
        path: &SitePath,
        plain: Draft,
        coded: Vec<(Coding, Draft)>,
        sink: &mut Sink,
    ) {
        let (about, is_demanded) = (plain.about(), self.is_demanded(path));
        let drafts = coded.iter().map(|(_, draft)| draft).chain([&plain]);
        // What is read while it is sent takes no memory that could be had back.
        let is_in_memory = drafts.clone().any(Draft::is_in_memory);
        let arrival = Arrival {
            bytes: drafts.flat_map(Draft::bytes).cloned().collect(),
            about,
            beside: 0,
            is_kept: self.is_kept(path) || !is_in_memory,
            is_asked_for: is_demanded,
        };
        let Admission { evicted, is_held } = self.cache.lock().admit(self.site, path, arrival);
        say_evicted(evicted, sink);
        let was_joined = self.joined.remove(path);
        if is_held && !coded.is_empty() {
            self.joined.insert(path.clone());
        }
        if is_held || is_demanded {
            let change = match was_joined || !coded.is_empty() {
                true => Change::Variants(path.clone(), plain, coded),
                false => Change::Document(path.clone(), plain),
            };
            sink(self.site, change);
        }
        if !is_held {
            sink(self.site, Change::Listed(path.clone(), about));
        }
        self.unreadable.remove(path);
        self.demanded.take_if(|_| is_demanded);
    }
}

/// Says that documents are not in memory any more.
fn say_evicted(evicted: Vec<Evicted>, sink: &mut Sink) {
    for Evicted { site, path, about } in evicted {
        sink(site, Change::evicted(path, about));
    }
}

impl About {
    /// What is said of a version of a file.
    pub fn of(version: &Version) -> About {
        About {
            len: version.len,
            modified_secs: version.modified_secs(),
        }
    }
}
