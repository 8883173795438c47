//! Where connections live and how they are found: slots, the index of four-tuples, queues of those with work, memory, TIME-WAIT.

mod delivery;
pub mod flow;
pub(in crate::tcp) mod id;
pub(in crate::tcp) mod index;
pub(in crate::tcp) mod lookup;
pub mod memory;
pub(in crate::tcp) mod pruning;
pub(in crate::tcp) mod queues;
pub(in crate::tcp) mod slab;
pub mod time_wait;
