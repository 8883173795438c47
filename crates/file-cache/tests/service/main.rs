//! The file cache with real files and programs: what is shared, what does not change, and peers that do as they like.

#[allow(dead_code, reason = "its main function is the example's")]
#[path = "../../examples/own_policy.rs"]
mod own_policy;

mod apart;
mod bounds;
mod common;
mod hostile;
mod keeping;
mod lending;
mod serving;
mod snapshots;
mod users;
