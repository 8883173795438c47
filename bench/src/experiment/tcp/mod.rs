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
//! Each group is a file, with its cells and its figures. `args` and `session` are what all groups are given, `peer` is
//! Linux's side; `syns` and `clients` are who floods, and who is served meanwhile.

mod args;
mod bulk;
mod clients;
mod fair;
mod flood;
mod peer;
mod session;
mod syns;
mod wire;

pub use args::{Group, TcpArgs};
pub use bulk::{Bulk, Outcome, Retransmissions, Run};
pub use clients::Phase;
pub(crate) use clients::{Clients, Echo};
pub use fair::Fair;
pub use flood::Flood;
pub(crate) use peer::{Connector, Listener, Role};
pub(crate) use syns::Syns;
pub use wire::Wire;

use session::Session;

use crate::report::{self, Document, Environment, Results, Section};
use crate::stage::Stage;
use exos_host::Result;
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// The names of all cells that were asked for.
fn names(args: &TcpArgs) -> Vec<String> {
    let mut names: Vec<String> = wire::CELLS.map(str::to_owned).to_vec();
    names.extend(flood::CELLS.map(str::to_owned));
    names.extend(fair::PAIRS.map(|pair| pair.to_string()));
    names.extend(bulk::cells(args).iter().map(ToString::to_string));
    names
}

/// Measures as asked, prints the table, and writes JSON and the page.
pub fn run(args: &TcpArgs) -> Result<ExitCode> {
    report::tell(&args.common, || names(args), || measure(args))
}

/// Everything that a session measured. Goodput is data that arrived, without headers and repetitions; a Mbit is 1,000,000 bits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Where and how it measured.
    #[serde(flatten)]
    pub environment: Environment,
    /// Congestion control of our stack where it sends bulk data; Linux's is CUBIC.
    pub exos_congestion_control: String,
    /// Rate of the emulated link in cells of goodput; 0: no limit.
    pub rate_mbit_per_sec: u64,
    /// The plain wire, used in several ways.
    pub wire: Vec<Wire>,
    /// The flood, of each server.
    pub flood: Vec<Flood>,
    /// Two flows.
    pub fair: Vec<Fair>,
    /// Goodput.
    pub bulk: Vec<Bulk>,
}

impl Results for Report {
    fn document(&self) -> Document {
        let control = match self.exos_congestion_control.as_str() {
            "cubic" => "CUBIC".to_owned(),
            ours => format!("exos with {ours}, Linux with CUBIC"),
        };
        let (rate, below) = (self.rate_mbit_per_sec, bulk::below(&self.bulk));
        Document {
            command: "exos bench tcp",
            title: "TCP beside Linux's",
            lines: vec![self.environment.line()],
            sections: vec![
                Section::of(
                    "The plain wire, MTU 1500, no losses",
                    wire::NOTE,
                    &self.wire,
                ),
                Section::of("A SYN flood", flood::NOTE, &self.flood),
                Section::of(
                    format!("Two flows through 100 Mbit/s, 20 ms, a queue of 250 kB, {control}"),
                    "",
                    &self.fair,
                ),
                Section::of(
                    format!("Goodput in Mbit/s, {control}, a link of {rate} Mbit/s; {below}"),
                    bulk::NOTE,
                    &self.bulk,
                ),
            ],
            remarks: self.environment.remarks(),
        }
    }
}

/// Measures as asked.
pub fn measure(args: &TcpArgs) -> Result<Report> {
    let session = Session {
        args,
        stage: Stage::new(&args.common, args.common.runs(3))?,
    };
    session.note_other_load()?;
    let wire = wire::measure(&session)?;
    let flood = flood::measure(&session)?;
    let fair = fair::measure(&session)?;
    let bulk = bulk::measure(&session)?;
    Ok(Report {
        environment: Environment::of(&session, args.seconds())?,
        exos_congestion_control: args.ours.clone(),
        rate_mbit_per_sec: args.rate,
        wire,
        flood,
        fair,
        bulk,
    })
}

#[cfg(test)]
mod tests;
