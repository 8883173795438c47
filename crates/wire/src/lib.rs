//! Header views, builders, checksums and sequence numbers of the Internet protocols.
//!
//! This is the one parser of the project: bytes become views that cannot panic once parsed, and
//! views become values. It performs nothing: no I/O, no clock, no allocation.
//!
//! Each protocol has one file with up to three kinds of item:
//!
//! - a **view**, `XView<'a>`: made by `parse`, which checks everything that an accessor relies on,
//!   so that every accessor is total. A view borrows the bytes and copies nothing. `parse` checks
//!   what is needed to find one's way in the packet (versions, lengths); checksums are verified
//!   only when asked for, because links may have done so already.
//! - a **header**, `XHeader`: plain values that `emit` writes into the front of a buffer. It
//!   returns how many bytes it wrote and panics when the buffer is too small, which is a bug of
//!   the caller: the `LEN` constants say what is needed.
//! - a **message**, for protocols whose packets are all control ([`arp`], [`icmpv4`], [`icmpv6`],
//!   [`ndp`]): values that are parsed and emitted whole.
//!
//! A frame is read from the outside in: [`ethernet`], then [`arp`], [`ipv4`] or [`ipv6`], then
//! [`icmpv4`], [`icmpv6`], [`udp`] or [`tcp`]. What ICMP errors quote of a packet is cut short;
//! [`quoted`] reads that. Of what TCP and UDP carry, [`tls`] and [`quic`] read as much as is in clear.
//!
//! All integers that the interface shows are in host order, all lengths and offsets in bytes.
#![forbid(unsafe_code)]

pub mod arp;
mod bytes;
pub mod checksum;
mod cursor;
mod error;
pub mod ethernet;
mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod limits;
pub mod protocol;
pub mod quic;
pub mod tcp;
pub mod tls;
pub mod udp;
mod values;

pub use checksum::Sum;
pub use error::WireError;
pub use icmp::{icmpv4, icmpv6, ndp, quoted};
pub use values::{Mac, MacParseError, Prefix, RxChecksum, SeqNumber, TxChecksum, offload, prefix};
