//! The tests of the crate's interface.

mod client;
mod corpus;
mod files;
mod peers;
mod sessions;
