//! A session: its cores and its wire.

use super::way::Way;
use crate::stage::LabStage;
use crate::stage::exchange::{Exchange, Exchanged, Round};
use exos_host::{Error, Result};

/// What all groups measure with.
pub(super) struct Session {
    pub stage: LabStage,
    /// Those that were asked for and are to be had.
    pub ways: Vec<Way>,
}

impl std::ops::Deref for Session {
    type Target = LabStage;

    fn deref(&self) -> &LabStage {
        &self.stage
    }
}

impl Session {
    /// Has this many frames go back and forth at once, by one way in both directions.
    pub fn exchange(&self, way: Way, frame_len: usize, at_once: u32) -> Result<Exchanged> {
        let no_link = || Error::new(format!("{way} has no link"));
        let exchange = Exchange {
            seconds: self.seconds,
            at_once,
            rounds: vec![Round::of_equals(frame_len)],
        };
        exchange.measure(self, &self.lab, way.of_link().ok_or_else(no_link)?)
    }
}
