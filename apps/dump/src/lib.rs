//! Packets as text and as files: `exos dump`, which shows what tcpdump cannot see.
//!
//! What XDP takes off an interface and what AF_XDP sends never passes the packet sockets that tcpdump
//! listens on. Programs that attach directly copy both into a ring for this command while it runs; of those that the
//! daemon lends a part of an interface, programs in the kernel's packet path do.
//!
//! [`text`] turns a packet into tcpdump's line; [`mod@file`] reads and writes captures.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))] // See `exos_program::message`.

mod cli;
mod decrypt;
pub mod file;
pub mod limits;
mod live;
mod output;
mod packet;
mod run;
mod sink;
mod stamp;
pub mod text;

pub use cli::DumpArgs;
pub use packet::{Direction, Origin, Packet, Verdict};
pub use run::run;
pub use sink::Line;
