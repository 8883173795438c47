//! Shared-memory rings with a producer and a consumer index.
//!
//! A ring is a power-of-two array of entries and two free-running 32-bit
//! counters: how many entries were ever produced and how many ever consumed.
//! One side owns the first counter and writes entries, the other owns the
//! second and reads them. The four rings of an AF_XDP socket are of this kind
//! (Linux, `Documentation/networking/af_xdp.rst`), and so is any ring that two
//! processes share.
//!
//! ```text
//!        consumed            produced
//!           v                   v
//! ... free | ready  ready  ready | free ...      ready = produced - consumed  (mod 2^32)
//! ```
//!
//! Rules of the interface:
//!
//! - Both ends work in batches. [`Producer::reserve`], [`Producer::write`] for
//!   each entry, one [`Producer::commit`]; [`Consumer::peek`],
//!   [`Consumer::read`] for each entry, one [`Consumer::release`]. The counter
//!   of the other side is read only when what is known of it does not suffice.
//! - **The peer's counter is input, not an invariant.** A value that no correct
//!   peer can have written is a [`PeerFault`], never an out-of-bounds access.
//!   Entries are input too: any bit pattern is a valid [`Plain`] value, and what
//!   it means is for the caller to check.
//! - **No Rust reference into the entries**, which another process may write at
//!   any time: they are copied in and out with volatile accesses, and ordered
//!   by acquire and release on the counters.
//!
//! This crate maps nothing and calls no kernel: anyone who maps the memory says
//! where it is by a [`RingMemory`].

mod consumer;
mod fault;
mod memory;
mod producer;

pub use consumer::Consumer;
pub use fault::PeerFault;
pub use memory::{Plain, RingMemory};
pub use producer::Producer;
