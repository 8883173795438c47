//! The control socket: anyone who may open it asks a forwarder how it is, and changes its servers while it runs.
//!
//! A Unix socket, for its owner alone. A request is an object of JSON on a line, and so is its answer; `docs/reference/json.md` has the
//! fields. `request` is what can be asked, `apply` what it does, `server` who is connected, `client` the program
//! that asks (`exos forward ctl`).

mod apply;
mod client;
mod metrics;
mod request;
mod server;
mod table;

pub use apply::apply;
pub use client::{CtlArgs, run};
pub use metrics::text as metrics_text;
pub use request::{Answer, Fields, Kind, Request, answer, refuse};
pub use server::Server as ControlServer;
pub use table::status_text;
