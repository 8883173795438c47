//! The library operating system that a program links: a stack on a link, a clock, and waiting.
//!
//! A program attaches ([`Attachment`], [`Exos::attach`]) and then runs its own loop over an
//! [`Exos`]: take in what arrived, answer the events, send, wait. There is no thread behind it and
//! no callback: the program is the event loop, which is what lets acknowledgements ride on answers
//! and a batch of packets cost one system call.
//!
//! ```no_run
//! # use exos::{Attachment, Exos, LinkName, signals::Signals};
//! # fn main() -> Result<(), exos::Error> {
//! let mut exos = Exos::attach(&Attachment::new(LinkName::OwnPair, 80))?;
//! let signals = Signals::catch()?;
//! exos.stack.tcp.listen(None, 80, Default::default()).expect("nobody else is here");
//! while !signals.stop_requested() {
//!     exos.receive();
//!     while let Some(event) = exos.stack.poll_event() {
//!         // ... the program
//!     }
//!     exos.send()?;
//!     exos.wait(None, &[signals.fd()])?;
//! }
//! # Ok(()) }
//! ```
//!
//! Whole programs are in `examples/`, each a page that says how to run it: `echo_server`, `client`, `udp_echo`,
//! `several_cores`. The stack without this crate is `examples/own_loop.rs` of `exos-inet`.
//!
//! What a program needs of the crates below is here too, so that it names this one alone: [`inet`] (the stack, TCP, UDP),
//! [`buf`] (what is sent), [`wire`] (headers); their most used types are at the root.
//!
//! | to | see |
//! |---|---|
//! | say which link and which addresses | [`attach`] |
//! | run the loop: receive, send, wait | [`Exos`], [`wait`] for when it spins and when it sleeps |
//! | wait in an event loop of one's own | [`Exos::prepare_sleep`] |
//! | stop on a signal | [`signals`] |
//! | run on several cores | [`cores`]; [`among`] for what comes to the wrong one |
//! | use a part of an interface that the daemon lends | [`via`] |
//! | have the kernel answer or forward packets | [`handlers`] |
//! | show others the packets | [`watch`] |
//! | know how links of the program's own are made | [`pair`], [`user_netns`], [`host_tables`] |
#![forbid(unsafe_code)]

pub mod among;
pub mod attach;
pub mod clock;
pub mod cores;
pub mod handlers;
pub mod host_tables;
pub mod limits;
pub mod node;
pub mod pair;
mod pools;
mod senders;
mod shared;
pub mod signals;
mod taken;
pub mod user_netns;
pub mod via;
pub mod wait;
pub mod watch;

pub use attach::{Attachment, LinkName, Prefixed};
pub use cores::Core;
pub use exos_buf::{self as buf, Aggregate, Buffer, Slice};
pub use exos_host::Error;
pub use exos_inet::tcp::{
    ConnectionId, Event, EventSet, ListenOptions, ListenerId, Options, Reason,
};
pub use exos_inet::{self as inet, Duration, Instant, Stack};
pub use exos_wire as wire;
pub use node::{Exos, Passage, Sleep};
pub use senders::Sender;
