//! The files behind a site, while they change.
//!
//! ```text
//!   the kernel ──inotify──> watch ──> dirty ──> tree ──Change──> keeper ══channel══> Site::apply
//!                           where     when      what             the thread          between turns
//! ```
//!
//! [`nodes`] holds what was last seen of each file, [`tree`] says what has changed ([`looking`] at what there is, and
//! [`going`] through what is there no more), [`demand`] what becomes of a document
//! that is asked for and not in memory; [`cache`] says which documents are, within a bound; [`root`] opens and reads
//! files without leaving the directory; [`watch`] asks the kernel for notices, of the directories on the [`approach`] to the root, too; [`dirty`] decides when a
//! file that somebody writes to is read. [`keeper`] does all this on a thread of its own, because a
//! file may take long to read, and hands over finished documents by a [`queue`] to each core; so does [`passwords`] with what is known of passwords.
//!
//! A change of the site is one call between two turns of the event loop, which puts a document into the
//! table or takes one out. Responses under way hold slices of the document that they began with.

mod approach;
pub mod cache;
pub mod change;
mod demand;
pub mod dirty;
mod exposure;
mod going;
mod grouping;
pub mod keeper;
mod looking;
pub mod nodes;
mod passwords;
pub mod queue;
mod reading;
pub mod root;
mod settling;
pub mod tree;
pub mod watch;

pub use cache::{Cache, SharedCache};
pub use change::Change;
pub use keeper::{Keeper, Requests};
pub use queue::Changes;
pub use tree::Tree;
