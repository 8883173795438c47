//! Fuzzes `bodies::records` of `bodies/application.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/application.rs"]
#[allow(dead_code)] // Each target calls one of the bodies.
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::records(data));
