//! What a request waits for that is not in memory, and what is known of that when the request is presented again.

use std::rc::Rc;

use crate::site::SitePath;
use crate::site::long::Long;

/// The number of a site, and the path of a document in it.
pub type Wanted = (usize, SitePath);

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

/// What is known of the requests that are presented.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attempt<'a> {
    /// The first of them has waited for its document: that was a miss, not a hit.
    pub has_waited: bool,
    /// This document could not be read: requests for it are refused rather than kept waiting.
    pub failed: Option<&'a Wanted>,
}

impl<'a> Attempt<'a> {
    /// After the first request has waited; `failed` is what could not be read.
    pub fn after_waiting(failed: Option<&'a Wanted>) -> Attempt<'a> {
        Attempt {
            has_waited: true,
            failed,
        }
    }

    pub(super) fn has_failed(&self, site: usize, path: &SitePath) -> bool {
        let failed = self.failed;
        failed.is_some_and(|(of, failed)| *of == site && failed == path)
    }
}
