//! xokd: the daemon that shares interfaces between programs that do not trust each other.
//!
//! The only privileged part of the project, and meant to be read in a sitting. It owns the packet path of each
//! interface that it serves, and says who gets which part of it; packets themselves never pass through it, except
//! those that nobody claims.
//!
//! Read in this order:
//!
//! - [`policy`]: who may do what, from a file; [`pool`]: how much there is for users whom it knows well or not;
//! - [`ledger`]: who owns what, pure, with the one rule that granting never takes a packet from another owner;
//! - [`server`]: the socket, and everybody on it;
//! - [`slot`] and [`gate`]: what a program gets in the kernel, the tables that say whose packets are whose, and how a link is
//!   divided;
//! - [`interface`]: one with its addresses, the daemon's own place on it ([`interface::responder`]), its neighbours, and the ports
//!   that the host is kept from where addresses are shared ([`interface::reservations`]);
//! - [`tables`]: what everybody can read;
//! - [`worker`]: what takes long, beside the loop;
//! - [`daemon`]: all of it together, one loop, one thread.
#![forbid(unsafe_code)]

mod clock;
mod command;
pub mod daemon;
pub mod gate;
pub mod interface;
pub mod ledger;
pub mod limits;
pub mod policy;
pub mod pool;
pub mod server;
pub mod slot;
pub mod state;
pub mod tables;
pub mod worker;

pub use command::{DaemonArgs, run};
