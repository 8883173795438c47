//! Host names: the resolver ([`exos_names`]), and what is around it.
//!
//! | file | job |
//! |---|---|
//! | `driver` | a resolver with its sockets, of whatever kind, and the files of the system |
//! | `host` | [`HostNames`]: over the kernel's sockets |
//!
//! Over sockets of a stack it is [`net::Names`](crate::net::Names).

pub(crate) mod driver;
mod host;

pub use exos_names::*;
pub use host::{Found, HostNames};
