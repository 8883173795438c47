//! All integration tests of this crate, in one program: each module has its own first line.

mod corpus;
mod faults;
mod raw;
