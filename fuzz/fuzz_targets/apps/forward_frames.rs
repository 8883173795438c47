//! Fuzzes `bodies::frames` of `bodies/forward.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/forward.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::frames(data));
