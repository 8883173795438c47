//! One loop for each core, and all of them together.
//!
//! [`server_loop`] is one core's loop, on what [carries](crate::connections::Carried) its connections: a stack
//! ([`on_packets`], with datagrams for [`http3`]) or the kernel's [sockets](crate::sockets); [`documents`] is what it serves, [`outage`] what becomes of one whose
//! interface fails. [`worker`] is how cores speak to one another, [`threads`] starts those but the first, which is the
//! [`leader`]: it hears signals, prints [`statistics`], and does the [`upkeep`] of documents for all.

mod documents;
mod http3;
pub(super) mod leader;
pub(super) mod on_packets;
mod outage;
pub(super) mod server_loop;
mod statistics;
pub(super) mod threads;
pub(super) mod upkeep;
pub(super) mod worker;
