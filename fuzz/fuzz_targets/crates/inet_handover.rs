//! Fuzzes `bodies::handover` of `bodies/handover.rs`, which says what is checked.
#![no_main]

#[path = "../../bodies/frames.rs"]
mod frames;

#[path = "../../bodies/handover.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::handover(data));
