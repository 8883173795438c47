//! Who has this address: the neighbour cache, for ARP (RFC 826) and Neighbor Discovery (RFC 4861)
//! alike.
//!
//! The cache maps an on-link IP address to the MAC address that its frames go to. It performs
//! nothing: it says which solicitations to send ([`NeighborCache::poll_solicit`]) and takes what
//! was heard ([`NeighborCache::handle_answer`]); the stack turns the one into ARP requests or
//! neighbor solicitations and the other out of them. Rules of the interface:
//!
//! - Ask with [`NeighborCache::lookup`] before sending. `Known`: send. `Pending`: hand the complete
//!   frame to [`NeighborCache::queue`], it comes back from `handle_answer` with its destination
//!   written. `Unreachable`: the neighbour did not answer a moment ago; drop the packet and tell
//!   the one who sent it.
//! - A caller may keep a `Known` MAC for as long as [`NeighborCache::generation`] stands still. The
//!   generation moves when any MAC changes, vanishes or goes stale, so a keeper that asks again
//!   also tells the cache that the entry is in use.
//! - After any `handle_*`, drain `poll_solicit` (or `poll_unresolved`) and `poll_failed`.
//!
//! What ARP and Neighbor Discovery say is put into these words by `arp` and `ndp`, and their frames are written by `frames`;
//! `cache` decides, `table` holds the entries, `state` is the table of their states, `waiting` the frames of one.
//!
//! States are those of RFC 4861 §7.3.2 and one more, `Failed`, which keeps us from shouting for an
//! absent neighbour with every packet. Simplified from the RFC: reachable time is fixed and not
//! randomised, and the IsRouter flag is not kept. ARP is put in the same words: a reply to our
//! request is a solicited advertisement with the override flag, a gratuitous packet is an
//! unsolicited one, and a request for one of our addresses is a neighbor solicitation with a source
//! link-layer address.
//!
//! Invariants: only `Incomplete` entries hold frames, and `waiting` is what these cost; an entry is in `wanted` exactly when
//! its `asking` flag is set; `deadline_min` is never later than any entry's deadline.

pub(crate) mod arp;
mod cache;
pub(crate) mod frames;
mod heard;
pub(crate) mod ndp;
mod state;
mod table;
mod waiting;

pub use cache::{Lookup, NeighborCache, NeighborCounters, Solicit};
pub(crate) use heard::{Answer, Heard};
pub use state::{Evidence, State};
