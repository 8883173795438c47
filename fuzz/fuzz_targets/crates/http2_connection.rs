//! Fuzzes `bodies::connection` of `bodies/http2.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/http2.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::connection(data));
