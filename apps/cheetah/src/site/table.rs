//! The table of a site: what each path leads to, kept together with all that is made of it.

use std::hash::BuildHasherDefault;
use std::sync::Arc;

use exos_buf::Slice;
use hashbrown::{HashMap, HashSet};

use super::document::Document;
use super::entry::Entry;
use super::hash::PathHasher;
use super::listing::Listings;
use super::pages::Pages;
use super::path::{About, SitePath};
use super::settings::Settings;
use super::totals::Totals;
use super::variants::Variants;
use crate::message::Status;

/// The documents of a site by path.
#[derive(Debug)]
pub struct Site {
    settings: Arc<Settings>,
    pages: Pages,
    /// `None` where directories are not listed.
    listings: Option<Listings>,
    entries: HashMap<Box<[u8]>, Entry, BuildHasherDefault<PathHasher>>,
    /// Scripts at whose paths redirects stand: they are still run as their directories' index.
    redirected_scripts: HashSet<Box<[u8]>, BuildHasherDefault<PathHasher>>,
    totals: Totals,
}

impl Default for Site {
    fn default() -> Site {
        Site::with(Arc::default())
    }
}

impl Site {
    /// A site without documents, to be filled with [`Site::insert`].
    pub fn new() -> Site {
        Site::default()
    }

    /// A site without documents, with settings for those that come.
    pub fn with(settings: Arc<Settings>) -> Site {
        Site {
            pages: Pages::new(settings.clone()),
            listings: settings.listing.then(Listings::default),
            settings,
            entries: HashMap::default(),
            redirected_scripts: HashSet::default(),
            totals: Totals::default(),
        }
    }

    /// How documents are found, named and sent.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The site's own page of an error.
    pub fn error_page(&self, status: Status) -> Option<&Document> {
        self.pages.error(status)
    }

    /// Makes room for this many paths more, so that none of them has to wait for it.
    pub fn reserve(&mut self, paths: usize) {
        self.entries.reserve(paths);
    }

    /// What is left of a site that is no longer served: to be dropped in parts, since all at once takes long.
    pub fn take_apart(self) -> impl Iterator<Item = Entry> {
        self.entries.into_values()
    }

    /// The answer to requests for a path about which a redirect decides. There are no entries at such paths.
    pub fn redirect(&self, path: &[u8], query: Option<&[u8]>) -> Option<(Status, Document)> {
        self.pages.redirect(path, query)
    }

    /// The lines of header fields that rules add to responses other than documents, which have theirs.
    #[inline]
    pub fn rule_fields(&mut self, path: &[u8]) -> Option<Slice> {
        self.pages.rule_fields(path)
    }

    /// The listing of a directory, whose path ends with `/`; `None` where there is none.
    pub fn listing(&self, path: &[u8]) -> Option<Document> {
        let listings = self.listings.as_ref()?;
        let is_closed = matches!(self.find(path.strip_suffix(b"/")?), Some(Entry::Forbidden));
        (!is_closed).then(|| listings.page(path, |path| self.find(path)))?
    }

    /// What is at a resolved path, see [`crate::message::target::Target::path`].
    #[inline]
    pub fn find(&self, path: &[u8]) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// Whether a document is at a path that a directory may be answered with: a script also where a redirect stands at its path.
    pub fn is_index(&self, path: &[u8]) -> bool {
        self.find(path).is_some_and(Entry::is_document) || self.redirected_scripts.contains(path)
    }

    /// Puts a document at a path, which begins with `/`. One with the name of an index is also
    /// its directory's, unless a preferred one is there; the directories above it come into being.
    pub fn insert(&mut self, path: &[u8], document: impl Into<Variants>) {
        let document = document.into();
        self.pages.document_changed(path, document.plain());
        self.insert_entry(path, Entry::Document(document));
    }

    /// Puts the document that is at the second path, if one is, at the first, too: it is in memory once.
    pub fn insert_again(&mut self, path: &[u8], as_path: &[u8]) {
        if let Some(document) = self.find(as_path).and_then(Entry::document).cloned() {
            self.totals.share(&document);
            self.insert(path, document);
        }
    }

    /// Makes known that there is a document at a path which is not in memory.
    pub fn insert_listed(&mut self, path: &SitePath, about: About) {
        self.insert_entry(path, Entry::Listed(path.clone(), about));
    }

    fn insert_entry(&mut self, path: &[u8], entry: Entry) {
        assert!(
            path.starts_with(b"/") && !path.ends_with(b"/"),
            "not a document's path"
        );
        if !self.find(path).is_some_and(Entry::is_document) {
            for (at, _) in path.iter().enumerate().filter(|&(_, &byte)| byte == b'/') {
                self.insert_directory(&path[..=at]);
            }
        }
        self.put_document(path, entry);
    }

