//! What comes in on a connection: segments in the order of RFC 9293, bytes in order and beyond gaps, the window that we announce.

mod autotune;
pub mod input;
mod prediction;
pub(in crate::tcp) mod reassembly;
pub mod receive;
pub(in crate::tcp) mod receiver;
pub(in crate::tcp) mod sack;
pub(in crate::tcp) mod text;
mod tuning;
mod window;
mod window_scale;
