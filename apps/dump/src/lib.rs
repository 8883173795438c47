//! Packets as text and as files: `exos dump`, which shows what tcpdump cannot see.
//!
//! What XDP takes off an interface and what AF_XDP sends never passes the packet sockets that tcpdump
//! listens on. The programs in the kernel's packet path copy both into a ring for this command.
//!
//! [`text`] turns a packet into tcpdump's line.
#![forbid(unsafe_code)]

pub mod limits;
mod packet;
pub mod text;

pub use packet::{Direction, Origin, Packet, Verdict};
