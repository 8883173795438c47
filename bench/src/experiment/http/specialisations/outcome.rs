//! What came of one cell.

use super::{ALL, Variant};
use crate::experiment::http::load::Load;
use crate::experiment::http::outcome::{Outcome, Run};
use crate::experiment::http::{Client, Connection};
use crate::report::Ratio;
use serde::Serialize;

/// One client, wire, kind of connection and size, with and without each specialisation.
#[derive(Clone, Debug, Serialize)]
pub struct Specialised {
    /// Its name.
    pub name: String,
    /// Who loaded the server.
    pub client: Client,
    /// The kind of wire: `plain` or `offload`.
    pub wire: String,
    /// How requests were spread over connections.
    pub connection: Connection,
    /// The size of the document in bytes.
    pub size_bytes: u64,
    /// What the server did, set up in each way.
    pub results: Vec<Outcome>,
    /// What that says of each specialisation.
    pub worth: Vec<Worth>,
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Worth {
    /// A specialisation, as `exos serve --without` calls it; `direct`: what is left without all of them, by the kernel's
    /// sockets; `all`: all of them together; `total`: the whole, by the kernel's sockets.
    pub what: &'static str,
    /// Requests a second with it by those without it.
    #[serde(flatten)]
    pub ratio: Ratio,
}

impl Specialised {
    pub(super) fn new(name: String, cell: Load, measured: Vec<(Variant, Vec<Run>)>) -> Self {
        let worth = worth(&measured);
        let outcome = |(variant, runs): (Variant, Vec<Run>)| Outcome::of(variant.name(), runs);
        Self {
            name,
            client: cell.client,
            wire: cell.wire.to_string(),
            connection: cell.connection,
            size_bytes: cell.size.bytes(),
            results: measured.into_iter().map(outcome).collect(),
            worth,
        }
    }

    /// How the server did when it was set up in one way.
    pub(super) fn result(&self, variant: Variant) -> Option<&Outcome> {
        let name = variant.name();
        self.results.iter().find(|result| result.server == name)
    }

    /// For people who wait: a line for each way in which the server was set up.
    pub(super) fn rows(&self) -> String {
        let everything = Variant::Everything.name();
        let row = |result: &Outcome| {
            let mut worth = self.worth.iter().map(|worth| &worth.ratio);
            let ratio = worth.find(|r| r.ours == everything && r.theirs == result.server);
            let times = ratio.map_or(String::new(), |r| format!("{:.2} times", r.median));
            let line = format!(
                "{:<48} {:<34} {:>10.0} {:>7} {times}",
                self.name, result.server, result.requests_per_sec, result.limited_by
            );
            line.trim_end().to_owned() + "\n"
        };
        self.results.iter().map(row).collect()
    }
}

/// With by without, run by run, for what was measured.
fn worth(measured: &[(Variant, Vec<Run>)]) -> Vec<Worth> {
    let rates = |variant: Variant| {
        let (_, runs) = measured.iter().find(|(measured, _)| *measured == variant)?;
        let rates = runs.iter().map(|run| run.requests_per_sec).collect();
        Some((variant.name(), rates))
    };
    let row = |(what, with, without): (&'static str, Variant, Variant)| {
        let ratio = Ratio::of(&rates(with)?, &rates(without)?);
        Some(Worth { what, ratio })
    };
    let ones = ALL
        .iter()
        .map(|&name| (name, Variant::Everything, Variant::Without(name)));
    [("direct", Variant::WithoutAll, Variant::Sockets)]
        .into_iter()
        .chain(ones)
        .chain([
            ("all", Variant::Everything, Variant::WithoutAll),
            ("total", Variant::Everything, Variant::Sockets),
        ])
        .filter_map(row)
        .collect()
}
