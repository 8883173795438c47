//! What the answer to a request is to those that are kept, while an application is asked.

use crate::caching::fetch::Fetch;
use crate::site::SitePath;

/// What the answer of an upstream is to those that are kept.
#[derive(Debug, Default)]
pub enum Use {
    /// Nothing.
    #[default]
    None,
    /// It may be kept.
    Fetch(Box<Fetch>),
    /// If it says that something was done, what is kept with these keys is old, in this generation of what is kept.
    Forgets(Vec<SitePath>, u64),
}

impl Use {
    /// What the log says of it.
    pub(in crate::http) fn logged(&self) -> Option<&'static str> {
        match self {
            Use::Fetch(fetch) => Some(fetch.logged()),
            Use::None | Use::Forgets(..) => None,
        }
    }
}
