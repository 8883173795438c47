//! Which files are the coded variants of which document, when one of them has changed.
//!
//! Everything is made here, on the thread that reads: the loop gets a document with all its variants at
//! once, by the same rules as [`Site::join_variants`](super::super::Site::join_variants).

use std::sync::Arc;

use super::nodes::Node;
use super::root::Version;
use super::tree::{Sink, Tree};
use super::{Change, SitePath};
use crate::site::document::Draft;
use crate::site::long::LongFile;
use crate::site::{Coding, Description, Reason, media_type};

/// What is in a file.
enum Content {
    Bytes(Vec<u8>),
    /// It is read while it is sent.
    Long(Arc<LongFile>),
}

/// A variant, and what it was made of.
type Coded = (Coding, Version, Content);

impl Content {
    fn draft(&self, description: &Description) -> Draft {
        match self {
            Content::Bytes(bytes) => Draft::new(bytes, description),
            Content::Long(file) => Draft::long(file.clone(), description),
        }
    }

    fn charset(&self, media_type: &str) -> &'static str {
        match self {
            Content::Bytes(bytes) => media_type::charset(media_type, bytes),
            Content::Long(_) => "",
        }
    }
}

impl Tree {
    /// Takes note that a file has changed which is or has variants.
    pub(super) fn doubt_variants(&mut self, path: &SitePath) {
        if let Some((original, _)) = Coding::of_name(path) {
            self.doubtful.insert(original.into());
        }
        let mut codings = Coding::ALL.into_iter();
        let has_variants = codings.any(|coding| self.is_file(&coded_path(path, coding)));
        if has_variants || self.joined.contains_key(path) {
            self.doubtful.insert(path.clone());
        }
    }

    /// Makes documents of all that have other variants than they had.
    pub(super) fn join_variants(&mut self, sink: &mut Sink) {
        for path in std::mem::take(&mut self.doubtful) {
            let before = self.joined.remove(&path);
            self.joined_len -= before.unwrap_or(0);
            // Whatever cannot be read now has a notice on its way, which brings us here again.
            let Some((version, content)) = self.content_at(&path, &path) else {
                continue;
            };
            let coded = self.coded_of(&path, &version);
            if !coded.is_empty() || before.is_some() {
                self.join(path, (version, content), coded, sink);
            }
        }
    }

    fn join(
        &mut self,
        path: SitePath,
        (version, content): (Version, Content),
        coded: Vec<Coded>,
        sink: &mut Sink,
    ) {
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
        if !coded.is_empty() {
            let lens = coded.iter().map(|(_, version, _)| *version);
            let len = lens.map(|version| self.nodes.len_in_memory(version)).sum();
            self.joined.insert(path.clone(), len);
            self.joined_len += len;
        }
        sink(Change::Variants(path, plain, variants));
    }

    /// The coded files beside a document that are variants of this version of it.
    fn coded_of(&mut self, path: &SitePath, plain: &Version) -> Vec<Coded> {
        let mut coded: Vec<Coded> = Vec::new();
        let mut len = self.content_len();
        for coding in Coding::ALL {
            let original = path;
            let path = coded_path(path, coding);
            let Some((version, content)) = self.content_at(&path, original) else {
                continue;
            };
            let limit = self.limits.site_len;
            let in_memory = self.nodes.len_in_memory(version);
            if version.modified_secs() < plain.modified_secs() {
                self.omit(&path, Reason::Outdated);
            } else if len + in_memory > limit {
                self.crowded = true;
                self.omit(&path, Reason::SiteFull { limit });
            } else {
                len += in_memory;
                coded.push((coding, version, content));
            }
        }
        coded
    }

    /// What is in the file at a path, if it is the version that was last seen there; it becomes a part of the document
    /// at `of`.
    fn content_at(&mut self, path: &SitePath, of: &SitePath) -> Option<(Version, Content)> {
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
        let read = self.root.read(&real, limit, Reason::TooLong { limit });
        let (version, content) = read.ok().flatten()?;
        (version == known).then_some((version, Content::Bytes(content)))
    }

    fn is_file(&self, path: &[u8]) -> bool {
        matches!(self.nodes.get(path), Some(Node::File(_)))
    }
}

fn coded_path(path: &[u8], coding: Coding) -> SitePath {
    [path, coding.extension().as_bytes()].concat().into()
}
