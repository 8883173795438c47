//! Fuzzes `bodies::memory` of `bodies/run.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/run.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::memory(data));
