//! Fuzzes `bodies::mutations` of `bodies/http.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/http.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::mutations(data));
