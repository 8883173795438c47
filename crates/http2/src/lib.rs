//! HTTP/2 without I/O (RFC 9113), with header compression (RFC 7541) and priorities (RFC 9218).
//!
//! The core of a server's connection takes bytes and gives events; bodies of responses stay with the caller, who is told how many
//! bytes may follow the head of a frame. A client of its own kind finds frames and header compression here, too.
//!
//! ```
//! use exos_http2::connection::{Connection, Event};
//! use exos_http2::{frame, hpack};
//! # let mut received = frame::PREFACE.to_vec();
//! # frame::push_settings(&mut received, &[]);
//! # let mut block = Vec::new();
//! # for (name, value) in [(":method", "GET"), (":scheme", "http"), (":path", "/")] {
//! #     hpack::encoder::push(&mut block, name.as_bytes(), value.as_bytes());
//! # }
//! # frame::push_headers(&mut received, 1, &[&block], true, 16_384);
//! let mut out = Vec::new(); // What is to be sent.
//! let mut connection = Connection::server(&mut out);
//! let mut at = 0;
//! loop {
//!     let (taken, event) = connection.receive(&received[at..], &mut out)?;
//!     let asked = match event {
//!         Some(Event::Request { stream, head, .. }) if head.path() == Some(b"/") => Some(stream),
//!         _ => None,
//!     };
//!     if let Some(stream) = asked {
//!         let mut block = Vec::new();
//!         hpack::encoder::push(&mut block, b":status", b"200");
//!         connection.send_head(stream, &[&block], false, &mut out);
//!         let len = connection.begin_data(stream, 5, true, &mut out);
//!         out.extend_from_slice(&b"hello"[..len]);
//!     }
//!     at += taken;
//!     if taken == 0 {
//!         break; // More has to come.
//!     }
//! }
//! assert!(out.ends_with(b"hello"));
//! # Ok::<(), exos_http2::Fault>(())
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | [`frame`] | heads and payloads of frames, read and written |
//! | [`hpack`] | header compression |
//! | [`fields`], [`message`] | the fields of a message, and whether they make a request |
//! | [`state`] | the states of a stream, as a table |
//! | [`response`] | what a response's fields say to a client that counts |
//! | [`priority`] | which response comes first |
//! | [`connection`] | a server's connection |
//! | [`error`] | what can be wrong, with codes and names |
//! | [`allowance`] | how often a peer may do what brings nothing |

#![forbid(unsafe_code)]

pub mod allowance;
pub mod connection;
pub mod error;
pub mod fields;
pub mod frame;
pub mod hpack;
pub mod limits;
pub mod message;
pub mod priority;
pub mod response;
pub mod state;

pub use error::{ErrorCode, Fault};
pub use frame::StreamId;
