//! What is served: the sites as they were read, files that change, reloads, documents that are fetched.

pub(in crate::serve) mod documents;
pub mod exchange;
pub(in crate::serve) mod fetching;
pub(in crate::serve) mod files;
pub mod reload;
pub mod sites;
pub(in crate::serve) mod upkeep;
