//! What a connection knows of what comes: bytes in order and beyond gaps, the window that we announce, what is to be reported.

pub mod arrival;
mod autotune;
pub mod queue;
mod reassembly;
pub mod receiver;
mod reports;
mod sack;
mod tuning;
mod window;
mod window_scale;
