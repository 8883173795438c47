//! Fuzzes `bodies::producer` of `bodies/iolite.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/iolite.rs"]
#[allow(dead_code)] // Each target calls one of the bodies.
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::producer(data));
