//! The PROXY protocol, as it comes in: a proxy that passes connections on as they are says before their first byte for whom it
//! connects (haproxy's `proxy-protocol.txt`, versions 1 and 2).
//!
//! Between what carries connections and all else stands [`Introduced`], a transport too: a connection from a proxy that is trusted
//! is told of when its header has come, and has the addresses then that this says. Other connections pass through: what they say
//! of themselves in such a header is no request, and is answered so.
//!
//! | file | what is in it |
//! |---|---|
//! | [`header`] | the header, wherever it is cut |
//! | [`introductions`] | connections whose header has not come, and the addresses of those whose has |
//! | [`introduced`] | the transport |

pub mod header;
mod introduced;
mod introductions;

pub use introduced::Introduced;
pub use introductions::Introductions;
