//! `exos bench forward`: forwarders beside one another, the paper's Figure 7 redrawn (*Fast and Flexible*, section 7).
//!
//! | contender | |
//! |---|---|
//! | `nobody` | the client speaks to the server: what is left for a forwarder to lose |
//! | `exos` | `exos forward`, packet by packet in user space |
//! | `exos-cores` | `exos forward --cores 2`, in cells of their own beside `exos` on one core |
//! | `exos-kernel` | `exos forward --in-kernel`: connections that stand in the interface's driver |
//! | `exos-packet` | `exos forward --link packet:INTERFACE`, by packet sockets |
//! | `exos-packet-kernel` | the same with `--in-kernel` |
//! | `exos-xokd` | `exos forward --via xokd`, on a part of the interface that the daemon lends |
//! | `exos-splice` | `exos forward --splice`, joined sockets |
//! | `haproxy`, `nginx` | TCP mode and the stream module, with the settings that their documentation advises for speed |
//! | `nftables` | Linux's own address translation |
//!
//! Set-up: client, forwarder and server in three namespaces on a bridge. Who forwards has one core; client and server share the
//! other, so that a machine of two cores suffices. On the plain wire they are one program that turns to the one and then to
//! the other (the client of [`packets`](crate::stage::packets), with a server beside it), so that neither waits for the scheduler, and
//! that tells how long both were busy. On the offload wire, where a program of XDP that receives would have super-packets cut up,
//! they are wrk and `exos serve --sockets`.
//!
//! Cells `cores` compare two cores with one, on an offload wire with two queues. Client and server have the cores that are left, so
//! that a machine needs three; on one of two they share both, and a note says so.
//!
//! A frame is delivered in the time of who sends it, and an in-kernel forwarder works in that time alone: so what forwarding
//! costs is what both cores together need for a request more than without a forwarder, wherever it is done.
//!
//! `network` are the hosts, `contender` who forwards, `forwarding` one that runs; `load` is one load through it and `outcome`
//! what came of it; here are options and cells.

mod cell;
mod contender;
mod forwarding;
mod load;
mod network;
mod outcome;

pub use contender::Contender;
pub use outcome::{CellResults, Outcome, Run};

use crate::experiment::cells::{in_turn, measure_cells, some_cells};
use crate::report::{self, Document, Named, Results, Setting};
use crate::stage::args::all;
use crate::stage::process::available;
use crate::stage::request::{Connection, Size};
use crate::stage::web::{WebArgs, WebStage, until_answered, wrk};
use cell::Cell;
use exos_host::Result;
use exos_lab::WireKind;
use network::{Host, Network};
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// Options of `exos bench forward`.
#[derive(clap::Args, Clone, Debug)]
pub struct ForwardArgs {
    /// How servers are loaded, and how cells are chosen and told of.
    #[command(flatten)]
    pub web: WebArgs,
    /// Forwarders to measure, in this order, separated by commas; skips those not installed
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = all::<Contender>())]
    pub contenders: Vec<Contender>,
    /// Kinds of wire, separated by commas [default: plain,offload, with --quick plain]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub wire: Vec<WireKind>,
    /// Sizes of the documents in bytes, separated by commas; K is 1024 bytes, M 1024 K [default: 0,100,1K,10K,100K,1M,
    /// with --quick 100]
    #[arg(long, value_delimiter = ',')]
    pub sizes: Vec<Size>,
    /// Requests per second at which to measure latency; 0: do not measure it
    #[arg(long, default_value_t = 1000)]
    pub latency_rate: u32,
}

impl ForwardArgs {
    fn sizes(&self) -> Vec<Size> {
        const KIB: u64 = 1024;
        let all = [0, 100, KIB, 10 * KIB, 100 * KIB, KIB * KIB];
        self.web.sizes(&self.sizes, &all, &[100])
    }

    /// What several cores are measured with: the longest document that is a packet of its own, or the first.
    fn core_size(&self) -> Size {
        let sizes = self.sizes();
        let short = sizes.iter().filter(|size| size.bytes() <= 1024);
        *short.max_by_key(|size| size.bytes()).unwrap_or(&sizes[0])
    }

    fn wires(&self) -> &[WireKind] {
        match (&self.wire[..], self.web.quick) {
            ([], true) => &[WireKind::Plain],
            ([], false) => &[WireKind::Plain, WireKind::Offload],
            (wires, _) => wires,
        }
    }

