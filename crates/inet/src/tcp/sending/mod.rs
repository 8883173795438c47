//! What a connection knows of what it sends: what to send next, how fast, and what was lost.

mod acknowledged;
pub mod acknowledgement;
pub mod loss;
mod marks;
mod mtu;
mod new_data;
pub mod pacing;
mod path_mtu;
pub mod piece;
mod recovery;
mod retransmit;
pub mod rtt;
pub mod sender;
