//! What the connections of a stack share: room for them, memory for what they receive, answers that belong to none of them.

pub mod context;
pub mod memory;
pub mod reply;
pub mod room;
