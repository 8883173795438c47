//! Paths of documents, and what is said of what is there.

use std::sync::Arc;

/// The path of a document as requests name it, or of a directory, which ends with a slash.
pub type SitePath = Arc<[u8]>;

/// The number of a site, and the path of a document in it.
pub type Wanted = (usize, SitePath);

/// What is said of a document that is not in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The length of its content in bytes.
    pub len: u64,
    /// The time of its last change in seconds since 1970.
    pub modified_secs: u64,
}
