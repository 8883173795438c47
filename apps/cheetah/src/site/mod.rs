//! The documents of a site, in memory, each ready to be sent.
//!
//! A site's [`table`] maps resolved paths to [entries](entry); a request is answered from the table alone, so no
//! request, however written, reaches a file that was not loaded. [`load`] says what is loaded from a
//! directory and what is left out, [`store`] how it follows the files' changes; [`document`] how a
//! document lies in memory, [`long`] what is known of one that does not; [`example`] is the site built into
//! the program.
//!
//! What a site is told beside its documents, its [`settings`], are [`rules`] by path. Of several sites [`hosts`] finds the one that a
//! request is for.

pub mod document;
pub mod entry;
pub mod example;
pub(crate) mod hash;
pub mod hosts;
pub mod listing;
pub mod load;
pub mod long;
pub mod media_type;
pub mod page;
mod pages;
pub mod path;
pub mod rules;
pub mod settings;
pub mod store;
pub mod table;
mod totals;
pub mod variants;

pub use crate::message::Coding;
pub use document::{Description, Document};
pub use entry::Entry;
pub use hosts::Sites;
pub use load::{Limits, LoadError, Omission, Reason};
pub use path::{About, SitePath, Wanted};
pub use settings::{MediaTypes, Settings};
pub use store::{Cache, Change, Changes, Keeper, SharedCache, Tree};
pub use table::Site;
pub use variants::Variants;
