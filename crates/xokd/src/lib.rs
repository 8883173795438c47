//! xokd: the daemon that shares interfaces between programs that do not trust each other.
//!
//! The only privileged part of the project, and meant to be read in a sitting. It owns the packet path of each
//! interface that it serves, and says who gets which part of it; packets themselves never pass through it, except
//! those that nobody claims.
//!
//! - [`policy`]: who may do what, from a file;
//! - [`ledger`]: who owns what, pure, with the one rule that granting never takes a packet from another owner;
//! - [`server`]: the socket, and everybody on it.
#![forbid(unsafe_code)]

pub mod ledger;
pub mod limits;
pub mod policy;
pub mod server;
