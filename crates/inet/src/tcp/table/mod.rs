//! Where connections live and how they are found: slots, the index of four-tuples, queues of those with work, TIME-WAIT; and
//! what is kept of those that are gone.

pub mod index;
pub mod pruning;
pub mod queues;
pub mod records;
pub mod recycling;
pub mod silence;
pub mod slab;
pub mod time_wait;
