//! `exos bench tcp`: our TCP beside Linux's, on the same wire in the same session.
//!
//! | group | what is measured |
//! |---|---|
//! | `wire` | the plain wire without losses: the packet limit of the link, and what each stack makes of it |
//! | `flood` | SYNs at link rate: what becomes of connections that stand, and of new ones |
//! | `fair` | two flows through one bottleneck |
//! | `bulk` | goodput both ways at several round trips and losses, with and without reordering |
//!
//! Set-up: the stack that is measured is in namespace a on one core, its peer, always Linux's stack, in namespace b on
//! another; between them the wire of `exos lab`, plain or emulated. In each run of a cell the contenders take
//! turns with the same seed of losses, so that drift of the machine and luck meet all alike, and the ratio of
//! each run is taken before the median over the runs.
//!
//! What segments and connections cost without a wire is `exos bench cost`.
//!
//! [`peer`] is Linux's side, [`raw`] sends and counts plain frames, [`load`] is the clients beside a flood; `cells`
//! names the cells, `bulk`, `fair`, `wire` and `flood` measure, `report` shows.

mod bulk;
mod cells;
mod fair;
mod flood;
mod load;
mod options;
mod peer;
mod raw;
mod report;
mod session;
mod wire;

pub use flood::FloodCase;
pub use load::Phase;
pub use options::{Group, PeerArgs, RawArgs, RawRole, Role, TcpArgs};
pub use peer::peer;
pub use raw::raw;
pub use report::{Case, Outcome, Report, Run};
pub use wire::WireCase;

pub use bulk::Retransmissions;
pub use fair::FairCase;

use crate::report as output;
use exos_host::{Result, kernel};
use session::Session;
use std::process::ExitCode;

/// Measures as asked, prints the table, and writes the JSON.
pub fn run(args: &TcpArgs) -> Result<ExitCode> {
    if args.list {
        output::list(names(args))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::tell((args.json.as_deref(), None), || measure(args))?;
    Ok(ExitCode::SUCCESS)
}

fn names(args: &TcpArgs) -> Vec<String> {
    let mut names = [wire::names(), flood::names(), fair::names()].concat();
    names.extend(cells::all(args).into_iter().map(|cell| cell.name));
    names
}

/// Measures as asked.
pub fn measure(args: &TcpArgs) -> Result<Report> {
    args.check()?;
    let session = Session::new(args)?;
    session.note_other_load()?;
    let wire = wire::measure(&session)?;
    let flood = flood::measure(&session)?;
    let fair = fair::measure(&session)?;
    let bulk = bulk::measure(&session)?;
    Ok(Report {
        kernel: kernel::release(),
        exos: session.version()?,
        exos_congestion_control: args.ours.clone(),
        runs: args.runs(),
        seconds: args.seconds,
        rate_mbit_per_sec: args.rate,
        notes: session.notes(),
        wire,
        flood,
        fair,
        bulk,
    })
}
