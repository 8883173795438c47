//! All integration tests of this crate, in one program: each module has its own first line.

mod attacks;
mod beside;
mod both_ways;
mod bypass;
mod daemon;
mod direct;
mod filters;
mod handlers;
mod handover;
mod lab;
mod leftovers;
mod lifetimes;
mod live;
mod many;
mod multicast;
mod packet_socket;
mod packets;
mod revocation;
mod successors;
mod warnings;
mod whole;
