//! The library operating system that a program links: a stack on a link, a clock, and waiting.
//!
//! A program attaches ([`Attachment`], [`Exos::attach`]) and then runs its own loop over an
//! [`Exos`]: take in what arrived, answer the events, send, wait. There is no thread behind it and
//! no callback: the program is the event loop, which is what lets acknowledgements ride on answers
//! and a batch of packets cost one system call.
//!
//! An echo server, whole:
//!
//! ```no_run
//! use exos::{Buffer, EventSet, Exos, ListenOptions, OwnPair, signals::Signals};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let mut exos = Exos::attach(OwnPair::new())?; // An interface pair of its own.
//!     let signals = Signals::catch()?;
//!     exos.stack.tcp.listen(None, 7, ListenOptions::default())?;
//!     while !signals.stop_requested() {
//!         exos.receive(); // Takes the time, and all frames that are there.
//!         while let Some(event) = exos.stack.poll_event() {
//!             let (id, tcp) = (event.connection, &mut exos.stack.tcp);
//!             if event.set.contains(EventSet::READABLE) {
//!                 let bytes = Buffer::from(tcp.readable(id));
//!                 tcp.consume(id, bytes.len());
//!                 tcp.send(id, bytes.into());
//!             }
//!             if event.set.contains(EventSet::FINISHED) {
//!                 tcp.finish(id);
//!             }
//!         }
//!         exos.send()?; // Acknowledgements leave on the answers.
//!         exos.wait(None, &[signals.fd()])?; // Returns at once after a turn that moved frames.
//!     }
//!     Ok(())
//! }
//! ```
//!
//! All commands of connections are methods of `stack.tcp`: `connect` and `listen` begin them, `readable`, `consume`, `send`,
//! `finish` and `abort` go on with them, each by the [`ConnectionId`] that events carry. Datagrams are those of `stack.udp`.
//!
//! More whole programs are in `examples/`, each a page that says how to run it: `echo_server`, `client`, `udp_echo`,
//! `several_cores`, `prefork`. The stack without this crate is `examples/own_loop.rs` of `exos-inet`.
//!
//! What goes wrong is one [`Error`], a sentence with what mends it; [`ErrorKind`] is there to match on. A `main` may return it.
//!
//! What a program needs of the crates below is here too, so that it names this one alone: [`inet`] (the stack, TCP, UDP),
//! [`buf`] (what is sent), [`wire`] (headers); their most used types are at the root.
//!
//! | to | see |
//! |---|---|
//! | write as for `std::net` | [`net`] |
//! | look up names | [`net::Names`] over a stack, [`names::HostNames`] over the kernel's sockets |
//! | give a connection to another process | [`net::TcpStream::hand_over`] |
//! | say which link and which addresses | [`attach`] |
//! | run the loop: receive, send, wait | [`Exos`], [`wait`] for when it spins and when it sleeps |
//! | wait in an event loop of one's own | [`Exos::prepare_sleep`] |
//! | stop on a signal | [`signals`] |
//! | run on several cores | [`cores`]; [`handoff`] for what comes to the wrong one |
//! | run on several interfaces | [`Core::open`], [`Core::lead`] |
//! | use a part of an interface that the daemon lends | [`via`] |
//! | forward packets | [`relay`] |
//! | have the kernel answer or forward packets | [`handlers`] |
//! | have datagrams dealt with where they arrive, in the program's own words | [`Exos::download`], [`ash`] |
//! | do something to each byte of what comes, in the pass that copies it | [`net::TcpStream::read_through`], [`net::UdpSocket::recv_through`], [`pipes`] |
//! | show others the packets | [`watch`] |
//! | know how links of the program's own are made | [`attach::pair`], [`attach::user_netns`], [`host_tables`] |
#![forbid(unsafe_code)]

pub mod attach;
pub mod clock;
pub mod cores;
pub mod download;
mod early;
pub mod handlers;
pub mod handoff;
pub mod host_tables;
pub mod limits;
pub mod names;
pub mod net;
pub mod node;
pub mod relay;
pub mod requests;
mod senders;
mod share;
pub mod signals;
pub mod via;
pub mod wait;
pub mod watch;

pub use attach::{
    Addresses, Attachment, By, Daemon, Interface, LinkKind, OwnPair, OwnTap, Prefixed, Queues,
    Role, Route, SharedInterface, Tap,
};
pub use cores::Core;
pub use download::{Downloaded, Place};
pub use exos_ash as ash;
pub use exos_buf::{self as buf, Aggregate, Buffer, Slice};
pub use exos_host::error::{Error, ErrorKind};
pub use exos_inet::tcp::{
    ConnectionId, Event, EventSet, ListenOptions, ListenerId, Options, Reason,
};
pub use exos_inet::{self as inet, Duration, Instant, Stack};
pub use exos_link::{RxMeta, TxMeta};
pub use exos_pipes as pipes;
pub use exos_wire as wire;
pub use node::{Exos, Sleep};
pub use relay::Passage;
pub use senders::Sender;
