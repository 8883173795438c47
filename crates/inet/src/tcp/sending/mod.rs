//! What goes out of a connection: what to send next, how fast, what was lost; and answers that need no connection.

pub mod congestion;
pub mod ecn;
pub(in crate::tcp) mod loss;
pub(in crate::tcp) mod mtu;
pub mod output;
pub(in crate::tcp) mod pacing;
pub(in crate::tcp) mod recycling;
pub mod reply;
pub mod rtt;
