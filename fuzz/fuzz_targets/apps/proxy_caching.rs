//! Fuzzes `bodies::caching` of `bodies/web/caching.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/web/caching.rs"]
#[allow(dead_code)] // Each target calls one of the bodies.
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::caching(data));
