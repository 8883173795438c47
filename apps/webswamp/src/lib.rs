//! webswamp: a load generator that is not the bottleneck and says so when it is (*Fast and Flexible*, section 6).
//!
//! The way of a request: a [`schedule`] or a client's thinking says when it begins, a [`driver`] which of the
//! [`request`]s it is; the [`engine`] sends it on a connection of its [`transport`] and takes in the [`response`]; what
//! was seen goes into [`statistics`], from which the [`report`] is made. [`packets`] carries connections on a stack of our
//! own, [`sockets`] on the kernel's, [`secured`] puts TLS on either, [`http2`] has many requests on one, as [`http3`] has on connections of QUIC. [`run()`] is the program `exos load`: its `command` line and `options`, the [`target`], a
//! loop for each of the two; [`load()`] is the same for programs.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))] // See `exos_program::message`.

mod command;
pub mod driver;
pub mod engine;
pub mod expect;
pub mod http2;
pub mod http3;
pub mod limits;
mod moment;
pub mod multiplexed;
mod options;
mod output;
pub mod packets;
pub mod peak;
pub mod ports;
pub mod report;
pub mod request;
pub mod response;
mod run;
pub mod schedule;
pub mod secured;
pub mod sockets;
pub mod statistics;
pub mod target;
pub mod transport;

pub use command::{LoadCommand, run};
pub use options::LoadArgs;
pub use run::{load, load_with};
