//! Fuzzes `bodies::observed` of `bodies/tls.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/tls.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::observed(data));
