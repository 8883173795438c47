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
//! | `lent` | bytes of another's pool for several threads of a process |
//! | `sums` | checksums that are remembered |
//! | `pipe` | aggregates from process to process |
//! | `memory` | mappings, and all unsafe code that has to do with them |
//! | `error`, `limits` | what can go wrong, and how much there can be |
//!
//! All of these belong to one thread, as `exos_buf`'s do, but for what is [lent](Lent). A thread that ends lets go of what it has sent and was not taken yet: of what it
//! has sent on of another's pool the bytes may be lost then, as when its process ends.
//!
//! # What a process has to see to
//!
//! - It ignores SIGPIPE, as programs in Rust do unless they ask for it: a bell is rung by writing, also to a peer that has ended.
//! - A child that it forks only executes another program or ends (`_exit`). The mappings are not there in the child, and its copies of
//!   descriptors keep peers from hearing of the parent's end until they are closed, which executing does.
//!
//! # Who has to trust whom
//!
//! For this crate to stay within bounds and not to panic nobody has to be trusted, whatever a peer writes into shared memory.
//!
//! A consumer that keeps buffers, or says that it does, keeps its share of a pool from the owner. If it says so of more it is a member no
//! longer, unless it goes on changing what it says while that is counted.
//!
//! A consumer that may let others in ([`Options::spares`]) is trusted with more. It is given what makes each of them a member, so it can be
//! these members itself and keep a share for each; and it can read and write the holds of those that it lets in, also afterwards: if it
//! clears them, bytes change while another has them.
//!
//! A producer can change the bytes of what it has handed on. A consumer that believes it will not ([`Trust::Trusted`]) gets no reference
//! to these bytes, since what a reference of Rust points to may not change: they are copied out, or looked at in blocks that are
//! ([`Slice::for_each_block`]). One that does not has them copied when it reads them from the pipe.

mod aggregate;
mod error;
mod lent;
pub mod limits;
mod memory;
mod pipe;
mod pool;
mod protocol;
mod slice;
mod sums;

pub use aggregate::Aggregate;
pub use error::{Error, Result};
pub use exos_wait::Counts;
pub use lent::{Lent, Loans};
pub use pipe::{LowWater, Options, Read, Receiver, Sender, Wait};
pub use pool::{Draft, Invitation, Pool, Reserved, Shape, Share, Trust, Usage};
pub use slice::{Bytes, Identity, Slice};
pub use sums::SumCache;
