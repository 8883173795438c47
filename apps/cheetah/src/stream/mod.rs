//! Long files, read while they are sent: opening them, reading them chunk by chunk, and what memory there is for that.
//!
//! # Rules of the interface
//!
//! - [`Streams::open`] has a file opened, and [`Streams::ask`] takes a chunk of one for a connection, which is there, or
//!   is told of later, or has to wait for memory ([`Streams::hunger`]). What was taken is [released](Streams::release).
//! - Once a turn [`Streams::submit`] gives the disk what has come together, and [`Streams::poll`] tells what has come of
//!   it. Nothing here waits.
//!
//! # Memory
//!
//! Chunks are bounded, and a connection may hold as many as are free: with few connections that is what they can use,
//! with many it is less for each, and some always remain for one that comes. When there are none, those that hold
//! none wait in a row; a chunk that becomes free is for the first of them.
//!
//! [`disk`] is how files are read, [`chunks`] the chunks; the connections' side is in [`crate::connections`].

pub mod chunks;
pub mod disk;
mod streams;

pub use streams::{Done, Streams};
