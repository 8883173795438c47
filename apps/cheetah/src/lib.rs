//! Cheetah, the web server: HTTP, the document store, and its event loop.
//!
//! [`message`] is what HTTP messages are made of. Then comes [`site`], the documents in memory, each with its response fields and checksums
//! made once, with the rules who may have what; then [`http`], which turns the bytes of a connection into slices of those
//! documents. Both perform no I/O but reading the directory; [`stream`] reads what is too
//! long for memory while it is sent, [`applications`] has applications answer, and [`caching`] keeps answers of upstreams. [`log`] writes a line for each response, [`status`]
//! says how it goes. [`connections`] joins these to a stack, or to the kernel's [`sockets`]; [`secure`] puts TLS between, for HTTPS, and [`acme`] gets its certificates; [`quic`] carries HTTP/3 beside; [`config`] is what a file
//! or the command line says is to be served, and [`serve`] the program: `exos serve`.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))] // See `exos_program::message`.

pub mod acme;
pub mod applications;
pub mod caching;
pub mod config;
pub mod connections;
pub mod http;
pub mod limits;
pub mod log;
pub mod message;
pub mod proxy_protocol;
pub mod quic;
pub mod secure;
pub mod serve;
pub mod site;
pub mod sockets;
pub mod status;
pub mod stream;

pub use http::{Handled, Next, Server, ServerConnection};
pub use message::Status;
pub use site::Site;
