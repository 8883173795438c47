//! What a path of a site leads to.

use super::document::Document;
use super::path::{About, SitePath};
use super::variants::Variants;

/// What a path leads to.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A document, perhaps with coded variants.
    Document(Variants),
    /// A document that is not in memory; the store reads it by this path.
    Listed(SitePath, About),
    /// A directory without its trailing slash: redirected to the address with it.
    Directory,
    /// Something that exists and is not served.
    Forbidden,
}

impl Entry {
    /// Whether a document is there, in memory or not.
    pub fn is_document(&self) -> bool {
        matches!(self, Entry::Document(_) | Entry::Listed(..))
    }

    /// What is said of a document, in memory or not.
    pub fn about(&self) -> Option<About> {
        match self {
            Entry::Document(variants) => Some(variants.plain().about()),
            Entry::Listed(_, about) => Some(*about),
            Entry::Directory | Entry::Forbidden => None,
        }
    }

    /// The document as it is, without a coding, if it is one.
    pub fn document(&self) -> Option<&Document> {
        match self {
            Entry::Document(variants) => Some(variants.plain()),
            Entry::Listed(..) | Entry::Directory | Entry::Forbidden => None,
        }
    }
}
