//! The tests of the crate's interface.

mod client;
mod corpus;
mod cuts;
mod early;
mod files;
mod handshakes;
mod hybrid;
mod identity;
mod ml_dsa;
mod observer;
mod openssl;
mod peers;
mod quic;
mod sessions;
mod traffic;
mod wrong;
