//! All integration tests of this crate, in one program: each module has its own first line.

mod common;
mod connections;
mod http;
mod nginx;
mod sites;
mod store;
mod streams;
