//! `exos bench http`: how many documents a second, at what cost, beside the servers that people use.
//!
//! | group | what is measured |
//! |---|---|
//! | `documents` | documents of several sizes as fast as they go, new connections and standing ones, beside the packet limit of the link |
//! | `latency` | how long requests take at half of nginx's highest rate |
//! | `specialisations` | what each specialisation is worth: the paper's Table 2 |
//! | `readers` | fast readers beside many slow ones: what is left to them, and what memory a slow one takes |
//! | `cores` | `exos serve` on two cores against one: what a request costs each of them |
//!
//! Set-up: a lab of its own; the server in namespace a on one core, the client in namespace b on another. Servers take
//! turns in each run of a cell, and the ratio of each run is taken before the median over the runs. Peers have the
//! address of the interface, 10.10.0.1. exos has 10.10.0.10, which the kernel of that namespace does not have and so
//! does not answer for. Every peer has the configuration that its documentation advises for speed (`bench/nginx`,
//! `bench/h2o`, `bench/lighttpd`).
//!
//! Clients are wrk, and where that is what limits, one that writes packets itself ([`packets`]). Who had no time left is
//! said with each result.
//!
//! `server` starts servers and `check` sees that they answer rightly; `session` is what all loads share and `load` is one;
//! `cases`, `specialisations`, `latency`, `readers`, `cores` and `limit` measure; `outcome` and `report` are what came of
//! it; `table` and `html` show it.

mod cases;
mod check;
mod cores;
pub(crate) mod documents;
mod html;
mod latency;
pub(crate) mod limit;
mod load;
mod options;
mod outcome;
mod packets;
mod readers;
mod report;
mod room;
mod room_options;
mod server;
mod session;
mod specialisations;
mod table;
pub(crate) mod wrk;

pub(crate) use check::{check_answer, get};
pub use cores::{CoresCase, CoresOutcome, CoresRun};
pub use documents::{Size, body};
pub(crate) use html::connections;
pub use latency::{LatencyCase, LatencyOutcome};
pub use limit::LimitCase;
pub use options::{Client, Connection, Group, HttpArgs};
pub use outcome::{Case, Outcome, Run};
pub(crate) use packets::Visited;
pub use packets::{PacketsArgs, PacketsRole, packets};
pub use readers::{ReadersCase, ReadersOutcome, ReadersRun};
pub use report::Report;
pub use room_options::RoomArgs;
pub(crate) use room_options::sizes_or;
pub use server::Server;
pub use specialisations::{Specialised, Worth};
pub use wrk::{Errors, LatencyUs, Measured};

use crate::report as output;
use exos_host::{Error, Result};
pub(crate) use room::{Room, Used};
pub(crate) use server::{Known, Serving, available};
use session::Session;
use std::process::ExitCode;

/// Measures as asked, prints the tables, and writes JSON and the page with figures.
pub fn run(args: &HttpArgs) -> Result<ExitCode> {
    if args.list {
        output::list(names(args))?;
        return Ok(ExitCode::SUCCESS);
    }
    let files = (args.json.as_deref(), args.html.as_deref());
    output::tell(files, || measure(args))?;
    Ok(ExitCode::SUCCESS)
}

fn names(args: &HttpArgs) -> Vec<String> {
    [
        cases::names(args),
        specialisations::names(args),
        latency::names(args),
        readers::names(args),
        cores::names(args),
    ]
    .concat()
}

/// Measures as asked.
pub fn measure(args: &HttpArgs) -> Result<Report> {
    args.check()?;
    if names(args).is_empty() {
        return Err(Error::new("no cell has such a name").mend("see --list"));
    }
    let session = Session::new(args)?;
    session.note_other_load()?;
    let mut setting = session.setting(
        &*session.lab(args.wire[0])?,
        &args.room,
        &session.servers,
        &session.left_out,
    )?;
    let (documents, limits) = cases::measure(&session)?;
    let specialisations = specialisations::measure(&session)?;
    let latency = latency::measure(&session)?;
    let readers = readers::measure(&session)?;
    let cores = cores::measure(&session)?;
    setting.notes = session.notes();
    Ok(Report {
        schema: "exos.bench.http/4",
        setting,
        server_core: session.cores[0],
        client_core: session.cores[1],
        limits,
        documents,
        latency,
        readers,
        specialisations,
        cores,
    })
}
