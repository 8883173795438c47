//! What is said over the daemon's socket.
//!
//! A Unix socket of type SEQPACKET; each message is one datagram of at most [`MESSAGE_BYTES_MAX`] bytes, with
//! descriptors beside it where its documentation says so. A program sends [`Request`]s, each with a tag of its
//! choosing; the daemon answers every one with an [`Answer`] of the same tag, in order, and sends [`Notice`]s
//! unasked, at any time. One connection is one program, or one core of it, and at most one slot; when it closes, what the slot holds
//! goes, unless it closed because the daemon went ([`Request::Reattach`]).
//!
//! Bytes, little-endian: kind u16, tag u32, then the fields in the order in which they are declared. Kinds of
//! requests begin at 1, of answers at 64, of notices at 128. Numbers have their own width; options and booleans
//! are one byte 0 or 1; an address is its family (4 or 6) in one byte and its bytes in network order; texts, byte
//! strings and lists begin with their length in 16 bits. What is left over behind the last field makes the message
//! bad. A new version ([`VERSION`]) may change anything but [`Request::Hello`] and [`Answer::Refused`].
//!
//! [`MESSAGE_BYTES_MAX`]: crate::limits::MESSAGE_BYTES_MAX

mod answer;
mod facts;
mod from_daemon;
mod head;
mod notice;
mod request;

pub use answer::{Answer, InterfaceInfo, LocalAddress, Refusal};
pub use facts::{Facts, LINK_BYTES};
pub use from_daemon::FromDaemon;
pub use head::{GrantId, Secret, VERSION};
pub use notice::{Farewell, Notice, Revoked};
pub use request::{Answering, Mode, PortWish, Request};

#[cfg(test)]
mod tests;
