//! The tests of the crate's interface.

mod files;
mod peers;
mod sessions;
