//! What the connections of a stack share: memory for what they receive, answers that belong to none of them.

pub mod context;
pub mod memory;
pub mod reply;
