//! All integration tests of this crate, in one program: each module has its own first line.

#[path = "../../../../fuzz/bodies/wire.rs"]
mod bodies;
mod checksum;
mod common;
mod corpus;
mod hello;
mod ipv6_extensions;
mod ndp;
mod oracle_etherparse;
mod oracle_smoltcp;
mod prefix;
mod round_trip;
mod tcp_options;
mod truncation;
mod values;
