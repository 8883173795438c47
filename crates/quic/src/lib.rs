//! QUIC's connections of a loop (RFC 9000): which datagram is whose, when each wants to be called, and which of them has something to
//! send.
//!
//! QUIC itself is `quinn-proto`'s, as state machines without I/O. Here is what a server and a client have in common around them: a
//! table of [`Connections`], each with a [`Link`] of the program's own, and the order in which quinn wants to be asked.
//!
//! In a turn: [`Connections::set_now`]; [`Connections::poll_due`] until it gives nothing; [`Connections::receive`] for each datagram that
//! has come. The link that one of these names has news: [`quinn_proto::Connection::poll`] gives them. What is done with a link is done
//! by [`Connections::get_mut`], for it may have something to send then. At the end [`Connections::poll_transmit`] gives datagrams until
//! there are none, and [`Connections::poll_over`] the links that are no more.
//!
//! ```
//! use std::sync::Arc;
//!
//! use exos_inet::Instant;
//! use exos_quic::{Connections, Link, quinn_proto};
//! use quinn_proto::{Connection, EndpointConfig};
//!
//! struct Plain(Connection);
//! impl Link for Plain {
//!     fn quic(&mut self) -> &mut Connection {
//!         &mut self.0
//!     }
//! }
//!
//! let now = Instant::from_millis(1);
//! let mut connections: Connections<Plain> = Connections::new(EndpointConfig::default(), None, true, now);
//! assert_eq!((connections.open(), connections.poll_timeout()), (0, None));
//! ```

#![forbid(unsafe_code)]

mod connections;
mod datagram;
mod identifiers;

pub use connections::{Connections, Link, Received};
pub use datagram::{Arrived, Leaving};
pub use identifiers::{Identifiers, Loops};
pub use quinn_proto;
