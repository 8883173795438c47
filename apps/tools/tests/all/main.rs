//! All integration tests of this crate, in one program: each module has its own first line.

mod cat;
mod common;
mod options;
mod pattern;
mod services;
