//! What a packet filter means, and its compilation to eBPF.
//!
//! A [`Filter`] is a disjunction of conjunctions of masked comparisons; a [`Conjunction`] is what the papers call a
//! filter. Its meaning is [`Filter::matches`], an interpreter of a few lines; everything else in this crate is
//! measured against it. Filters come from people as text in tcpdump's everyday language ([`Filter::parse`]), are
//! compared with each other before they are granted ([`Filter::is_disjoint_from`], [`Filter::is_subset_of`]), and
//! run in the kernel as an XDP program ([`compile`]). The compiled program is correct when it agrees with the
//! interpreter on every packet.
//!
//! Start reading at [`layers`] (what a filter sees of a packet), then [`literal`], [`Filter`], [`program`].
//!
//! # What is matched, and what never is
//!
//! - One 802.1Q tag (0x8100) is skipped transparently: `ip` matches with and without it. `vlan` asks for the tag.
//! - Tests of bytes that a packet does not have are false, so truncated packets do not match. The complement `not`
//!   is the true complement: `not port 80` does match a packet that is too short to have ports.
//! - A fragment that is not the first has a protocol but no transport header: `tcp` matches it, `port` does not.
//! - IPv6 extension headers are walked (hop-by-hop options first only, routing, destination options, fragment,
//!   authentication), at most eight. A packet with more, or with a header that ends behind the packet, has neither
//!   protocol nor transport header.
//! - An IPv4 or IPv6 header with the wrong version, or an IPv4 header length below 20 or behind the end of the
//!   packet, likewise has neither. Addresses are compared without looking at the version.
//! - Length fields inside headers are not looked at, nor are checksums: the bytes compared are those of the frame.
//!
//! No I/O here, no unsafe code, no clock: text and bytes in, instructions and answers out.
#![forbid(unsafe_code)]

pub mod arrivals;
mod counters;
pub mod ebpf;
pub mod filter;
pub mod gate;
pub mod guard;
pub mod handler;
pub mod language;
pub mod layers;
pub mod limits;
pub mod literal;
mod mirror;
mod packet;
pub mod program;
pub mod rationed;
mod satisfy;
pub mod transmit;

pub use filter::{Conjunction, Filter, TooLarge};
pub use language::{Hosts, ParseError};
pub use literal::{Base, Literal, Test, Width};
pub use mirror::NoMirror;
pub use program::{
    Action, CompileError, Counter, EarlyDrop, Program, ProgramMaps, ReceiveRing, Rule,
    SlotCounters, compile, compile_classifier, dispatcher, stamping_dispatcher,
};
