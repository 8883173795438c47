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
//! `cases`, `specialisations`, `latency`, `readers`, `cores` and `limit` measure; `outcome`, `ratio` and `report` are what came of
//! it; `table` and `html` show it.

mod cases;
mod check;
mod cores;
mod documents;
mod html;
mod latency;
mod limit;
mod load;
mod options;
mod outcome;
mod packets;
mod ratio;
mod readers;
mod report;
mod server;
mod session;
mod specialisations;
mod table;
pub(crate) mod wrk;

pub use cores::{CoresCase, CoresOutcome, CoresRun};
pub use documents::{Size, body};
pub use latency::{LatencyCase, LatencyOutcome};
pub use limit::LimitCase;
pub use options::{Client, Connection, Group, HttpArgs};
pub use outcome::{Case, Outcome, Run};
pub use packets::{PacketsArgs, PacketsRole, packets};
pub use ratio::Ratio;
pub use readers::{ReadersCase, ReadersOutcome, ReadersRun};
pub use report::{Named, Report};
pub use server::Server;
pub use specialisations::{Specialised, Worth};
pub use wrk::{Errors, LatencyUs, Measured};

use crate::output;
use exos_host::{Error, Result, kernel};
use exos_lab::Side;
use session::Session;
use std::process::ExitCode;

/// Measures as asked, prints the tables, and writes JSON and the page with figures.
pub fn run(args: &HttpArgs) -> Result<ExitCode> {
    if args.list {
        output::list(names(args))?;
        return Ok(ExitCode::SUCCESS);
    }
    // Before the minutes of measuring: a file that cannot be written is told at once.
    let json = output::open(args.json.as_deref())?;
    let html = output::open(args.html.as_deref())?;
    let report = measure(args)?;
    output::write(json, &report.table(), &report.json())?;
    html.map_or(Ok(()), |html| html.write(&report.html()))?;
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
    let (mtu, congestion_control) = wire(&session)?;
    let (documents, limits) = cases::measure(&session)?;
    let specialisations = specialisations::measure(&session)?;
    let latency = latency::measure(&session)?;
    let readers = readers::measure(&session)?;
    let cores = cores::measure(&session)?;
    let named = |(server, version): &(Server, String)| Named {
        name: server.to_string(),
        version: version.clone(),
    };
    Ok(Report {
        schema: "exos.bench.http/4",
        kernel: kernel::release(),
        exos: session.version()?,
        congestion_control,
        mtu,
        connections: args.connections,
        runs: args.runs(),
        duration_secs: args.duration(),
        server_core: session.cores[0],
        client_core: session.cores[1],
        servers: session.servers.iter().map(named).collect(),
        left_out: session.left_out.clone(),
        notes: session.notes(),
        limits,
        documents,
        latency,
        readers,
        specialisations,
        cores,
    })
}

/// The wire's MTU, and the congestion control of the kernel's TCP on the server's side.
fn wire(session: &Session<'_>) -> Result<(u32, String)> {
    let lab = session.lab(session.args.wire[0])?;
    let control = "net/ipv4/tcp_congestion_control";
    Ok((lab.link(Side::A)?.mtu, lab.netns(Side::A).sysctl(control)?))
}
