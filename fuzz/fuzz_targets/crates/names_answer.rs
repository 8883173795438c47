//! Fuzzes `bodies::answer` of `bodies/names.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/names.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::answer(data));
