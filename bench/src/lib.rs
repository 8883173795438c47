//! `exos bench`: the papers' figures and tables, measured here beside peers.
//!
//! Three layers, each a folder:
//!
//! - [`stage`]: cores, processes, wires, servers and clients to compare with;
//! - [`experiment`]: what is measured, one after the other below;
//! - [`report`]: what came of it, from one list of columns as text and as a page, and as JSON (docs/reference/bench.md).
//!
//! Each experiment sets up all it needs on a lab wire of its own, runs ours and its peers in turn in the same
//! session, repeats, and reports medians.
//!
//! To add one, write a file in `experiment` with its options, its contenders, and a list of the figures that it measures
//! (`report::outcomes`, of which text, HTML and JSON come); then name it in `cli`.
//!
//! | experiment | |
//! |---|---|
//! | [`http`] | documents and pages of FastCGI, each request on a new connection or many on persistent ones, beside nginx and others |
//! | [`load`] | load generators beside one another |
//! | [`forward`] | forwarders beside one another |
//! | [`tcp`] | the stack beside Linux's under loss, delay and attack |
//! | [`sharing`] | what it costs to share an interface through the daemon, and who gets how much of it |
//! | [`sockets`] | unmodified programs by `exos run` beside themselves on the kernel's sockets |
//! | [`ash`] | handlers in the kernel beside programs and the kernel's sockets |
//! | [`link`] | what each way of sending frames carries and costs |
//! | [`iolite`] | bytes from process to process by shared buffers beside the kernel's pipes and sockets |
//! | [`cost`] | what a segment, a connection and a timer cost, in memory |

#![deny(unsafe_code)]

mod cli;
mod experiment;
mod limits;
mod report;
mod stage;

pub use cli::{BenchArgs, BenchCommand, run};
pub use experiment::{ash, cost, forward, http, iolite, link, load, sharing, sockets, tcp};
pub use report::Results;
pub use stage::process::find_program;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

/// The JSON of each experiment, by its command.
pub fn schemas() -> [(&'static str, Schema); 10] {
    fn of<R: JsonSchema>() -> Schema {
        let settings = SchemaSettings::default().for_serialize();
        settings.into_generator().into_root_schema_for::<R>()
    }
    [
        ("exos bench http", of::<http::Report>()),
        ("exos bench load", of::<load::Report>()),
        ("exos bench forward", of::<forward::Report>()),
        ("exos bench cost", of::<cost::Report>()),
        ("exos bench tcp", of::<tcp::Report>()),
        ("exos bench ash", of::<ash::Report>()),
        ("exos bench sockets", of::<sockets::Report>()),
        ("exos bench sharing", of::<sharing::Report>()),
        ("exos bench link", of::<link::Report>()),
        ("exos bench iolite", of::<iolite::Report>()),
    ]
}
