//! What comes in on a connection: segments in the order of RFC 9293, bytes in order and beyond gaps, the window that we announce.

pub(in crate::tcp) mod autotune;
pub mod input;
pub(in crate::tcp) mod reassembly;
pub mod receive;
pub(crate) mod short_in;
pub(in crate::tcp) mod short_rare;
pub(in crate::tcp) mod text;
pub(in crate::tcp) mod window;
