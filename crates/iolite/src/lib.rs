//! Immutable buffers that processes share, after *IO-Lite* (Pai, Druschel, Zwaenepoel, OSDI 1999).
//!
//! A process writes bytes once, into a buffer of its [`Pool`], and passes them to others by reference, through a pipe
//! ([`Sender`], [`Receiver`]): as [`Slice`]s of buffers in an [`Aggregate`]. They are in one place, which the owner of the pool alone can
//! write and its members read; a buffer is used again when nobody has it.
//!
//! | file | job |
//! |---|---|
//! | `protocol` | when nobody has a buffer, whichever process ends at whichever moment: read this first |
//! | `pool` | buffers and drafts; the owner's side and a member's |
//! | `slice`, `aggregate` | bytes by reference, and the paper's operations on lists of them |
//! | `sums` | checksums that are remembered |
//! | `pipe` | aggregates from process to process |
//! | `memory` | mappings, and all unsafe code that has to do with them |
//! | `error`, `limits` | what can go wrong, and how much there can be |
//!
//! All of these belong to one thread, as `exos_buf`'s do.
//!
//! # Who has to trust whom
//!
//! Nobody, for anything but bytes: whatever a peer writes into shared memory, this crate reads within bounds and does not panic. A consumer
//! that keeps buffers, or says that it does, keeps its share of a pool from its owner and no more. A producer can change the bytes of what it
//! has handed on. A consumer that believes it will not ([`Trust::Trusted`]) gets no reference to these bytes, for Rust
//! could not bear it if they changed: they are copied out, or looked at in blocks that are ([`Slice::for_each_block`]). One that does not
//! has them copied when it reads them from the pipe.

mod aggregate;
mod error;
pub mod limits;
mod memory;
mod pipe;
mod pool;
mod protocol;
mod slice;
mod sums;

pub use aggregate::Aggregate;
pub use error::{Error, Result};
pub use pipe::{Options, Read, Receiver, Sender, Wait};
pub use pool::{Draft, Invitation, Pool, Shape, Trust, Usage};
pub use slice::{Bytes, Identity, Slice};
pub use sums::SumCache;
