//! The flows under way: found by their client's end, aged by how they stand, and never more than there is room for.
//!
//! A flow is a cache line of 64 bytes ([`Flow`]) in one large array, at a place that it keeps ([`FlowId`]). Packets from
//! clients find it by a hash of client and listener ([`index`]); packets from servers by the port that they are sent to,
//! which is an array's index ([`crate::ports`]), or, where servers see their clients, by a hash of client and server. Either
//! way a packet costs two reads of memory that may be far away.
//!
//! Flows of a [`Class`] are in a list in the order in which they were last seen, to the class's [`period`](Class::period): so
//! the first of a list is the next to be given up for its age, and the first to be given up for another, and nothing is ever
//! searched. A flow changes its place in a list once in a period at most, since that writes its neighbours too.
//!
//! It performs nothing: time is a number of seconds that the caller counts ([`Tick`]).

mod back;
mod entry;
pub mod index;
pub mod numbers;
pub mod state;
mod table;
#[cfg(test)]
mod tests;

pub use entry::{Begun, Flow, FlowId, Key, Marks, Tick};
pub use numbers::{End, Reset};
pub use state::{Class, State};
pub use table::FlowTable;
