//! The forwarder: packets of TCP and UDP, rewritten and sent on to one of several servers.
//!
//! A proxy that joins two sockets takes every byte in and sends it again, and acknowledges what the server may never get.
//! This one changes the ends of packets and lets them go on (*Fast and Flexible*, section 7): what client and server say to
//! each other passes it untouched, and only they acknowledge anything.
//!
//! | module | what is in it |
//! |---|---|
//! | [`packets`] | one packet: what is looked at, what becomes of it, and errors about it |
//! | [`flow`] | the flows under way, how they stand, and when they are forgotten |
//! | [`syns`] | SYNs that wait for an answer, to be sent to another server if there is none |
//! | [`service`], [`maglev`], [`ports`] | what is listened to, which server, and which of our ports it sees |
//! | [`health`] | which servers are well |
//! | [`forwarder`] | all of that together, for one frame after the other |
//! | [`kernel`] | flows that the kernel forwards |
//! | [`kept`] | flows that outlive the program |
//! | `settings` | what the command line or a file wants, and whether that can be |
//! | `program` | `exos forward`: its loop (`run`), on what the daemon lends (`lent`), in place of another (`predecessor`, `keeper`); it checks and seeks servers (`checking`, `seeking`), and reports ([`status`], `statistics`, `exporter`, `control`) |
//! | `splice` | the other forwarder, on sockets: `exos forward --splice` |
//!
//! Everything but the program performs nothing: no I/O, no clock. `docs/internals/forward.md` is the design.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))] // See `exos_program::message`.

pub mod counters;
pub mod flow;
pub mod forwarder;
pub mod health;
pub mod kept;
pub mod kernel;
pub mod limits;
pub mod maglev;
pub mod packets;
pub mod ports;
mod program;
pub mod service;
mod settings;
mod splice;
pub mod syns;

pub use program::run::run;
pub use program::status;
pub use settings::options::ForwardArgs;

/// What is reported and answered as JSON.
pub mod json {
    pub use crate::program::control::{Answer, Request};
    pub use crate::program::statistics::Report as Statistics;
    pub use crate::splice::Report as Splice;
}
