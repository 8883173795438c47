//! Fuzzes `bodies::connection` of `bodies/connection.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/frames.rs"]
mod frames;

#[path = "../../bodies/connection.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::connection(data));
