//! Fuzzes `bodies::handler` of `bodies/ash.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/ash.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::handler(data));
