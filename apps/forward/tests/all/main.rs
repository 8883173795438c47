//! All integration tests of this crate, in one program: each module has its own first line.

mod common;
mod corpus;
mod end_to_end;
mod forwarder;
mod kept;
mod pieces_and_errors;
mod rewrite;
