//! Pipes between processes, and processes that end. In a program of their own: while another process is started it has all our descriptors
//! for a moment, so that nobody hears of the end of what is closed meanwhile.

#[path = "../all/common.rs"]
#[allow(dead_code, reason = "some is for other tests")]
mod common;
mod exchange;
mod kills;
#[path = "../../examples/lines.rs"]
mod lines;
mod start;
