//! Fuzzes `bodies::connection` of `bodies/web/http2.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/web/http2.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::connection(data));
