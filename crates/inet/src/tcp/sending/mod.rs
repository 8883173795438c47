//! What goes out of a connection: what to send next, how fast, what was lost; and answers that need no connection.

pub(in crate::tcp) mod acknowledged;
pub mod congestion;
pub mod ecn;
pub(in crate::tcp) mod loss;
mod marks;
mod mtu;
mod new_data;
mod outgoing;
pub mod output;
pub(in crate::tcp) mod pacing;
mod path_mtu;
mod piece;
pub(in crate::tcp) mod recycling;
pub mod reply;
mod retransmit;
pub mod rtt;
pub(in crate::tcp) mod sender;
