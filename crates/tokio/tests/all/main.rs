//! All integration tests of this crate, in one program: with the kernel's sockets at the other end. As root; in a namespace of
//! each test's own.

mod axum;
mod common;
mod http;
mod tasks;
mod tls;
