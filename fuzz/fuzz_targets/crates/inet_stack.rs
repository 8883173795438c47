//! Fuzzes `bodies::stack` of `bodies/inet.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/inet.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::stack(data));
