//! Statistics of an emulator that runs, made when somebody asks.

use super::interfaces::Dropped;
use super::shared::{Shared, Snapshot};
use super::statistics::{Emulation, SCHEMA, Statistics};
use exos_host::netns::NetNs;
use exos_host::{Error, Result};
use std::sync::Arc;
use std::time::Instant;

/// Makes statistics of what the forwarding thread says.
#[derive(Debug)]
pub(super) struct Reporter {
    pub(super) shared: Arc<Shared>,
    pub(super) emulation: Emulation,
    pub(super) started: Instant,
    pub(super) lab: String,
    pub(super) middle: NetNs,
    /// What the interfaces had dropped when it started.
    pub(super) dropped_before: Dropped,
}

impl Reporter {
    /// The numbers of now.
    pub(super) fn statistics(&self) -> Result<Statistics> {
        Ok(self.complete(self.shared.snapshot()?))
    }

    /// Stops forwarding; the last numbers.
    pub(super) fn stop(&self) -> Result<Statistics> {
        self.shared.stop();
        self.shared.ended()?.map_err(Error::new)?;
        self.statistics()
    }

    fn complete(&self, snapshot: Snapshot) -> Statistics {
        let seconds = self.started.elapsed().as_secs_f64();
        let dropped = Dropped::read(&self.lab, &self.middle).since(&self.dropped_before);
        let [mut a_to_b, mut b_to_a] = snapshot.directions;
        a_to_b.own.own_arrival_dropped = dropped.at_side[0];
        b_to_a.own.own_arrival_dropped = dropped.at_side[1];
        a_to_b.own.own_departure_dropped = dropped.in_middle[1];
        b_to_a.own.own_departure_dropped = dropped.in_middle[0];
        Statistics {
            schema: SCHEMA.to_owned(),
            pid: std::process::id(),
            seconds,
            cpu_share: snapshot.cpu_seconds / seconds,
            settings: self.emulation.clone(),
            a_to_b,
            b_to_a,
        }
    }
}
