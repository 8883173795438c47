//! All connections of one stack, driven together. From the bottom: [`tcp`] is what they are made of, `lookup` finds one and
//! keeps a new one, `ending` lets one go; `passive`, `time_wait` and `syn_offload` say what becomes of segments that belong to
//! none; `arrival` takes segments in, `turns` sees to time, news and output, `commands` are the program's, `handover` moves
//! connections to other stacks, `listing` says which there are, `taking_on` takes those that a program
//! in the kernel had.

mod arrival;
mod commands;
mod ending;
mod handover;
pub mod listing;
mod lookup;
mod passive;
mod syn_offload;
pub mod taking_on;
pub mod tcp;
mod time_wait;
mod turns;
