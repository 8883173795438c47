//! All integration tests of this crate, in one program: each module has its own first line.

mod ash;
mod common;
mod http;
mod iolite;
mod link;
mod load;
mod sharing;
mod sockets;
mod tcp;
