//! Fuzzes `bodies::http2` of `bodies/webswamp.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/webswamp.rs"]
#[allow(dead_code)] // Each target calls one of the bodies.
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::http2(data));
