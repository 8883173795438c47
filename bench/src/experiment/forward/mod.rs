//! `exos bench forward`: forwarders beside one another, the paper's Figure 7 redrawn (*Fast and Flexible*, section 7).
//!
//! | contender | |
//! |---|---|
//! | `nobody` | the client speaks to the server: what is left for a forwarder to lose |
//! | `exos` | `exos forward`, packet by packet in user space |
//! | `exos-kernel` | `exos forward --in-kernel`: connections that stand in the interface's driver |
//! | `exos-xokd` | `exos forward --via xokd`, on a part of the interface that the daemon lends |
//! | `exos-splice` | `exos forward --splice`, joined sockets |
//! | `haproxy`, `nginx` | TCP mode and the stream module, with the settings that their documentation advises for speed |
//! | `nftables` | Linux's own address translation |
//!
//! Set-up: client, forwarder and server in three namespaces on a bridge. Who forwards has one core; client and server share the
//! other, so that a machine of two cores suffices. On the plain wire they are one program that turns to the one and then to
//! the other ([`http`](crate::experiment::http)'s client of packets, with a server beside it), so that neither waits for the scheduler, and
//! that tells how long both were busy. On the offload wire, where a program of XDP that receives would have super-packets cut up,
//! they are wrk and `exos serve --sockets`.
//!
//! A frame is delivered in the time of who sends it, and an in-kernel forwarder works in that time alone: so what forwarding
//! costs is what both cores together need for a request more than without a forwarder, wherever it is done.
//!
//! `options` is what may be chosen; `network` is the room, `contender` who is in it, `forwarding` one that runs; `session`
//! measures; `outcome` and `report` are what came of it; `table` and `html` show it.

mod contender;
mod forwarding;
mod html;
mod network;
mod options;
mod outcome;
mod report;
mod session;
mod table;

pub use contender::Contender;
pub use options::ForwardArgs;
pub use outcome::{Case, Outcome, Run};
pub use report::Report;

use crate::report as output;
use exos_host::{Error, Result};
use std::process::ExitCode;

/// Connections over which requests at a rate are spread: more than are under way at a time.
const RATE_CONNECTIONS: u32 = 16;

/// Measures as asked, prints the table, and writes JSON and the page with figures.
pub fn run(args: &ForwardArgs) -> Result<ExitCode> {
    if args.room.list {
        output::list(args.cells().iter().map(ToString::to_string).collect())?;
        return Ok(ExitCode::SUCCESS);
    }
    let files = (args.room.json.as_deref(), args.room.html.as_deref());
    output::tell(files, || measure(args))?;
    Ok(ExitCode::SUCCESS)
}

/// Measures as asked.
pub fn measure(args: &ForwardArgs) -> Result<Report> {
    args.check()?;
    if args.cells().is_empty() {
        return Err(Error::new("no cell has such a name").mend("see --list"));
    }
    session::measure(args)
}
