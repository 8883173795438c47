//! The forwarder: packets of TCP and UDP, rewritten and sent on to one of several servers.
//!
//! A proxy that joins two sockets takes every byte in and sends it again, and acknowledges what the server may never get.
//! This one changes the ends of packets and lets them go on (*Fast and Flexible*, section 7): what client and server say to
//! each other passes it untouched, and only they acknowledge anything.
//!
//! | module | what is in it |
//! |---|---|
//! | [`packet`] | what of a frame is looked at |
//! | [`rewrite`], [`icmp`], [`fragments`] | what becomes of packets, of errors about them, and of those in pieces |
//! | [`tunnel`], [`too_big`] | packets in others, and those that do not fit |
//! | [`refusal`] | errors of ICMP of our own |
//! | [`flow`] | the flows under way, how they stand, and when they are forgotten |
//! | [`syns`] | SYNs that wait for an answer, to be sent to another server if there is none |
//! | [`reach`] | how packets reach servers, and answers clients |
//! | [`ports`] | which of our ports a server sees |
//! | [`maglev`], [`service`] | which server, and what is listened to |
//! | [`health`] | which servers are well |
//! | [`traffic`], [`status`] | what has gone through, and what is reported of each listener and server |
//! | [`forwarder`] | all of that together, for one frame after the other |
//! | [`kernel`] | flows that the kernel forwards |
//! | [`kept`], `keeper` | flows that outlive the program |
//! | `exporter` | what is counted, for Prometheus |
//! | `predecessor` | the forwarder before us, from which we take over |
//! | `control` | the socket by which servers are changed while it runs |
//! | `answers` | has answers to clients come here |
//! | `checking` | has servers checked by the stack of the link |
//! | `seeking` | asks where servers are, and tells of those that nobody answers for |
//! | `names` | servers by their names: which addresses these stand for, and when that changes |
//! | `config`, `wanted` | what a file or the command line says |
//! | `setup` | what is wanted, with what the link says to it |
//! | `options`, `run`, `onward`, `looking` | the program: `exos forward`; a frame's last step, and what it does while none comes |
//! | `splice` | the other forwarder, on sockets: `exos forward --splice` |
//!
//! Everything but the program performs nothing: no I/O, no clock. `docs/internals/forward.md` is the design.
//!
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))] // See `exos_program::message`.

mod answers;
mod checking;
mod config;
mod control;
pub mod counters;
pub mod endpoint;
mod exporter;
pub mod flow;
pub mod forwarder;
pub mod fragments;
pub mod health;
pub mod icmp;
mod keeper;
pub mod kept;
pub mod kernel;
mod lent;
pub mod limits;
mod looking;
pub mod maglev;
mod names;
mod onward;
mod options;
pub mod packet;
pub mod ports;
mod predecessor;
pub mod reach;
pub mod refusal;
mod rehearsal;
pub mod rewrite;
mod run;
mod seeking;
pub mod service;
mod setup;
mod splice;
mod statistics;
pub mod status;
pub mod syns;
pub mod too_big;
pub mod traffic;
pub mod tunnel;
mod wanted;

pub use options::ForwardArgs;
pub use run::run;
