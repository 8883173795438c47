//! Everything that a session measured: medians for people, all of it for programs (docs/json.md).

use super::cores::CoresCase;
use super::latency::LatencyCase;
use super::limit::LimitCase;
use super::outcome::Case;
use super::readers::ReadersCase;
use super::setting::Setting;
use super::specialisations::Specialised;
use crate::output::Told;
use serde::Serialize;

/// Everything that a session measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The schema's name.
    pub schema: &'static str,
    /// Where and how it measured.
    #[serde(flatten)]
    pub setting: Setting,
    /// The core of the server.
    pub server_core: usize,
    /// The core of the client.
    pub client_core: usize,
    /// The packet limit of the link, on the plain wire.
    pub limits: Vec<LimitCase>,
    /// Documents as fast as they go.
    pub documents: Vec<Case>,
    /// Latency at a given rate.
    pub latency: Vec<LatencyCase>,
    /// Fast readers beside slow ones.
    pub readers: Vec<ReadersCase>,
    /// What each specialisation is worth.
    pub specialisations: Vec<Specialised>,
    /// The server on two cores against one.
    pub cores: Vec<CoresCase>,
}

/// A server or a load generator, and what it calls itself.
#[derive(Clone, Debug, Serialize)]
pub struct Named {
    /// Its name in results.
    pub name: String,
    /// What it calls itself.
    pub version: String,
}

impl Named {
    /// All of a list of them with their versions.
    pub(crate) fn all(list: &[(impl ToString, String)]) -> Vec<Self> {
        let named = |(who, version): &(_, String)| Self {
            name: ToString::to_string(who),
            version: version.clone(),
        };
        list.iter().map(named).collect()
    }
}

impl Report {
    /// Everything that is told.
    pub(super) fn told(&self) -> Told {
        Told {
            table: self.table(),
            json: self.json(),
            html: self.html(),
        }
    }

    /// As JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data becomes JSON")
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
pub(super) mod tests;
