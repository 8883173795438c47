//! What is served: the [`sites`] as they were read, [`files`] that change, a [`reload`] of all of it, and its
//! [`exchange`] for what was served before.

pub mod exchange;
pub(super) mod files;
pub mod reload;
pub mod sites;