    /// Everything, in order, wire after wire.
    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &wire in self.wires() {
            for &connection in &self.web.connection {
                let sizes = self.sizes().into_iter();
                cells.extend(sizes.map(|size| Cell::of(wire, connection, size)));
            }
            if wire == WireKind::Plain && self.latency_rate > 0 {
                let cell = Cell::of(wire, Connection::Persistent, self.sizes()[0]);
                let rate = Some(self.latency_rate);
                cells.push(Cell { rate, ..cell });
            }
        }
        // Quickly, where they are asked for.
        if !self.web.quick || !self.web.only.is_empty() {
            let connections = self.web.connection.iter();
            cells.extend(connections.map(|&connection| Cell {
                is_of_cores: true,
                ..Cell::of(WireKind::Offload, connection, self.core_size())
            }));
        }
        let is_measured = |cell: &Cell| self.contenders.iter().any(|who| who.is_in(cell));
        cells.retain(is_measured);
        cells.retain(|cell| self.web.wants(&cell.to_string()));
        cells
    }

    fn names(&self) -> Vec<String> {
        self.cells().iter().map(Cell::to_string).collect()
    }
}

/// Measures as asked, prints the table, and writes JSON and the page with figures.
pub fn run(args: &ForwardArgs) -> Result<ExitCode> {
    report::tell(&args.web, || args.names(), || measure(args))
}

/// Everything that a session measured: medians for people, all of it for programs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// The schema's name: `exos.bench.forward/1`.
    pub schema: &'static str,
    /// Where and how it measured; its servers are those that forward.
    #[serde(flatten)]
    pub setting: Setting,
    /// The core that the forwarder was pinned to.
    pub forwarder_core: usize,
    /// The core that client and server were pinned to.
    pub others_core: usize,
    /// What was measured, for each wire, kind of connection and size, and for latency.
    pub cases: Vec<CellResults>,
}

impl Results for Report {
    fn document(&self) -> Document {
        let about = ("exos bench forward", "Forwarders");
        let versions = Named::lines(&self.setting.servers);
        let sections = vec![outcome::section(&self.cases, &self.setting.series())];
        Document::of(about, &self.setting, versions, sections)
    }
}

/// Measures as asked.
pub fn measure(args: &ForwardArgs) -> Result<Report> {
    let cells = some_cells(args.cells())?;
    let web = &WebStage::new(&args.web, &args.sizes())?;
    let (named, left_out) = available(&args.contenders, |c| c.version(&web.program))?;
    if cells.iter().any(Cell::is_by_sockets) {
        wrk::find()?;
    }
    web.note_other_load()?;
    let contenders: Vec<Contender> = named.iter().map(|(contender, _)| *contender).collect();
    let (mut cases, mut setting) = (Vec::new(), None);
    let network_of = |cell: &Cell| (cell.wire, cell.queues());
    for cells in cells.chunk_by(|a, b| network_of(a) == network_of(b)) {
        let (wire, queues) = network_of(&cells[0]);
        let network = Network::make(&args.web.lab, wire, queues)?;
        let mut contenders = contenders.clone();
        contenders.retain(|who| who.is_in(&cells[0]));
        if setting.is_none() {
            let server = network.netns(Host::Server);
            setting = Some(web.setting(server, network.mtu()?, &named, &left_out)?);
        }
        let server = load::serve(web, &network, cells[0])?;
        cases.extend(measure_cells(web, cells, contenders.len(), |&cell| {
            Ok(vec![compare(web, &network, cell, &contenders)?])
        })?);
        server.map_or(Ok(()), |server| server.stop())?;
    }
    Ok(Report {
        schema: "exos.bench.forward/1",
        setting: Setting {
            notes: web.notes(),
            ..setting.expect("there is a cell")
        },
        forwarder_core: web.cores[0],
        others_core: web.cores[1],
        cases,
    })
}

/// Forwarders in turn.
fn compare(
    web: &WebStage,
    network: &Network,
    cell: Cell,
    contenders: &[Contender],
) -> Result<CellResults> {
    let run = |contender: Contender| {
        until_answered(|| {
            let run = load::run(web, network, cell, contender)?;
            Ok((u64::from(run.requests_per_sec > 0.0), run))
        })
    };
    let nothing = |_| Ok(());
    let (_, runs) = in_turn(web, cell, contenders, nothing, |(), who| run(*who))?;
    Ok(CellResults::of_runs(cell, contenders, runs))
}

#[cfg(test)]
mod tests;
