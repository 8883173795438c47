//! A change of a site: what a [`Tree`](super::tree::Tree) tells of its files, and what it does to the table.

use std::sync::Arc;

use crate::caching::is_answer;
use crate::caching::record::Record;
use crate::message::Coding;
use crate::site::document::{Document, Draft};
use crate::site::path::{About, SitePath};
use crate::site::table::Site;
use crate::site::variants::Variants;

/// One change of a site. Cloning it counts references.
#[derive(Clone, Debug)]
pub enum Change {
    /// A document is there, or another version of it.
    Document(SitePath, Draft),
    /// At the first path is the document that the second has.
    Again(SitePath, SitePath),
    /// A document is there with its coded variants, which may be none any more.
    Variants(SitePath, Draft, Vec<(Coding, Draft)>),
    /// A document is there and not in memory; it is read when it is asked for.
    Listed(SitePath, About),
    /// A document that was asked for could not be read this time.
    Failed(SitePath),
    /// A password that a request waited for is verified (see [`crate::site::rules::access`]).
    Verified(SitePath),
    /// A directory is there.
    Directory(SitePath),
    /// Something is there that is not served.
    Forbidden(SitePath),
    /// A document, or what was not served, is no longer there.
    Gone(SitePath),
    /// A directory is no longer there. What was in it has gone before.
    GoneDirectory(SitePath),
    /// An answer of an upstream's is kept from now on (see [`crate::caching`]), or says something else of itself.
    Answer(Arc<Record>),
    /// The answer with this name is kept no more.
    AnswerGone(SitePath),
    /// An answer with this key was none to be kept after all.
    AnswerLost(SitePath),
    /// Nothing with this key is kept any more; with how many keys have been forgotten so far.
    Forgotten(SitePath, u64),
}

impl Change {
    /// What was at a path has gone from memory: a document that is listed from now on, or an answer.
    pub fn evicted(path: SitePath, about: About) -> Change {
        match is_answer(&path) {
            true => Change::AnswerGone(path),
            false => Change::Listed(path, about),
        }
    }

    /// It is about what is kept of upstreams' answers, and not about documents.
    pub fn is_about_answers(&self) -> bool {
        use Change as C;
        matches!(
            self,
            C::Answer(_) | C::AnswerGone(_) | C::AnswerLost(_) | C::Forgotten(..)
        )
    }

    /// True when it puts a document at a path whose content is in memory.
    pub fn puts_at(&self, path: &[u8]) -> bool {
        match self {
            Change::Document(at, draft) | Change::Variants(at, draft, _) => {
                **at == *path && draft.is_in_memory()
            }
            Change::Again(at, _) => **at == *path,
            Change::Listed(..) | Change::Failed(_) | Change::Verified(_) => false,
            Change::Directory(_) | Change::Forbidden(_) => false,
            Change::Gone(_) | Change::GoneDirectory(_) => false,
            Change::Answer(_) | Change::AnswerGone(_) => false,
            Change::AnswerLost(_) | Change::Forgotten(..) => false,
        }
    }

    /// True when it puts a document at a path whose content is read while it is sent.
    pub fn puts_long_at(&self, path: &[u8]) -> bool {
        match self {
            Change::Document(at, draft) | Change::Variants(at, draft, _) => {
                **at == *path && !draft.is_in_memory()
            }
            _ => false,
        }
    }

    /// True when it puts a document at a path, wherever its content is.
    pub fn puts_any_at(&self, path: &[u8]) -> bool {
        let is_listed = matches!(self, Change::Listed(at, ..) if **at == *path);
        is_listed || self.puts_at(path) || self.puts_long_at(path)
    }

    /// The path that is another from now on.
    pub fn path(&self) -> &SitePath {
        match self {
            Change::Document(path, _) | Change::Again(path, _) => path,
            Change::Variants(path, ..) => path,
            Change::Listed(path, _) | Change::Failed(path) | Change::Verified(path) => path,
            Change::Directory(path) | Change::GoneDirectory(path) => path,
            Change::Forbidden(path) | Change::Gone(path) => path,
            Change::Answer(record) => &record.key,
            Change::AnswerGone(path) | Change::AnswerLost(path) => path,
            Change::Forgotten(path, _) => path,
        }
    }
}

impl Site {
    /// Makes a change. Changes are made in the order in which a [`Tree`](super::tree::Tree) gives them.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Document(path, draft) => self.insert(&path, Document::from(draft)),
            Change::Again(path, as_path) => self.insert_again(&path, &as_path),
            Change::Variants(path, plain, coded) => {
                let coded = coded.into_iter();
                let coded = coded.map(|(coding, draft)| (coding, Document::from(draft)));
                let variants = Variants::new(Document::from(plain), coded.collect());
                self.insert(&path, variants);
            }
            Change::Listed(path, about) => self.insert_listed(&path, about),
            Change::Failed(_) | Change::Verified(_) => {}
            Change::Directory(path) => self.insert_directory(&path),
            Change::Forbidden(path) => self.insert_forbidden(&path),
            Change::Gone(path) => self.remove(&path),
            Change::GoneDirectory(path) => self.remove_directory(&path),
            // They are in another table.
            Change::Answer(_) | Change::AnswerGone(_) => {}
            Change::AnswerLost(_) | Change::Forgotten(..) => {}
        }
    }
}
