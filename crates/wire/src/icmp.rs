//! ICMP of both versions: messages, neighbour discovery, and the packets that errors quote.

pub mod icmpv4;
pub mod icmpv6;
pub mod ndp;
pub mod quoted;
mod view;
