//! `exos serve`: the web server as a program on stacks of its own, one on each core.
//!
//! Three rooms, each on the ones before it: [`content`] is what is served, `cores` the loops that serve it, `command` the
//! command that reads options, sets all up, and ends it in order. What a loop does with its connections is in
//! [`crate::connections`].

mod command;
pub mod content;
mod cores;

pub use command::{ServeArgs, in_section, run};
