//! All tests of the interface in one program.

mod common;
mod corpus;
mod faults;
mod floods;
mod hpack;
mod serving;
