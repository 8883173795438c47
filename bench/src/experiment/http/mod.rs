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
//! Clients are wrk, and where that is what limits, one that writes packets itself
//! ([`packets`](crate::stage::packets)). Who had no time left is said with each result.
//!
//! Each group is a file, with its cells, its results and its columns; `load` is one load of one server, which two of them make.

mod cores;
mod documents;
mod latency;
mod load;
mod readers;
mod specialisations;

pub use cores::{CoresCase, CoresOutcome, CoresRun};
pub use documents::{Documents, Limit};
pub use latency::{Latency, LatencyOutcome};
pub use load::{Client, Outcome, Run};
pub use readers::{Readers, ReadersOutcome, ReadersRun};
pub use specialisations::{Specialised, Worth};

use super::some_cells;
use crate::report::{self, Document, Named, Results, Section, Setting};
use crate::stage::web::{Server, Size, WebArgs, WebStage, available, wrk};
use exos_host::{Error, Result};
use exos_lab::WireKind;
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// Whom everybody is compared with in tables and figures.
const PEER: &str = "nginx";

/// Groups of cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Group {
    /// Documents of several sizes at full speed, compared with the packet limit of the link
    Documents,
    /// What each optimisation of exos serve is worth: without each one, without all, and on kernel sockets
    Specialisations,
    /// Latency at half of nginx's highest rate
    Latency,
    /// Fast clients next to many slow ones, and what the slow ones cost
    Readers,
    /// exos serve on two cores compared with one: what a request costs on each, and packets that arrive at the wrong
    /// core
    Cores,
}

/// Options of `exos bench http`.
#[derive(clap::Args, Clone, Debug)]
pub struct HttpArgs {
    /// How servers are loaded, and how cells are chosen and told of.
    #[command(flatten)]
    pub web: WebArgs,
    /// Groups to measure, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Group::Documents, Group::Specialisations, Group::Latency, Group::Readers, Group::Cores])]
    pub groups: Vec<Group>,
    /// Servers to measure, in this order, separated by commas; skips those not installed
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Server::ALL)]
    pub servers: Vec<Server>,
    /// Clients that load the servers, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Client::Wrk, Client::Packets])]
    pub clients: Vec<Client>,
    /// Sizes of the documents in bytes, separated by commas; K is 1024 bytes, M 1024 K [default:
    /// 0,100,1K,10K,100K,1M, with --quick 100,10K; of specialisations 0,100,1K,10K,100K, with --quick 100,100K]
    #[arg(long, value_delimiter = ',')]
    pub sizes: Vec<Size>,
    /// Numbers of slow clients, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [64, 1000, 4000])]
    pub readers: Vec<u32>,
    /// Kinds of wire, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [WireKind::Plain, WireKind::Offload])]
    pub wire: Vec<WireKind>,
}

/// Most slow readers: a server of the kernel's has a descriptor for each.
const READERS_MAX: u32 = 8000;

impl std::ops::Deref for HttpArgs {
    type Target = WebArgs;

    fn deref(&self) -> &WebArgs {
        &self.web
    }
}

impl HttpArgs {
    /// Of the cells of a group those that were asked for.
    fn wanted<C: ToString>(&self, group: Group, cells: impl IntoIterator<Item = C>) -> Vec<C> {
        let is_wanted = |cell: &C| self.groups.contains(&group) && self.wants(&cell.to_string());
        cells.into_iter().filter(is_wanted).collect()
    }

    fn names(&self) -> Vec<String> {
        let mut names = documents::names(self);
        names.extend(specialisations::cells(self).iter().map(ToString::to_string));
        names.extend(latency::cells(self).iter().map(ToString::to_string));
        names.extend(readers::cells(self).iter().map(ToString::to_string));
        names.extend(cores::cells(self).iter().map(ToString::to_string));
        names
    }

