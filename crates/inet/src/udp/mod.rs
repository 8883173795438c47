//! UDP (RFC 768): bound sockets, their receive queues, and the checksum rules of both families.
//!
//! [`UdpTable`] owns the sockets. The stack hands it arrived datagrams ([`UdpTable::deliver`]) and
//! ICMP errors ([`UdpTable::handle_error`]); programs take datagrams with [`UdpTable::receive`] and
//! send with [`UdpTable::send`], which gives back a description that the stack turns into packets.
//! Nothing is buffered on the way out.
//!
//! Rules: a socket is bound to one address, to all of a family, or to any, and to one port; two
//! sockets may not share both unless they say so ([`Sharing`]), and "all" and "any" share with every address. A connected socket
//! hears its remote only. The most
//! specific socket gets a datagram; group traffic goes to every socket that fits. Receive queues
//! are bounded in bytes and drop the newest, by name.
//!
//! Which sockets have something to read is told by [`UdpTable::poll_readable`].
//!
//! Invariants: `ports[p]` lists exactly the slots bound to `p`; a socket is in `readable` exactly when its `is_told` flag is set.

mod error;
mod fields;
mod socket;
mod table;

pub use error::UdpError;
pub use fields::HeaderFields;
pub use socket::{Received, Sharing};
pub use table::{Bound, Delivered, Outgoing, UdpCounters, UdpDrop, UdpHandle, UdpTable, parse};
