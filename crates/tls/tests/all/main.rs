//! The tests of the crate's interface.

mod corpus;
mod files;
mod peers;
mod sessions;
