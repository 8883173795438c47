//! The status pages: what the server says about itself to those who may know.
//!
//! | path | what |
//! |---|---|
//! | `PATH` | a page for people, which needs no scripts |
//! | `PATH/metrics` | the same for Prometheus |
//! | `PATH/status.json` | the same for programs: what `--json` prints |
//!
//! The loop brings a [`Snapshot`] when one is due ([`StatusPages::is_due`]), at most one each second; pages are made of
//! it when they are asked for, once for each snapshot. Anyone who is not allowed is told that there is nothing.
//!
//! [`allowed`] says who may see them, [`snapshot`] what is known, [`page`] and [`metrics`] how it looks.

pub mod allowed;
mod args;
mod metrics;
mod page;
mod pages;
pub mod snapshot;

pub use allowed::Allowed;
pub use args::{StatusArgs, parse_path};
pub use pages::StatusPages;
pub use snapshot::{Rates, Row, Snapshot, Statistics};
