//! A session: its cores and its wire.

use super::way::Way;
use crate::stage::Stage;
use crate::stage::exchange::{Exchange, Exchanged, Round};
use crate::stage::helper::{Helper, Helping};
use exos_host::{Error, Result};
use exos_lab::{Guard, Side};

/// What all groups measure with.
pub(super) struct Session {
    pub stage: Stage,
    pub lab: Guard,
    /// Those that were asked for and are to be had.
    pub ways: Vec<Way>,
    pub seconds: f64,
}

impl std::ops::Deref for Session {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl Session {
    /// An end of the wire, when it is ready.
    pub fn helper<H: Helper>(&self, side: Side, helper: &H) -> Result<Helping<H>> {
        let command = self.lab.command(side, &self.helpers)?;
        self.help(command, self.cores[side as usize], helper)
    }

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
