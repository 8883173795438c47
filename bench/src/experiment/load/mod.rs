//! `exos bench load`: load generators beside one another, the paper's Figure 6 redrawn (*Fast and Flexible*, section 6).
//!
//! | generator | |
//! |---|---|
//! | `exos` | `exos load` on a stack of its own, acknowledgements riding on what is sent next |
//! | `exos-unmerged` | the same, sending them by themselves |
//! | `exos-sockets` | the same clients on the kernel's sockets: the paper's baseline |
//! | `wrk`, `ab`, `httperf`, `h2load` | what people use, each with the settings that its documentation advises for speed |
//!
//! | group | |
//! |---|---|
//! | `http` | HTTP/1.1 in plain text, beside the packet limit of the link |
//! | `tls` | HTTP/1.1 over TLS: full and resumed handshakes, and standing connections |
//! | `http2` | HTTP/2, a hundred streams on each connection, in plain text and over TLS |
//!
//! Set-up: the lab of `exos bench http`, on the plain wire: the server on one core, the generator on another. In each
//! run of a cell the generators take turns on a server that is started again for each, and the ratio of each run is
//! taken before the median over the runs. How busy both sides were is measured in the middle of each load: a generator
//! tells of a server only while it has time left itself.
//!
//! `cell` says what there is, `generator` are the command lines, and `output` reads what they print; `httperf` is led by hand; `loaded` is one load;
//! `outcome` is what came of those in plain text, and `carriers` of the others; here are options and the session.

mod carriers;
mod cell;
mod generator;
mod httperf;
mod loaded;
mod outcome;
mod output;

pub use carriers::{CarrierOutcome, CarrierResults, CarrierRun};
pub use cell::Group;
pub use generator::Generator;
pub use outcome::{CellResults, Outcome, Run};

use crate::experiment::asked::{Asked, Carrier, Kind};
use crate::experiment::cells::{compare, in_turn, measure_cells, outcomes_of, some_cells};
use crate::report::{self, Document, Named, Results, Section, Setting};
use crate::stage::args::all;
use crate::stage::process::available as available_of;
use crate::stage::request::Size;
use crate::stage::web::{Server, WebArgs, WebStage, WireArgs};
use crate::stage::web::{available, packet_limit};
use cell::Cell;
use exos_host::{Error, Result};
use exos_lab::{Guard, WireKind};
use loaded::load;
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// What is asked for in handshakes and by HTTP/2, which takes next to nothing.
const SHORT: Size = Size::of_bytes(100);

/// Options of `exos bench load`.
#[derive(clap::Args, Clone, Debug)]
pub struct LoadArgs {
    /// How servers are loaded, and how cells are chosen and told of.
    #[command(flatten)]
    pub web: WebArgs,
    /// Groups to measure, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = all::<Group>())]
    pub groups: Vec<Group>,
    /// Load generators to measure, in this order, separated by commas; skips those not installed
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = all::<Generator>())]
    pub generators: Vec<Generator>,
    /// Servers to load, separated by commas; skips those not installed. Over TLS and by HTTP/2 only those of exos, since others would be the
    /// limit
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Server::Exos, Server::Nginx])]
    pub servers: Vec<Server>,
    /// Sizes of the documents in bytes, separated by commas; K is 1024 bytes, M 1024 K [default: 0,100,1K,10K,100K, with
    /// --quick 100; over TLS on standing connections 100,1K,100K, with --quick 100]. Handshakes and HTTP/2 are measured with 100 bytes
    #[arg(long, value_delimiter = ',')]
    pub sizes: Vec<Size>,
    /// How the wire is.
    #[command(flatten)]
    pub wire: WireArgs,
}

impl LoadArgs {
    /// Of plain text, and of standing connections over TLS.
    fn sizes(&self) -> [Vec<Size>; 2] {
        const KIB: u64 = 1024;
        let plain = [0, 100, KIB, 10 * KIB, 100 * KIB];
        let tls = [100, KIB, 100 * KIB];
        [&plain[..], &tls].map(|all| self.web.sizes(&self.sizes, all, &[100]))
    }

    /// All documents.
    fn documents(&self) -> Vec<Size> {
        [self.sizes().concat(), vec![SHORT]].concat()
    }

    /// In which ways of a group servers are asked, and for what.
    fn asked(&self, group: Group) -> Vec<(Asked, Vec<Size>)> {
        let [plain, tls] = self.sizes();
        let all = match group {
            Group::Http => {
                let connections = self.web.connection.iter();
                connections
                    .map(|&connection| (Asked::Plain(connection), plain.clone()))
                    .collect()
            }
            Group::Tls => vec![
                (Asked::Tls(Kind::Full), vec![SHORT]),
                (Asked::Tls(Kind::Resumed), vec![SHORT]),
                (Asked::Tls(Kind::Persistent), tls),
            ],
            Group::Http2 => [Carrier::Plain, Carrier::Tls]
                .map(|carrier| (Asked::Http2(carrier), vec![SHORT]))
                .into(),
        };
        let is_asked = |(asked, _): &(Asked, _)| self.web.connection.contains(&asked.connection());
        all.into_iter().filter(is_asked).collect()
    }

