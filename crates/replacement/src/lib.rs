//! Which things stay in a cache when there is not room for all. A [`Policy`] is told what comes, what is used and what goes, and says what has to
//! go next; what these things are, where they lie and how much room there is are its caller's to know.
//!
//! | policy | goes first |
//! |---|---|
//! | [`S3Fifo`] | what was used once: walks through everything leave the rest alone |
//! | [`Lru`] | what was not used for longest |
//! | [`GreedyDualSize`] | what is large, and was not used for long |
//!
//! [`queue`] has the lists that such policies are made of. Own policies implement [`Policy`]. [`trace`] has requests to compare them by.

#![forbid(unsafe_code)]

mod greedy_dual_size;
mod lru;
mod policy;
pub mod queue;
mod s3_fifo;
pub mod trace;

pub use greedy_dual_size::GreedyDualSize;
pub use lru::Lru;
pub use policy::{Newcomer, Policy, PolicyName, USES_MAX};
pub use queue::Key;
pub use s3_fifo::S3Fifo;
