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
//! [`attach`] is how a program gets its packets, [`node`] the loop's parts, [`wait`] when to spin
//! and when to sleep, [`host_tables`] next hops by the host's tables, [`pair`] an interface pair of
//! the program's own, [`user_netns`] the same without privilege, [`via`] a part of an interface that the
//! daemon lends. [`handlers`] is what the kernel does for a program. [`watch`] shows others its packets. [`cores`] is for a program on several cores, [`among`] for what comes to the wrong one.
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
pub use exos_host::Error;
pub use node::{Exos, Passage};
pub use senders::Sender;
