//! What comes in on a connection: segments in the order of RFC 9293, bytes in order and beyond gaps, the window that we announce.

pub(in crate::tcp) mod autotune;
pub mod input;
mod prediction;
pub(in crate::tcp) mod reassembly;
pub mod receive;
pub(in crate::tcp) mod receiver;
pub(in crate::tcp) mod sack;
pub(in crate::tcp) mod text;
pub(in crate::tcp) mod window;
