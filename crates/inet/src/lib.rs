//! The Internet protocols as state machines: ARP, NDP, IP, ICMP, UDP and TCP.
//!
//! Nothing here performs I/O, reads a clock or draws a random number: packets, time and a seed go
//! in; packets, events and a deadline come out. So it runs on any device, in any event loop, and in tests on a clock of
//! their own.
//!
//! A turn of a loop around a [`Stack`], here on a device that brings nothing:
//!
//! ```
//! use exos_inet::tcp::{EventSet, ListenOptions};
//! use exos_inet::{Config, Instant, RxChecksum, Stack};
//! use exos_wire::Mac;
//!
//! # struct Device;
//! # impl Device {
//! #     fn receive(&mut self) -> Option<Vec<u8>> { None }
//! #     fn send(&mut self, _head: &[u8], _body: &[&[u8]]) {}
//! # }
//! # let (mut device, secret) = (Device, 1);
//! let mut now = Instant::from_millis(1); // Of a clock that never goes back.
//! let mut config = Config::new(Mac([2, 0, 0, 0, 0, 1]), 1500);
//! config.addresses = vec![("192.0.2.7".parse().unwrap(), 24)];
//! let mut stack = Stack::new(config, secret, now).unwrap();
//! stack.tcp.listen(None, 7, ListenOptions::default()).unwrap();
//!
//! while let Some(frame) = device.receive() {
//!     stack.handle_frame(now, &frame, RxChecksum::Unknown);
//! }
//! stack.handle_timeout(now);
//! while let Some(event) = stack.poll_event() {
//!     if event.set.contains(EventSet::READABLE) {
//!         let count = stack.tcp.readable(event.connection).len();
//!         stack.tcp.consume(event.connection, count);
//!     }
//! }
//! while let Some(frame) = stack.poll_transmit(now) {
//!     device.send(frame.head, frame.body.parts());
//! }
//! let sleep_until = stack.poll_timeout(now); // Or until a frame comes.
//! ```
//!
//! `examples/own_loop.rs` is a whole program: two stacks and a wire in memory (`cargo run -p exos-inet --example own_loop`).
//! What the parts are:
//!
//! | file | job |
//! |---|---|
//! | [`stack`] | takes a frame apart, gives each part to its owner, puts frames together |
//! | [`neighbor`] | ARP and NDP: which link address an IP address has |
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
    Concern, Config, Framing, Handled, JoinedSegment, MessageHandler, Neighbors, Offload, RouteTo,
    RxChecksum, Stack, Transmit, TxChecksum,
};
pub use time::{Duration, Instant};
