//! `exos bench`: the papers' figures and tables, measured here beside peers.
//!
//! Three layers: `stage` (cores, processes, the wire, and what they used of the machine), `experiment` (what is measured, a
//! folder for each), `report` (medians, ratios, where results go).
//!
//! Each experiment sets up all it needs on a lab wire of its own, runs ours and its peers in turn in the same
//! session, repeats, and reports medians as a table for people and as JSON (docs/json.md) for programs.
//!
//! `http`: static documents of several sizes, each request on a new connection or many on persistent ones, beside nginx
//! and others. `load`: load generators beside one another. `forward`: forwarders. `tcp`: the stack beside Linux's under loss, delay and attack. `sharing`: what it costs
//! to share an interface through the daemon, and who gets how much of it.

#![forbid(unsafe_code)]

mod cli;
mod experiment;
mod limits;
mod report;
mod stage;

pub use cli::{BenchArgs, BenchCommand, run};
pub use experiment::{cost, forward, http, load, sharing, tcp};
pub use report::Results;
