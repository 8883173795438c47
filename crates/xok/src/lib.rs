//! What the daemon (`xokd`) and the programs that it serves say to each other.
//!
//! Three things, each a file that can be read alone:
//!
//! - [`claim`]: what a program asks to own of an interface, and when two such claims collide;
//! - [`message`]: the requests, answers and notices, one datagram each, and their bytes;
//! - [`tables`]: the memory that the daemon writes and everybody reads without locks: interfaces, neighbours,
//!   routes, grants, counters.
//!
//! Neither side trusts what it decodes: every decoder is total, takes any bytes, and refuses with the reason.
//! Nothing here performs anything: no I/O, no clock, no unsafe code.
#![forbid(unsafe_code)]

mod bytes;
pub mod claim;
pub mod limits;
pub mod message;
pub mod tables;

pub use bytes::DecodeError;
pub use claim::{Claim, Endpoint, Protocol};
pub use message::{Answer, Notice, Request};
