//! Fuzzes `bodies::message` of `bodies/xok.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/xok.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::message(data));
