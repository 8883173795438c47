//! The Internet protocols as state machines: ARP, NDP, IP, ICMP, UDP and TCP.
//!
//! Nothing here performs I/O, reads a clock or draws a random number: packets, time and a seed go
//! in; packets, events and a deadline come out.
#![forbid(unsafe_code)]

pub mod fragment;
pub mod icmp;
pub mod neighbor;
pub mod route;
pub mod time;
pub mod udp;

pub use time::{Duration, Instant};
