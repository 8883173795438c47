//! The client's side of HTTP/2 (RFC 9113), without input or output: requests of slots become frames, and frames become news of
//! slots. The engine has a [`Connection`] for each of its connections, and says when requests begin.
//!
//! | file | what is in it |
//! |---|---|
//! | `connection` | a connection: what begins, what leaves |
//! | `arriving` | the frames that come, and those of content |
//! | `heads` | those of header blocks |
//! | `reading` | how far a connection has been read |
//! | `control` | those that are no part of a response |
//! | `peer` | what the server has said of itself: its settings |
//! | `stream` | the streams of a connection, by number |
//! | `sending` | what is to leave, and the bodies of requests that wait for a window |
//! | `answer` | the header blocks of responses |
//! | `block` | the header block of a request, rendered once |

/// What it is called in handshakes of TLS (RFC 9113 §3.2).
pub const ALPN: &str = "h2";

mod answer;
mod arriving;
mod block;
mod connection;
mod control;
mod heads;
mod peer;
mod reading;
mod sending;
mod stream;
#[cfg(test)]
mod tests;

pub use block::Block;
pub(crate) use block::{NOT_SENT, common_fields, own_fields};
pub use connection::Connection;
