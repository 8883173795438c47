//! The library of `crates/application` for C: `include/exos_application.h` says what there is and who owns what; this is its other side.
//!
//! | file | what is in it |
//! |---|---|
//! | `failure` | errors as numbers, and the words for the last of a thread; what panics is one |
//! | `handle` | what C has of an application: it belongs to the thread that has opened it |
//! | `application`, `request`, `piece`, `answer` | the functions, in the header's order |
//!
//! # Unsafe code
//!
//! Everything unsafe here is of one kind: pointers that C passes, which are what the header says that they are. Each is looked at for NULL,
//! and what is behind it for its thread, before a reference is made of it; none is kept beyond the call but the application and pieces
//! themselves, which are boxes of ours. No panic passes a function of C.

mod answer;
mod application;
mod failure;
mod handle;
mod piece;
mod request;

pub use failure::Code;
