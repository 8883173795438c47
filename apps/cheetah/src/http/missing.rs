//! What a request waits for that is not in memory.

use std::rc::Rc;

use crate::site::long::Long;
use crate::site::{SitePath, Wanted};

/// What a request waits for.
#[derive(Debug)]
pub struct Missing {
    /// The document to be read.
    pub document: Wanted,
    /// The long file that has to be open instead, if the document is one.
    pub unopened: Option<Rc<Long>>,
}

impl Missing {
    /// A document to be read into memory, or a password to be verified.
    pub(super) fn document(site: usize, path: SitePath) -> Box<Missing> {
        Box::new(Missing {
            document: (site, path),
            unopened: None,
        })
    }
}
