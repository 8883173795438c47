//! `exos bench http`: how many documents a second, at what cost, beside the servers that people use.
//!
//! | group | what is measured |
//! |---|---|
//! | `documents` | documents of several sizes as fast as they go, new connections and standing ones, beside the packet limit of the link |
//! | `latency` | how long requests take at half of nginx's highest rate |
//! | `specialisations` | what each specialisation is worth: the paper's Table 2 |
//! | `readers` | fast readers beside many slow ones: what is left to them, and what memory a slow one takes |
//! | `log` | requests of a log for more documents than fit into memory, which is bounded |
//! | `wide` | many connections over long round trips, with bounded memory: the rate, and what memory each takes |
//! | `cores` | `exos serve` on two cores against one: what a request costs each of them |
//! | `fastcgi` | pages that a FastCGI application makes, behind `exos serve` and behind nginx |
//! | `tls` | documents over TLS: full and resumed handshakes, and standing connections |
//! | `http2` | documents over HTTP/2: a hundred streams on each connection, in plain text and over TLS |
//! | `http3` | documents over HTTP/3, short and long |
//! | `proxy` | requests that are passed on to an upstream, in plain text and over TLS |
//!
//! Set-up: a lab of its own; the server in namespace a on one core, the client in namespace b on another. Servers take
//! turns in each run of a cell, and the ratio of each run is taken before the median over the runs. Peers have the
//! address of the interface, 10.10.0.1. exos has 10.10.0.10, which the kernel of that namespace does not have and so
//! does not answer for; nginx by `exos run` has that too. Every peer has the configuration that its documentation advises for speed (`bench/nginx`,
//! `bench/h2o`, `bench/lighttpd`).
//!
//! Clients are wrk, and where that is what limits, one that writes packets itself
//! ([`packets`](crate::stage::packets)). Who had no time left is said with each result.
//!
//! Each group is a file, with its cells and its figures; `load` is one load of one server, which two of them make,
//! and `args` and `session` are what all of them are given.

mod args;
mod bounded;
mod bounded_run;
mod carriers;
mod cores;
mod documents;
mod fastcgi;
mod latency;
mod load;
mod log;
mod proxy;
mod readers;
mod session;
mod specialisations;

pub use crate::experiment::asked::{Carrier, Kind};
pub use args::{Client, Group, HttpArgs};
pub use bounded::{Bounded, BoundedOutcome, BoundedRun};
pub use carriers::{CarrierOutcome, CarrierResults, CarrierRun, Loader};
pub use cores::{CoresOutcome, CoresResults, CoresRun};
pub use documents::{Documents, Limit};
pub use fastcgi::{Fastcgi, FastcgiOutcome, FastcgiRun};
pub use latency::{Latency, LatencyOutcome};
pub use load::{CoreUse, Loaded, Outcome, Run};
pub use proxy::Proxying;
pub use readers::{Readers, ReadersOutcome, ReadersRun};
pub use specialisations::{Specialised, Worth};

use session::Session;

use crate::experiment::cells::some_cells;
use crate::report::{self, Document, Named, Results, Section, Setting};
use crate::stage::web::{WebStage, available, wrk};
use exos_host::Result;
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// Groups that are measured alike.
const BOUNDED: [Group; 2] = [Group::Log, Group::Wide];
const CARRIERS: [Group; 3] = [Group::Tls, Group::Http2, Group::Http3];

/// The names of all cells that were asked for.
fn names(args: &HttpArgs) -> Vec<String> {
    let mut names = documents::names(args);
    names.extend(specialisations::cells(args).iter().map(ToString::to_string));
    names.extend(latency::cells(args).iter().map(ToString::to_string));
    names.extend(readers::cells(args).iter().map(ToString::to_string));
    for group in BOUNDED {
        names.extend(bounded::cells(args, group).iter().map(ToString::to_string));
    }
    names.extend(cores::cells(args).iter().map(ToString::to_string));
    names.extend(fastcgi::cells(args).iter().map(ToString::to_string));
    for group in CARRIERS {
        names.extend(carriers::cells(args, group).iter().map(ToString::to_string));
    }
    names.extend(proxy::cells(args).iter().map(ToString::to_string));
    names
}

/// Measures as asked, prints the tables, and writes JSON and the page with figures.
pub fn run(args: &HttpArgs) -> Result<ExitCode> {
    report::tell(args, || names(args), || measure(args))
}