    /// Says what cannot be measured, before anything is made.
    fn check(&self) -> Result<()> {
        let is_empty = [
            self.servers.is_empty(),
            self.groups.is_empty(),
            self.clients.is_empty(),
            self.wire.is_empty(),
        ];
        if is_empty.contains(&true) {
            return Err(Error::new(
                "there is nothing to measure: give at least one group, server, client and wire",
            ));
        }
        self.web.check(&self.sizes)?;
        if self.readers.iter().any(|n| !(1..=READERS_MAX).contains(n)) {
            return Err(Error::new(format!(
                "--readers must be from 1 to {READERS_MAX}"
            )));
        }
        some_cells(self.names()).map(drop)
    }
}

/// Measures as asked, prints the tables, and writes JSON and the page with figures.
pub fn run(args: &HttpArgs) -> Result<ExitCode> {
    report::tell(args, || args.names(), || measure(args))
}

/// Everything that a session measured: medians for people, all of it for programs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// The schema's name: `exos.bench.http/4`.
    pub schema: &'static str,
    /// Where and how it measured.
    #[serde(flatten)]
    pub setting: Setting,
    /// The core that the server was pinned to.
    pub server_core: usize,
    /// The core that the client was pinned to.
    pub client_core: usize,
    /// The packet limit of the link, for each kind of connection and size on the plain wire.
    pub limits: Vec<Limit>,
    /// Documents as fast as they go, for each client, wire, kind of connection and size.
    pub documents: Vec<Documents>,
    /// Latency at a given rate, for each kind of connection.
    pub latency: Vec<Latency>,
    /// Fast readers beside slow ones, for each number of slow ones.
    pub readers: Vec<Readers>,
    /// What each specialisation is worth, for each client, wire, kind of connection and size.
    pub specialisations: Vec<Specialised>,
    /// The server on two cores against one, for each client and kind of connection.
    pub cores: Vec<CoresCase>,
}

impl Results for Report {
    fn document(&self) -> Document {
        let sections = vec![
            documents::section(self),
            Section::of("Packet limit", documents::LIMITS_NOTE, &self.limits),
            specialisations::section(&self.specialisations),
            latency::section(&self.latency, &self.setting.series()),
            Section::of("Slow readers", readers::NOTE, &self.readers),
            Section::of("Two cores against one", cores::NOTE, &self.cores),
        ];
        let versions = Named::lines(&self.setting.servers);
        let about = ("exos bench http", "Documents over HTTP");
        Document::of(about, &self.setting, versions, sections)
    }
}

/// A session: servers in a lab, with what each calls itself.
struct Session<'a> {
    args: &'a HttpArgs,
    web: WebStage,
    servers: Vec<Server>,
}

impl std::ops::Deref for Session<'_> {
    type Target = WebStage;

    fn deref(&self) -> &WebStage {
        &self.web
    }
}

/// Measures as asked.
pub fn measure(args: &HttpArgs) -> Result<Report> {
    args.check()?;
    let sizes = [
        documents::sizes(args),
        specialisations::sizes(args),
        vec![latency::DOCUMENT, readers::FAST, readers::SLOW],
    ];
    let web = WebStage::new(args, &sizes.concat())?;
    let (servers, left_out) = available(&args.servers, &web.program);
    if servers.is_empty() {
        return Err(Error::new(left_out.join("; ")));
    }
    if args.clients.contains(&Client::Wrk) {
        wrk::find()?;
    }
    web.note_other_load()?;
    let setting = web.setting(&*web.lab(args.wire[0])?, &servers, &left_out)?;
    let session = &Session {
        args,
        servers: servers.into_iter().map(|(server, _)| server).collect(),
        web,
    };
    let (documents, limits) = documents::measure(session)?;
    Ok(Report {
        schema: "exos.bench.http/4",
        specialisations: specialisations::measure(session)?,
        latency: latency::measure(session)?,
        readers: readers::measure(session)?,
        cores: cores::measure(session)?,
        // What was noted meanwhile is known now.
        setting: Setting {
            notes: session.notes(),
            ..setting
        },
        server_core: session.cores[0],
        client_core: session.cores[1],
        limits,
        documents,
    })
}

#[cfg(test)]
mod report_tests;
