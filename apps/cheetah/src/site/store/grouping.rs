//! Which files are the coded variants of which document, when one of them has changed.
//!
//! Everything is made here, on the thread that reads: the loop gets a document with all its variants at
//! once, by the same rules as [`Site::join_variants`](super::super::Site::join_variants).

use super::nodes::Node;
use super::root::Version;
use super::tree::{Sink, Tree};
use super::{Change, SitePath};
use crate::site::document::Draft;
use crate::site::{Coding, Description, Reason, media_type};

/// A variant, and what it was made of.
type Coded = (Coding, Version, Vec<u8>);

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
            let Some((version, content)) = self.content_at(&path) else {
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
        (version, content): (Version, Vec<u8>),
        coded: Vec<Coded>,
        sink: &mut Sink,
    ) {
        let manner = self.nodes.settings().manner(&path);
        let charset = media_type::charset(&manner.media_type, &content);
        let media_type = manner.media_type.clone() + charset;
        let describe = |version: &Version, coding| Description {
            media_type: &media_type,
            coding,
            vary: !coded.is_empty(),
            ..manner.description(version.modified_secs())
        };
        let plain = Draft::new(&content, &describe(&version, None));
        let variant = |(coding, version, content): &Coded| {
            (
                *coding,
                Draft::new(content, &describe(version, Some(*coding))),
            )
        };
        let variants = coded.iter().map(variant).collect();
        if !coded.is_empty() {
            let len = coded.iter().map(|(_, version, _)| version.len).sum();
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
            let path = coded_path(path, coding);
            let Some((version, content)) = self.content_at(&path) else {
                continue;
            };
            let limit = self.limits.site_len;
            if version.modified_secs() < plain.modified_secs() {
                self.omit(&path, Reason::Outdated);
            } else if len + version.len > limit {
                self.crowded = true;
                self.omit(&path, Reason::SiteFull { limit });
            } else {
                len += version.len;
                coded.push((coding, version, content));
            }
        }
        coded
    }

    /// What is in the file at a path, if it is the version that was last seen there.
    fn content_at(&mut self, path: &SitePath) -> Option<(Version, Vec<u8>)> {
        let Some(&Node::File(known)) = self.nodes.get(path) else {
            return None;
        };
        let real = self.real_of_file(path)?;
        let limit = self.limits.document_len;
        let read = self.root.read(&real, limit, Reason::TooLong { limit });
        let read = read.ok().flatten();
        read.filter(|(version, _)| *version == known)
    }

    fn is_file(&self, path: &[u8]) -> bool {
        matches!(self.nodes.get(path), Some(Node::File(_)))
    }
}

fn coded_path(path: &[u8], coding: Coding) -> SitePath {
    [path, coding.extension().as_bytes()].concat().into()
}
