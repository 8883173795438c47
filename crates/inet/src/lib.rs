//! The Internet protocols as state machines: ARP, NDP, IP, ICMP, UDP and TCP.
//!
//! Nothing here performs I/O, reads a clock or draws a random number: packets, time and a seed go
//! in; packets, events and a deadline come out. `examples/own_loop.rs` is the smallest whole program: two stacks and a wire in
//! memory (`cargo run -p exos-inet --example own_loop`).
//!
//! | file | job |
//! |---|---|
//! | [`stack`] | takes a frame apart, gives each part to its owner, puts frames together |
//! | [`neighbor`] | ARP and NDP: whose link address an IP address has |
//! | [`route`] | our addresses, and the next hop to any other |
//! | [`fragment`] | datagrams from fragments, fragments from datagrams |
//! | [`icmp`] | what is answered and reported, and how often |
//! | [`udp`] | sockets of datagrams |
//! | [`tcp`] | connections |
//! | [`siphash`] | a keyed hash for tables that outsiders fill |
//! | [`mod@counters`], [`limits`], [`time`] | a name for every drop, a reason for every bound, the clock |
#![forbid(unsafe_code)]

pub mod counters;
pub mod fragment;
pub mod icmp;
pub mod limits;
pub mod neighbor;
mod part;
pub mod route;
pub mod siphash;
pub mod stack;
pub mod tcp;
pub mod time;
pub mod udp;

pub use part::Part;
pub use stack::{
    Concern, Config, Neighbors, Offload, RouteTo, RxChecksum, Stack, Transmit, TxChecksum,
};
pub use time::{Duration, Instant};
