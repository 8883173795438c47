//! A seeded simulator: virtual clock, lossy wire, hosts, traces.
//!
//! Stacks of `exos-inet` perform nothing by themselves, so that a whole network of them runs in one
//! thread on a clock that jumps from event to event: hours in milliseconds, the same every time. A
//! [`Seed`](random::Seed) decides everything that is random; a failing run prints it, and the same
//! seed fails again.
//!
//! | file | job |
//! |---|---|
//! | [`sim`] | two hosts, the wire, the clock: where to start reading |
//! | [`host`] | a stack and its programs |
//! | [`nic`] | checksums and segmentation for stacks that leave them to the link |
//! | [`program`] | what programs do with a connection, as data |
//! | [`wire`] | a wire that loses, delays, reorders, duplicates and damages |
//! | [`trace`] | what crossed the wire as text, and its comparison with what a test expects |
//! | [`random`] | the random numbers of a seed |
#![forbid(unsafe_code)]

pub mod host;
pub mod nic;
pub mod program;
pub mod random;
pub mod sim;
pub mod trace;
pub mod wire;

/// What tests use.
pub mod prelude {
    pub use crate::host::{Conn, Host};
    pub use crate::program::{Endpoint, Plan, Reading, Then, pattern};
    pub use crate::random::{Random, Seed};
    pub use crate::sim::{CLIENT, SERVER, Sim, at_most, mac, ms, secs};
    pub use crate::trace::Style;
    pub use crate::wire::{Bursts, Conditions, Fate, is_tcp};
    pub use exos_inet::tcp::{Options, Reason, State};
    pub use exos_inet::{Duration, Instant};
}
