//! Which files are the coded variants of which document, when one of them has changed.
//!
//! Everything is made here, on the thread that reads: the loop gets a document with all its variants at once.

use std::sync::Arc;

use super::change::Change;
use super::nodes::Node;
use super::root::Version;
use super::tree::{Sink, Tree};
use crate::message::coding::Coding;
use crate::site::document::{Description, Draft, FileContent};
use crate::site::load::Reason;
use crate::site::long::LongFile;
use crate::site::media_type;
use crate::site::path::{About, SitePath};

/// What is in a file.
enum Content {
    Bytes(FileContent),
    /// It is read while it is sent.
    Long(Arc<LongFile>),
}

/// A variant, and what it was made of.
type Coded = (Coding, Version, Content);

impl Content {
    fn draft(&self, description: &Description) -> Draft {
        match self {
            Content::Bytes(content) => Draft::of_file(content, description),
            Content::Long(file) => Draft::long(file.clone(), description),
        }
    }

    fn charset(&self, media_type: &str) -> &'static str {
        match self {
            Content::Bytes(content) => media_type::charset(media_type, &content.bytes),
            Content::Long(_) => "",
        }
    }
}

impl Tree {
    /// Takes note that a file has changed which is or has variants.
    pub(super) fn doubt_variants(&mut self, path: &SitePath) {
        if let Some((original, _)) = Coding::of_name(path) {
            self.doubtful.entry(original.into()).or_default();
        }
        if self.has_coded_files(path) || self.joined.contains(path) {
            self.doubtful.entry(path.clone()).or_default();
        }
    }

    /// Whether there are files beside a document that are variants of it, or would be if they were not older.
    pub(super) fn has_coded_files(&self, path: &SitePath) -> bool {
        let mut codings = Coding::ALL.into_iter();
        codings.any(|coding| self.is_file(&coded_path(path, coding)))
    }

    /// Makes documents of all that have other variants than they had, if they are to be in memory.
    pub(super) fn join_variants(&mut self, sink: &mut Sink) {
        for (path, is_unsaid) in std::mem::take(&mut self.doubtful) {
            let Some(&Node::File(version)) = self.nodes.get(&path) else {
                self.joined.remove(&path);
                continue;
            };
            if !is_unsaid && !self.has_coded_files(&path) && !self.joined.contains(&path) {
                continue; // It is there, without any.
            }
            let coded = self.coded_versions(&path, &version);
            let versions = coded.iter().map(|&(_, version)| version).chain([version]);
            let lens = versions.map(|version| self.nodes.len_in_memory(version));
            let lens: Vec<u64> = lens.collect();
            let is_wanted = self.is_wanted(&path) || self.is_read_unasked(lens.iter().sum());
            let lends = is_wanted && self.make_lent_room(lens, sink);
            let content = is_wanted.then(|| self.content_at(&path, &path, lends));
            match content.flatten() {
                Some(content) => self.join(path, content, (coded, lends), sink),
                // If somebody is writing to it, a notice is on its way, which brings us here again.
                None if self.holds(&path) => {}
                None => sink(self.site, Change::Listed(path, About::of(&version))),
            }
        }
    }

    fn join(
        &mut self,
        path: SitePath,
        (version, content): (Version, Content),
        (coded, lends): (Vec<(Coding, Version)>, bool),
        sink: &mut Sink,
    ) {
        let read = |(coding, _)| {
            let (version, content) = self.content_at(&coded_path(&path, coding), &path, lends)?;
            Some((coding, version, content))
        };
        let coded: Vec<Coded> = coded.into_iter().filter_map(read).collect();
        let manner = self.nodes.settings().manner(&path);
        let charset = content.charset(&manner.media_type);
        let media_type = manner.media_type.clone() + charset;
        let describe = |version: &Version, coding| Description {
            media_type: &media_type,
            coding,
            vary: !coded.is_empty(),
            ..manner.description(version.modified_secs())
        };
        let plain = content.draft(&describe(&version, None));
        let variant = |(coding, version, content): &Coded| {
            (*coding, content.draft(&describe(version, Some(*coding))))
        };
        let variants = coded.iter().map(variant).collect();
        self.admit(&path, plain, variants, sink);
    }

    /// The coded files beside a document that are variants of this version of it.
    fn coded_versions(&mut self, path: &SitePath, plain: &Version) -> Vec<(Coding, Version)> {
        let mut coded = Vec::new();
        for coding in Coding::ALL {
            let coded_path = coded_path(path, coding);
            match self.nodes.get(&coded_path) {
                Some(&Node::File(version)) if version.modified_secs() >= plain.modified_secs() => {
                    coded.push((coding, version));
                }
                // Of one that is asked for it has been said before.
                Some(Node::File(_)) if !self.is_demanded(path) => {
                    self.omit(&coded_path, Reason::Outdated);
                }
                _ => {}
            }
        }
        coded
    }

    /// What is in the file at a path, if it is the version that was last seen there; it becomes a part of the document
    /// at `of`, which may be lent where there is room for all of it.
    fn content_at(
        &mut self,
        path: &SitePath,
        of: &SitePath,
        lends: bool,
    ) -> Option<(Version, Content)> {
        let Some(&Node::File(known)) = self.nodes.get(path) else {
            return None;
        };
        let (real, seen) = self.regular_file(path)?;
        let limit = self.limits.memory_len;
        if known.len > limit {
            let file = self.long_file(of, &real, known).ok();
            return file
                .filter(|_| seen == known)
                .map(|file| (known, Content::Long(file)));
        }
        let lend = self.lends(of, lends);
        let read = self
            .root
            .read(&real, limit, Reason::TooLong { limit }, lend);
        let (version, content) = read.ok().flatten()?;
        (version == known).then_some((version, Content::Bytes(content)))
    }
}

fn coded_path(path: &[u8], coding: Coding) -> SitePath {
    [path, coding.extension().as_bytes()].concat().into()
}
