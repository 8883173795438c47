//! The connections of the server: bytes from a transport to HTTP, slices of documents back.
//!
//! A connection's unread bytes stay in the transport's receive buffer, and what is sent refers to the
//! documents; so a connection costs a control block and the few words here. Every wait of a
//! connection has an end ([`wait`]).
//!
//! | file | what is in it |
//! |---|---|
//! | [`cheetah`] | all connections of a loop: they come and go, and what they wait for comes |
//! | [`connection`] | one of them: its requests, what it waits for, its end |
//! | [`http2`] | the streams of a connection of HTTP/2, each of which is as one connection |
//! | [`shared`] | what all of them share |
//! | [`streaming`], [`stream`] | content that is read while it is sent, and what a connection has of it |
//! | [`fetching`] | documents that requests wait for |
//! | [`answering`] | a request that an application answers |
//! | [`refreshing`] | requests of the server's own to upstreams |
//! | [`bounds`], [`peers`] | what a client may do, and how many connections it has |
//! | [`in_kernel`], [`sent`] | what the kernel answers, and what of that comes here |
//! | [`transport`] | what carries connections: [`packets`], or the kernel's [`sockets`] |
//! | [`carried`] | the server together with what carries it, as a loop drives it |
//! | [`without`] | what a server on packets can do without, to measure what that is worth |

mod answering;
pub mod bounds;
mod carried;
mod cheetah;
mod connection;
mod fetching;
mod http2;
pub(crate) mod in_kernel;
mod packets;
pub mod peers;
mod refreshing;
mod sent;
mod shared;
mod sockets;
mod stream;
mod streaming;
mod transport;
mod wait;
pub mod without;

pub(crate) use bounds::parse_shutdown_timeout;
pub use bounds::{Bounds, BoundsArgs};
pub use carried::Carried;
pub use cheetah::Cheetah;
pub use packets::Packets;
pub use transport::{Abort, Transport};
pub use without::{Specialisation, Without};
