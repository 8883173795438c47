//! One connection: its control block, what segments and time do to it, what leaves.

pub mod control_block;
pub mod info;
mod input;
mod marks;
mod output;
mod prediction;
mod text;
mod timeouts;
