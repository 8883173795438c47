//! What a connection knows of what it sends: what to send next, how fast, and what was lost. `sender` is made of the others.

pub mod acknowledgement;
pub mod flight;
mod numbers;
pub mod pacing;
mod path_mtu;
pub mod piece;
mod queue;
mod recovery;
mod rounds;
pub mod rtt;
mod segments;
pub mod sender;
mod window;
