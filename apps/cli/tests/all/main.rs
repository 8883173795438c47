//! All integration tests of this crate, in one program: each module has its own first line.

mod book;
mod book_json;
mod dump;
mod lab_emulator;
