//! `exos top`: who is doing how much, live.
//!
//! Two things can be watched: the [`daemon`] with the programs on its interfaces, and a forwarder with its servers
//! ([`forward`]). [`keys`] is what keys mean in both, [`list`] the rows that they sort and
//! choose, [`reason`] why packets are dropped, [`units`] how both write numbers, `screen` what both show; `watch` is what the loop asks of both, and `run` that loop, on a terminal.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))] // See `exos_program::message`.

mod cli;
pub mod daemon;
pub mod forward;
pub mod keys;
mod limits;
pub mod list;
pub mod reason;
mod run;
mod screen;
pub mod units;
mod watch;

pub use cli::TopArgs;
pub use run::run;
