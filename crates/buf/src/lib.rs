//! Immutable buffers, slices of them, and their cached checksums.
//!
//! Payload is written once and then only referred to: a document, a response head or a datagram
//! is a [`Buffer`]; a part of one is a [`Slice`], which costs a reference count; what a
//! connection still has to have acknowledged is an [`Aggregate`], an ordered list of slices
//! (IO-Lite, section 3.1). The file cache, the retransmission queue and the packet being sent
//! all hold the same bytes.
//!
//! Because the bytes never change, their Internet checksum is computed once for the whole buffer
//! and the checksum of any segment follows from it (IO-Lite, section 3.9), see [`buffer`].
//!
//! What is sent once and is short lies in buffers that are written [again](Recycled) when nobody refers to them.
//!
//! All of these belong to one thread: reference counts are not atomic. What several threads send is
//! [`SharedBytes`], of which each makes a buffer of its own. They may lie in memory that another process can write ([`Foreign`]).

#![forbid(unsafe_code)]

pub mod aggregate;
pub mod buffer;
mod foreign;
pub mod limits;
mod recycled;
pub mod shared;
pub mod slice;
mod sums;

pub use aggregate::Aggregate;
pub use buffer::Buffer;
pub use foreign::Foreign;
pub use recycled::Recycled;
pub use shared::SharedBytes;
pub use slice::Slice;
