//! How much of a site is in memory, kept up to date with its table: asked for once a second while status pages are on,
//! which a walk over a large table would answer too slowly.
//!
//! A directory's path is not counted, since it may have the document of another. A content under several paths, that of a
//! file with several names, is there once: such are known by where their bytes lie, which stay there as long as a path
//! has them. All others cost nothing.

use std::hash::BuildHasherDefault;

use hashbrown::HashMap;

use super::document::Document;
use super::entry::Entry;
use super::hash::PathHasher;
use super::variants::Variants;

/// What of a site's documents is in memory.
#[derive(Debug, Default)]
pub(super) struct Totals {
    documents: usize,
    content_len: u64,
    /// How many paths have each content that more than one may have, by its address.
    shared: HashMap<usize, u32, BuildHasherDefault<PathHasher>>,
}

impl Totals {
    /// Paths with a document in memory.
    pub fn documents(&self) -> usize {
        self.documents
    }

    /// Bytes of these documents, without their header fields.
    pub fn content_len(&self) -> u64 {
        self.content_len
    }

    /// Counts what comes to a path.
    pub fn add(&mut self, path: &[u8], entry: &Entry) {
        let Some(variants) = counted(path, entry) else {
            return;
        };
        self.documents += 1;
        for document in contents(variants) {
            match self.shared.get_mut(&address(document)) {
                None => self.content_len += body_len(document),
                Some(paths) => *paths += 1,
            }
        }
    }

    /// Says that a document that is at a path may come to others, too.
    pub fn share(&mut self, document: &Document) {
        self.shared.entry(address(document)).or_insert(1);
    }

    /// Counts what has gone from a path, where it was.
    pub fn remove(&mut self, path: &[u8], entry: &Entry) {
        let Some(variants) = counted(path, entry) else {
            return;
        };
        self.documents -= 1;
        for document in contents(variants) {
            match self.shared.get_mut(&address(document)) {
                None => self.content_len -= body_len(document),
                Some(1) => {
                    self.shared.remove(&address(document));
                    self.content_len -= body_len(document);
                }
                Some(paths) => *paths -= 1,
            }
        }
    }
}

fn counted<'e>(path: &[u8], entry: &'e Entry) -> Option<&'e Variants> {
    match entry {
        Entry::Document(variants) if !path.ends_with(b"/") => Some(variants),
        Entry::Document(_) | Entry::Listed(..) | Entry::Directory | Entry::Forbidden => None,
    }
}

fn contents(variants: &Variants) -> impl Iterator<Item = &Document> {
    let coded = variants.coded().iter().map(|(_, document)| document);
    coded.chain([variants.plain()])
}

fn body_len(document: &Document) -> u64 {
    document.body().len() as u64
}

fn address(document: &Document) -> usize {
    document.buffer().as_slice().as_ptr().addr()
}

#[cfg(test)]
mod tests;
