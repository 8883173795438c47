//! What our programs have in common beside the library: the options that say where packets come from ([`LinkArgs`]) and
//! how TCP behaves ([`TcpArgs`]), as which user they go on ([`UserArgs`]), what they do while idle ([`Idle`]), loops on several [`cores`] and what these [`workers`] say to one another, what it says when a daemon takes the link back ([`tell_news`]), messages to the operator ([`message`]) and reports that never wait
//! for their reader ([`Printer`]), the counters' form in them ([`counters`]) and as Prometheus text ([`exposition`]), what
//! the daemon reports of itself ([`status`]), questions to a program that runs ([`control`]), pages ([`html`]) with figures ([`figure`]), durations,
//! sizes and rates in options ([`units`]), the local time [`zone`], configuration files ([`config`]), host [`names`], [`text`] that others have chosen, connections on the kernel's [`sockets`], and [`datagrams`] on one of them.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))] // See `message`.

pub mod config;
mod connections;
pub mod control;
pub mod cores;
pub mod counters;
pub mod datagrams;
pub mod exposition;
pub mod figure;
pub mod html;
mod link;
pub mod names;
mod news;
mod options;
mod printer;
mod reachable;
pub mod sockets;
pub mod status;
pub mod text;
pub mod workers;
pub mod zone;

pub use connections::{ConnectionTable, Timed};
pub use exos_host::{error, info, message, say, units, warn};
pub use link::{LinkArgs, LinkName, NamedLink, Needs, SharingLinkArgs, ViaName, mode};
pub use news::{taken_back, tell_losses, tell_news};
pub use options::{Congestion, Ecn, Idle, TcpArgs, TlsArgs, UserArgs, with_options};
pub use printer::{Printer, Stream};
pub use reachable::{inside_hint, reachable, reachable_addresses};
