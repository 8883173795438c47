//! `exos bench load`: load generators beside one another, the paper's Figure 6 redrawn (*Fast and Flexible*, section 6).
//!
//! | generator | |
//! |---|---|
//! | `exos` | `exos load` on a stack of its own, acknowledgements riding on what is sent next |
//! | `exos-unmerged` | the same, sending them by themselves |
//! | `exos-sockets` | the same clients on the kernel's sockets: the paper's baseline |
//! | `wrk`, `ab`, `httperf` | what people use, each with the settings that its documentation advises for speed |
//!
//! Set-up: the lab of `exos bench http`, on the plain wire: the server on one core, the generator on another. In each
//! run of a cell the generators take turns on a server that is started again for each, and the ratio of each run is
//! taken before the median over the runs. How busy both sides were is measured in the middle of each load: a generator
//! tells of a server only while it has time left itself.
//!
//! `generator` are the command lines, and `output` reads what they print; `httperf` is led by hand; `outcome` is what came of it; here are
//! options, cells and the session.

mod cell;
mod generator;
mod httperf;
mod outcome;
mod output;

pub use generator::Generator;
pub use outcome::{CellResults, Outcome, Run};

use crate::experiment::cells::{in_turn, measure_cells, outcomes_of, some_cells};
use crate::report::{self, Document, Named, Results, Setting};
use crate::stage::args::all;
use crate::stage::process::available as available_of;
use crate::stage::request::Size;
use crate::stage::web::{Server, Serving, WebArgs, WebStage, WireArgs};
use crate::stage::web::{available, packet_limit, whole};
use cell::Cell;
use exos_host::{Error, Result};
use exos_lab::{Guard, WireKind};
use outcome::Watched;
use output::Reported;
use schemars::JsonSchema;
use serde::Serialize;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// When a load is watched, as parts of the time that it takes: it has begun then, and is not about to end.
const WATCHED: [f64; 2] = [0.25, 0.75];

/// Options of `exos bench load`.
#[derive(clap::Args, Clone, Debug)]
pub struct LoadArgs {
    /// How servers are loaded, and how cells are chosen and told of.
    #[command(flatten)]
    pub web: WebArgs,
    /// Load generators to measure, in this order, separated by commas; skips those not installed
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = all::<Generator>())]
    pub generators: Vec<Generator>,
    /// Servers to load, separated by commas; skips those not installed
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Server::Exos, Server::Nginx])]
    pub servers: Vec<Server>,
    /// Sizes of the documents in bytes, separated by commas; K is 1024 bytes, M 1024 K [default: 0,100,1K,10K,100K, with
    /// --quick 100]
    #[arg(long, value_delimiter = ',')]
    pub sizes: Vec<Size>,
    /// How the wire is.
    #[command(flatten)]
    pub wire: WireArgs,
}

impl LoadArgs {
    fn sizes(&self) -> Vec<Size> {
        const KIB: u64 = 1024;
        let all = [0, 100, KIB, 10 * KIB, 100 * KIB];
        self.web.sizes(&self.sizes, &all, &[100])
    }

    /// Everything, in order.
    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &server in &self.servers {
            for &connection in &self.web.connection {
                cells.extend(self.sizes().into_iter().map(|size| Cell {
                    server,
                    connection,
                    size,
                }));
            }
        }
        cells.retain(|cell| self.web.wants(&cell.to_string()));
        cells
    }

    fn names(&self) -> Vec<String> {
        self.cells().iter().map(Cell::to_string).collect()
    }

    /// Says what cannot be measured, before anything is made.
    fn check(&self) -> Result<()> {
        if self.servers.iter().all(|server| server.is_for_sockets()) {
            return Ok(());
        }
        Err(Error::new(
            "exos-handlers and exos-kernel answer in the kernel, where generators on sockets do not hear it",
        )
        .mend("leave it out of --servers"))
    }
}

/// Measures as asked, prints the table, and writes JSON and the page with figures.
pub fn run(args: &LoadArgs) -> Result<ExitCode> {
    report::tell(&args.web, || args.names(), || measure(args))
}

/// Everything that a session measured: medians for people, all of it for programs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// The schema's name: `exos.bench.load/1`.
    pub schema: &'static str,
    /// Where and how it measured.
    #[serde(flatten)]
    pub setting: Setting,
    /// The core that the server was pinned to.
    pub server_core: usize,
    /// The core that the generator was pinned to.
    pub generator_core: usize,
    /// The generators, in the order of the results.
    pub generators: Vec<Named>,
    /// What was measured, for each server, kind of connection and size.
    pub cases: Vec<CellResults>,
}

