//! What is in memory of the documents of all sites, within a bound.
//!
//! The [`ledger`] of the store's threads: which document is held under which paths, what it takes, and whose turn it is to
//! go when there is no room ([`exos_replacement::S3Fifo`]). It reads no file and changes no table: a [`Tree`](super::Tree) does, by what it
//! is told here.
//!
//! # What counts
//!
//! A document counts with its bytes, header fields and table of sums, once however many paths it has, and some bytes for
//! what is known of it. One that has been taken out counts on while somebody holds it, most often a response that is not
//! acknowledged yet: the ledger keeps a reference of its own until it is the last, so that memory is given back in the
//! store's thread. But such documents take no more than half of the room away, or clients that read slowly could have
//! everything thrown out.

mod ledger;
mod lending;
mod room;
mod statistics;

pub use ledger::{Admission, Arrival, Cache, Evicted, SharedCache};
pub use lending::FromCache;
pub use statistics::{Figures, Statistics};
