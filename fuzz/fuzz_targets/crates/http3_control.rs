//! Fuzzes `bodies::control` of `bodies/http3.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/http3.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::control(data));
