//! How connections begin: listeners and their SYNs, ports of ours, cookies.

pub(in crate::tcp) mod cookie;
pub(in crate::tcp) mod ip;
pub(in crate::tcp) mod listener;
pub mod options;
pub(in crate::tcp) mod passive;
pub(in crate::tcp) mod ports;
pub mod syn_offload;
