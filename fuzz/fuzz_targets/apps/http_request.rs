//! Fuzzes `bodies::request` of `bodies/web/http.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/web/http.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::request(data));
