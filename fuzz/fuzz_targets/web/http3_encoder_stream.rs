//! Fuzzes `bodies::encoder_stream` of `bodies/web/http3.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/web/http3.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::encoder_stream(data));