    /// A script is never the entry of its directory, which is answered by what it says and not by its source.
    fn put_document(&mut self, path: &[u8], entry: Entry) {
        if self.settings.applications.is_script(path) {
            if self.settings.redirects.find(path).is_some() {
                self.redirected_scripts.insert(path.into());
            }
            return self.put(path, entry);
        }
        if let Some(directory) = self.directory_of_index(path) {
            self.put(directory, entry.clone());
        }
        self.put(path, entry);
    }

    /// The directory whose document is the one at a path.
    fn directory_of_index<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let slash = path.iter().rposition(|&b| b == b'/')?;
        let (directory, name) = path.split_at(slash + 1);
        let names = &self.settings.index;
        let rank = names.iter().position(|index| index.as_bytes() == name)?;
        let is_there = |index: &String| {
            let path = [directory, index.as_bytes()].concat();
            self.find(&path).is_some_and(Entry::is_document)
        };
        let is_preferred = !names[..rank].iter().any(is_there);
        is_preferred.then_some(directory)
    }

    /// Makes a directory known by its path, which ends with `/`. Without a document of its own
    /// it is forbidden to read.
    pub fn insert_directory(&mut self, path: &[u8]) {
        assert!(
            path.starts_with(b"/") && path.ends_with(b"/"),
            "not a directory's path"
        );
        if !self.entries.contains_key(path) {
            self.put(path, Entry::Forbidden);
        }
        let name = &path[..path.len() - 1];
        if !name.is_empty() && !self.entries.contains_key(name) {
            self.put(name, Entry::Directory);
        }
    }

    /// Makes known that something exists at a path and is not served.
    pub fn insert_forbidden(&mut self, path: &[u8]) {
        self.remove(path); // It may have been a directory's document.
        self.put(path, Entry::Forbidden);
    }

    /// Takes out a document, or what was forbidden. The directories above it stay; one whose document it
    /// was gets the next that may be its document.
    pub fn remove(&mut self, path: &[u8]) {
        self.take(path);
        self.pages.document_gone(path);
        let slash = path.iter().rposition(|&b| b == b'/').unwrap_or(0);
        let (directory, name) = path.split_at(slash + 1);
        let names = &self.settings.index;
        if names.iter().any(|index| index.as_bytes() == name) {
            let paths = names
                .iter()
                .map(|index| [directory, index.as_bytes()].concat());
            let documents = paths.filter(|path| !self.settings.applications.is_script(path));
            let mut entries = documents.filter_map(|path| self.find(&path).cloned());
            let next = entries.find(Entry::is_document);
            self.put(directory, next.unwrap_or(Entry::Forbidden));
        }
    }

    /// Takes out a directory by its path, which ends with `/`; what is in it stays.
    pub fn remove_directory(&mut self, path: &[u8]) {
        self.take(path);
        let name = &path[..path.len() - 1];
        if matches!(self.find(name), Some(Entry::Directory)) {
            self.take(name);
        }
    }

    fn take(&mut self, path: &[u8]) {
        self.redirected_scripts.remove(path);
        if let Some(before) = self.entries.remove(path) {
            self.totals.remove(path, &before);
        }
        if let Some(listings) = &mut self.listings {
            listings.changed(path, false);
        }
    }

    /// A redirect comes before whatever else is at its path.
    fn put(&mut self, path: &[u8], entry: Entry) {
        if self.settings.redirects.find(path).is_none() {
            let about = entry.about();
            self.totals.add(path, &entry);
            let before = self.entries.insert(path.into(), entry);
            if let Some(before) = &before {
                self.totals.remove(path, before);
            }
            // One that comes into memory or leaves it looks the same in a list.
            let is_same = about.is_some() && before.and_then(|entry| entry.about()) == about;
            if !is_same && let Some(listings) = &mut self.listings {
                listings.changed(path, true);
            }
        }
    }

    /// All paths, in no order, and what they lead to.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], &Entry)> {
        self.entries.iter().map(|(path, entry)| (&path[..], entry))
    }

    /// Paths whose document is not in memory, and the bytes of these documents.
    pub fn listed(&self) -> (usize, u64) {
        let listed = self
            .paths()
            .filter(|entry| matches!(entry, Entry::Listed(..)));
        let lens = listed.filter_map(|entry| Some(entry.about()?.len));
        lens.fold((0, 0), |(count, sum), len| (count + 1, sum + len))
    }

    /// Paths with a document in memory, index pages counted once.
    pub fn document_count(&self) -> usize {
        self.totals.documents()
    }

    /// Bytes of all documents in memory, without their header fields; one under several paths counts once, where they were told of
    /// by [`Site::insert_again`].
    pub fn content_len(&self) -> u64 {
        self.totals.content_len()
    }

    /// What is at all paths but directories', which may have the document of another.
    fn paths(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.entries.iter();
        entries.filter_map(|(path, entry)| (!path.ends_with(b"/")).then_some(entry))
    }

    #[cfg(test)]
    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }
}