impl Results for Report {
    fn document(&self) -> Document {
        let series: Vec<&str> = self.generators.iter().map(|g| g.name.as_str()).collect();
        let serves = |s: &Named| format!("{} serves: {}", s.name, s.version);
        let mut versions: Vec<String> = self.setting.servers.iter().map(serves).collect();
        versions.extend(Named::lines(&self.generators));
        let about = ("exos bench load", "Load generators");
        let sections = vec![outcome::section(&self.cases, &series)];
        Document::of(about, &self.setting, versions, sections)
    }
}

/// Measures as asked.
pub fn measure(args: &LoadArgs) -> Result<Report> {
    args.check()?;
    let cells = some_cells(args.cells())?;
    let web = WebStage::new(&args.web, &args.sizes())?.with_wire(args.wire);
    let (servers, mut left_out) = available(&args.servers, &web.program)?;
    let (named, others) = available_of(&args.generators, |g| g.version(&web.program))?;
    left_out.extend(others);
    web.note_other_load()?;
    let lab = web.lab(WireKind::Plain)?;
    let setting = web.setting_of(&lab, &servers, &left_out)?;
    let is_there = |cell: &Cell| servers.iter().any(|(server, _)| *server == cell.server);
    let cells: Vec<Cell> = cells.into_iter().filter(is_there).collect();
    let generators: Vec<Generator> = named.iter().map(|(generator, _)| *generator).collect();
    let cases = measure_cells(&web, &cells, generators.len(), |&cell| {
        let limit = |_| packet_limit(&web, &lab, cell.connection, cell.size);
        let (limits, runs) = in_turn(&web, cell, &generators, limit, |limit, generator| {
            load(&web, &lab, cell, *generator, limit.per_sec)
        })?;
        let results = outcomes_of(&generators, runs, Generator::to_string);
        Ok(vec![CellResults::new(cell, &limits, results)])
    })?;
    Ok(Report {
        schema: "exos.bench.load/1",
        setting: Setting {
            notes: web.notes(),
            ..setting
        },
        server_core: web.cores[0],
        generator_core: web.cores[1],
        generators: Named::all(&named),
        cases,
    })
}

/// Starts the server, has it loaded, and stops it.
fn load(web: &WebStage, lab: &Guard, cell: Cell, generator: Generator, limit: f64) -> Result<Run> {
    let command = match generator.command(web, lab, cell)? {
        Some(command) => command,
        None => after_a_try(web, lab, cell)?,
    };
    let serving = web.serve(lab, cell.server, cell.size)?;
    let mut started = web.start(&generator.to_string(), command, web.cores[1])?;
    let watched = watch(web, &serving)?;
    if started.running.check().is_err() {
        web.note(format!("{generator} was done before it had been watched for long enough ({cell}): it seems less busy than it was"));
    }
    let output = web.output_of(started, whole(web.seconds).into())?;
    let told = web.end(WireKind::Plain, serving)?;
    let seen = Reported::of(generator, &output, cell)?;
    // A server that polls tells itself how long it had something to do: of the time in which it was loaded.
    let busy_us = told["counters"]["busy_micros"].as_u64();
    let server_busy = busy_us.map(|us| (us as f64 / 1e6 / seen.seconds).min(1.0));
    Ok(Run::new(seen, watched, server_busy, limit))
}

/// httperf's command: what it manages is tried on a server of its own, whose time does not count.
fn after_a_try(web: &WebStage, lab: &Guard, cell: Cell) -> Result<Command> {
    let serving = web.serve(lab, cell.server, cell.size)?;
    let command = httperf::command(web, lab, cell)?;
    web.end(WireKind::Plain, serving)?;
    Ok(command)
}

/// What both cores do in the middle of a load.
fn watch(web: &WebStage, serving: &Serving<'_>) -> Result<Watched> {
    let part = |part: f64| Duration::from_secs_f64(part * web.seconds);
    std::thread::sleep(part(WATCHED[0]));
    let before = web.times(serving)?;
    std::thread::sleep(part(WATCHED[1] - WATCHED[0]));
    let used = web.times(serving)?.since(&before);
    Ok(Watched {
        generator: used.client.busy_share(),
        server: used.server.busy_share(),
    })
}

#[cfg(test)]
mod tests;
