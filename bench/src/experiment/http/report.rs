//! Everything that a session measured: medians for people, all of it for programs (docs/json.md).

use super::cores::CoresCase;
use super::latency::LatencyCase;
use super::limit::LimitCase;
use super::outcome::Case;
use super::readers::ReadersCase;
use super::specialisations::Specialised;
use crate::report::{Results, Setting};
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

impl Results for Report {
    fn table(&self) -> String {
        self.text()
    }

    fn html(&self) -> String {
        self.page()
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
pub(super) mod tests;
