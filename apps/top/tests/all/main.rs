//! All integration tests of this crate, in one program: each module has its own first line.

mod daemon;
mod forward;
mod screen;
mod units;
