//! `exos metrics`: the daemon's counters for Prometheus, from a process without privilege.
//!
//! The daemon's report is the only source, as for `exos top` ([`exos_program::status`]): the privileged process speaks
//! no HTTP, and gives no more than any program may ask it for. [`exposition`] turns a report into text and performs no
//! I/O; [`server`] is who asks for it; [`run`] joins them, with one connection to the daemon that is made again when the
//! daemon was.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))] // See `exos_program::message`.

mod cli;
pub mod exposition;
pub mod limits;
mod run;
pub mod server;

pub use cli::MetricsArgs;
pub use run::run;
