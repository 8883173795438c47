//! The client's side of HTTP/3 (RFC 9114): connections of QUIC, a stream of each for each request.
//!
//! [`Quic`] is a transport of the engine's that carries no bytes: the engine asks requests of a [`Connection`], and takes from it what
//! has come. Datagrams are carried by [`OnSockets`] or [`OnPackets`]. In a turn: the carrier takes what has come; [`Quic::tell`] has the
//! engine hear of it; the engine does what is due; and the carrier sends.
//!
//! | file | what is in it |
//! |---|---|
//! | `connection` | a connection: what is asked on it, and what leaves |
//! | `arriving` | what comes on its streams |
//! | `request` | the frames of a request, rendered once |
//! | `quic` | all connections of a loop, as the engine's transport |
//! | `opening` | what connections begin with, and why those fail that do not come to stand |
//! | `on_sockets` | datagrams on the kernel's sockets |
//! | `on_packets` | datagrams on a stack of our own |

/// What it is called in handshakes of TLS (RFC 9114 §3.1).
pub const ALPN: &str = "h3";

mod arriving;
mod connection;
mod on_packets;
mod on_sockets;
mod opening;
mod quic;
mod request;
#[cfg(test)]
mod tests;

pub use connection::Connection;
pub use on_packets::OnPackets;
pub use on_sockets::OnSockets;
pub use quic::{Outcome, Quic};
pub(crate) use request::frames;
