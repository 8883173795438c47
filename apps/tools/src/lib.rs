//! Small programs to try a link with, each on a stack of its own: `exos echo` (RFC 862),
//! `exos discard` (RFC 863), `exos chargen` (RFC 864) and `exos cat`, which joins standard input
//! and output to a connection as netcat does.
//!
//! The three services are one program with three answers to what arrives ([`service`]); [`cat`] is
//! one of its own. Both perform no I/O besides what they ask of a stack, and are tested over a wire
//! in memory; [`run`] and `cat`'s threads join them to the world.
//!
//! chargen over UDP (RFC 864 allows it) is left out on purpose: it answers a datagram of any size,
//! from whatever address it claims to come from, with a larger one, and so is a well-known
//! amplifier of attacks.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))] // See `exos_program::message`.

pub mod cat;
pub mod limits;
mod options;
mod run;
pub mod service;
mod statistics;

pub use options::{ChargenArgs, CommonArgs, DiscardArgs, EchoArgs, LoadArgs};
pub use run::{chargen, discard, echo};
pub use statistics::Statistics;