    /// Everything, in order.
    fn cells(&self) -> Vec<Cell> {
        let groups = [Group::Http, Group::Tls, Group::Http2].into_iter();
        let groups = groups.filter(|group| self.groups.contains(group));
        let asked: Vec<_> = groups.flat_map(|group| self.asked(group)).collect();
        let mut cells = Vec::new();
        for &server in &self.servers {
            for (asked, sizes) in &asked {
                cells.extend(sizes.iter().map(|&size| Cell {
                    server,
                    asked: *asked,
                    size,
                }));
            }
        }
        cells.retain(|cell| cell.is_possible() && self.web.wants(&cell.to_string()));
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
    /// What was measured in plain text, for each server, kind of connection and size.
    pub cases: Vec<CellResults>,
    /// What was measured over TLS and by HTTP/2, for each server, way of asking and size.
    pub carriers: Vec<CarrierResults>,
}

impl Results for Report {
    fn document(&self) -> Document {
        let series: Vec<&str> = self.generators.iter().map(|g| g.name.as_str()).collect();
        let serves = |s: &Named| format!("{} serves: {}", s.name, s.version);
        let mut versions: Vec<String> = self.setting.servers.iter().map(serves).collect();
        versions.extend(Named::lines(&self.generators));
        let about = ("exos bench load", "Load generators");
        let sections = vec![
            outcome::section(&self.cases, &series),
            Section::of("Over TLS and by HTTP/2", carriers::NOTE, &self.carriers),
        ];
        Document::of(about, &self.setting, versions, sections)
    }
}

/// Measures as asked.
pub fn measure(args: &LoadArgs) -> Result<Report> {
    args.check()?;
    let cells = some_cells(args.cells())?;
    let web = WebStage::new(&args.web, &args.documents())?.with_wire(args.wire);
    let (servers, mut left_out) = available(&args.servers, &web.program)?;
    let (named, others) = available_of(&args.generators, |g| g.version(&web.program))?;
    left_out.extend(others);
    web.note_other_load()?;
    let lab = web.lab(WireKind::Plain)?;
    let setting = web.setting_of(&lab, &servers, &left_out)?;
    let is_there = |cell: &Cell| servers.iter().any(|(server, _)| *server == cell.server);
    let cells = cells.into_iter().filter(is_there);
    let (plain, carried): (Vec<Cell>, Vec<Cell>) =
        cells.partition(|cell| matches!(cell.asked, Asked::Plain(_)));
    let generators: Vec<Generator> = named.iter().map(|(generator, _)| *generator).collect();
    let cases = in_plain_text(&web, &lab, &plain, &generators)?;
    let carriers = by_carriers(&web, &lab, &carried, &generators)?;
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
        carriers,
    })
}

/// Those of some that can ask so.
fn that_ask(generators: &[Generator], how: Asked) -> Vec<Generator> {
    let generators = generators.iter().copied();
    generators.filter(|one| one.asks(how)).collect()
}

/// Measures in plain text, beside the packet limit.
fn in_plain_text(
    web: &WebStage,
    lab: &Guard,
    cells: &[Cell],
    generators: &[Generator],
) -> Result<Vec<CellResults>> {
    measure_cells(web, cells, generators.len(), |&cell| {
        let generators = that_ask(generators, cell.asked);
        let limit = |_| packet_limit(web, lab, cell.asked.connection(), cell.size);
        let (limits, runs) = in_turn(web, cell, &generators, limit, |limit, generator| {
            Ok(Run::new(&load(web, lab, cell, *generator)?, limit.per_sec))
        })?;
        let results = outcomes_of(&generators, runs, Generator::to_string);
        Ok(vec![CellResults::new(cell, &limits, results)])
    })
}

/// Measures over TLS and by HTTP/2.
fn by_carriers(
    web: &WebStage,
    lab: &Guard,
    cells: &[Cell],
    generators: &[Generator],
) -> Result<Vec<CarrierResults>> {
    measure_cells(web, cells, generators.len(), |&cell| {
        let generators = that_ask(generators, cell.asked);
        let run = |generator: &Generator| {
            let loaded = load(web, lab, cell, *generator)?;
            CarrierRun::new(&loaded, cell, web.connections)
        };
        let results = compare(web, cell, &generators, Generator::to_string, run)?;
        Ok(vec![CarrierResults::new(cell, web.connections, results)])
    })
}

#[cfg(test)]
mod tests;
