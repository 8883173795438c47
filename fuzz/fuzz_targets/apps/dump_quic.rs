//! Fuzzes `bodies::quic` of `bodies/dump_quic.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/dump_quic.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::quic(data));