/// Everything that a session measured: medians for people, all of it for programs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// The schema's name: `exos.bench.http/8`.
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
    /// Requests of a log for more documents than fit into memory, for each size of these.
    pub log: Vec<Bounded>,
    /// Answers over long round trips, for each of these, of one document and of those of a log.
    pub wide: Vec<Bounded>,
    /// What each specialisation is worth, for each client, wire, kind of connection and size.
    pub specialisations: Vec<Specialised>,
    /// The server on two cores against one, for each client and kind of connection.
    pub cores: Vec<CoresResults>,
    /// Pages that a FastCGI application makes, for each application, kind of connection and size.
    pub fastcgi: Vec<Fastcgi>,
    /// Documents over TLS, for each kind of handshake and size.
    pub tls: Vec<CarrierResults>,
    /// Documents over HTTP/2, for each client and carrier.
    pub http2: Vec<CarrierResults>,
    /// Documents over HTTP/3, for each size.
    pub http3: Vec<CarrierResults>,
    /// Requests that are passed on to an upstream, for each carrier, kind of connection and size.
    pub proxy: Vec<Proxying>,
}

impl Results for Report {
    fn document(&self) -> Document {
        let sections = vec![
            documents::section(&self.documents, &self.limits, &self.setting.series()),
            Section::of("Packet limit", documents::LIMITS_NOTE, &self.limits),
            specialisations::section(&self.specialisations),
            latency::section(&self.latency, &self.setting.series()),
            Section::of("Slow readers", readers::NOTE, &self.readers),
            bounded::section(Group::Log, &self.log),
            bounded::section(Group::Wide, &self.wide),
            Section::of("Two cores against one", cores::NOTE, &self.cores),
            Section::of(
                "Pages of FastCGI applications",
                fastcgi::NOTE,
                &self.fastcgi,
            ),
            Section::of("Documents over TLS", carriers::note(Group::Tls), &self.tls),
            Section::of(
                "Documents over HTTP/2",
                carriers::note(Group::Http2),
                &self.http2,
            ),
            Section::of(
                "Documents over HTTP/3",
                carriers::note(Group::Http3),
                &self.http3,
            ),
            Section::of("Requests that are passed on", proxy::NOTE, &self.proxy),
        ];
        let versions = Named::lines(&self.setting.servers);
        let about = ("exos bench http", "Documents over HTTP");
        Document::of(about, &self.setting, versions, sections)
    }
}

/// Measures as asked.
pub fn measure(args: &HttpArgs) -> Result<Report> {
    some_cells(names(args))?;
    let sizes = [
        documents::sizes(args),
        specialisations::sizes(args),
        vec![
            latency::DOCUMENT,
            readers::FAST,
            readers::SLOW,
            bounded::DOCUMENT,
        ],
        fastcgi::sizes(),
        carriers::sizes(),
        proxy::sizes(),
    ];
    let web = WebStage::new(args, &sizes.concat())?.with_wire(args.wire_args);
    let (servers, mut left_out) = available(&args.servers, &web.program)?;
    let (applications, missing) = fastcgi::available(args, &web.program);
    left_out.extend(missing);
    let (http3, missing) = carriers::with_http3(args, &servers);
    left_out.extend(missing);
    if args.clients.contains(&Client::Wrk) {
        wrk::find()?;
    }
    web.note_other_load()?;
    let setting = web.setting_of(&*web.lab(args.wire[0])?, &servers, &left_out)?;
    let servers = servers.into_iter().map(|(server, _)| server);
    let session = &Session {
        args,
        all: servers.clone().collect(),
        servers: servers.filter(|server| server.serves_files()).collect(),
        http3,
        applications,
        memory: bounded::memory(args, |note| web.note(note)),
        web,
    };
    let (documents, limits) = documents::measure(session)?;
    Ok(Report {
        schema: "exos.bench.http/8",
        specialisations: specialisations::measure(session)?,
        latency: latency::measure(session)?,
        readers: readers::measure(session)?,
        log: bounded::measure(session, Group::Log)?,
        wide: bounded::measure(session, Group::Wide)?,
        cores: cores::measure(session)?,
        fastcgi: fastcgi::measure(session)?,
        tls: carriers::measure(session, Group::Tls)?,
        http2: carriers::measure(session, Group::Http2)?,
        http3: carriers::measure(session, Group::Http3)?,
        proxy: proxy::measure(session)?,
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
