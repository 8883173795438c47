//! What a connection knows of what comes: bytes in order and beyond gaps, the window that we announce, which acknowledgement is
//! owed, what is to be reported.

pub mod acknowledgements;
mod autotune;
pub mod queue;
mod reassembly;
pub mod receiver;
mod reports;
mod tuning;
mod window;
mod window_scale;
