//! HTTP/3 without I/O (RFC 9114), with field sections of QPACK's fixed table (RFC 9204), for servers and clients.
//!
//! QUIC carries the streams; here is what is in them. Bytes of a request's stream go into a [`request::Reader`] at the server, which gives
//! the head of the request and parts of its body, and into a [`response::Reader`] at the client; those of the peer's other streams into a
//! [`control::Reader`]. Each takes bytes in pieces as they come. What leaves is made by [`frame`] and [`qpack::encoder`].
//!
//! ```
//! use exos_http3::heads::Heads;
//! use exos_http3::{frame, qpack, request};
//! # let mut received = Vec::new();
//! # let mut block = Vec::new();
//! # qpack::encoder::begin(&mut block);
//! # for (name, value) in [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")] {
//! #     qpack::encoder::push(&mut block, name.as_bytes(), value.as_bytes());
//! # }
//! # frame::push_head(&mut received, frame::kind::HEADERS, block.len() as u64);
//! # received.extend_from_slice(&block);
//! let mut reader = request::Reader::default();
//! let mut heads = Heads::default();
//! let (taken, part) = reader.receive(&received, &mut heads)?;
//! let Some(request::Part::Head(head)) = part else {
//!     panic!("a request");
//! };
//! assert_eq!(head.request().path(), Some(&b"/"[..]));
//! reader.end()?; // The client has finished.
//! assert_eq!(taken, received.len());
//! # Ok::<(), exos_http3::Fault>(())
//! ```
//!
//! Nothing dynamic is spoken: the table that peers may fill has no room ([`frame::settings`]), and nothing is pushed.
//!
//! | file | what is in it |
//! |---|---|
//! | [`varint`] | numbers of variable length |
//! | [`frame`] | heads of frames, and the settings of either side |
//! | [`qpack`] | field sections |
//! | [`request`] | a request's stream, as it comes to a server |
//! | [`heads`] | heads of requests that came last, decoded |
//! | [`response`] | a request's stream, as it comes back to a client |
//! | `message` | the frames of both |
//! | [`control`] | the peer's other streams |
//! | [`error`] | what can be wrong, with codes and names |

#![forbid(unsafe_code)]

pub mod control;
pub mod error;
pub mod frame;
pub mod heads;
pub mod limits;
mod message;
pub mod qpack;
pub mod request;
pub mod response;
pub mod varint;

pub use error::{ErrorCode, Fault};
