//! All integration tests of this crate, in one program: each module has its own first line.

mod common;
mod corpus;
mod files;
mod live;
mod tcpdump;
mod text;
