//! `exos top`: who is on the daemon's interfaces, how much each sends and receives, and what is dropped
//! and why.
//!
//! The daemon's report, asked for once in a while, is the only source ([`exos_program::status`]); rates
//! are differences of two of them ([`rates`]). [`app`] is what keys do, [`view`] what is seen; both
//! perform no I/O, and are tested without a terminal. [`run`] joins them to one.
#![forbid(unsafe_code)]

pub mod app;
mod cli;
mod json;
mod limits;
pub mod rates;
mod run;
mod units;
pub mod view;

pub use cli::TopArgs;
pub use run::run;
