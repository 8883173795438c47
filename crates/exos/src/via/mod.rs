//! A program as a client of the daemon (`xokd`), which owns the interface and lends a part of it.
//!
//! The daemon makes the link and passes it ([`exos_link::Offer`]); the program claims addresses and
//! ports over the same connection, and nothing else reaches it or leaves it. Next hops and routes come
//! from the daemon's tables, which every program has mapped. So a program needs no privilege at all.
//!
//! ```text
//! Hello ──> Welcome + tables     Attach ──> Attached + ring     Claim ──> Granted ...   then packets
//! ```
//!
//! When the daemon goes without a farewell the ring goes on working, since the kernel's side of it is
//! pinned. The program looks for the daemon every [`RETRY_EVERY`](crate::limits::RETRY_EVERY) and takes
//! its slot up again with the token it was given. What a person should hear of that is [`News`].
//!
//! [`control`] is the connection, `shared` the tables, `attach` how a program's wishes become claims,
//! `leave` what it leaves behind, `revoked` how it gives back what it is asked for, `whole` is for addresses with all their
//! ports, `divided` for ports that several programs share, `ports` for those of sockets, `passing` for connections that go to
//! another program.

mod attach;
mod bypass;
pub mod control;
mod divided;
mod ending;
mod handler;
mod lease;
mod leave;
mod news;
mod passing;
mod ports;
mod revoked;
mod shared;
mod socket;
mod whole;

pub(crate) use attach::open;
pub use exos_xok::Protocol;
pub use exos_xok::message::{GrantId, Mode};
pub use lease::Via;
pub use news::{Lost, News};
pub(crate) use ports::Lend;
pub use socket::{SOCKET, SOCKET_VARIABLE, is_there, socket_path};
pub use whole::SUCCESSOR_TIME_MAX;
