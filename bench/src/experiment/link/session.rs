//! A session: its cores and its wire.

use super::round_trips::{Answerer, Asked, Asker};
use super::way::Way;
use crate::stage::helper::{Helper, Helping};
use crate::stage::link::WARMUP;
use crate::stage::{Stage, mac_of};
use exos_host::Result;
use exos_lab::{Guard, Side};

/// What all groups measure with.
pub(super) struct Session {
    pub stage: Stage,
    pub lab: Guard,
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

    /// Has frames go back and forth, by one way in both directions.
    pub fn ask(&self, way: Way, frame_len: usize, under_way: u32) -> Result<Asked> {
        let answerer = Answerer {
            way,
            frame_len,
            mac: mac_of(&self.lab, Side::A)?.0,
        };
        let answerer = self.helper(Side::B, &answerer)?;
        let asker = Asker {
            way,
            frame_len,
            under_way,
            seconds: self.seconds,
            mac: mac_of(&self.lab, Side::B)?.0,
        };
        let asker = self.helper(Side::A, &asker)?;
        let asked = asker.measured(self, WARMUP.as_secs_f64() + self.seconds)?;
        answerer.stop()?;
        Ok(asked)
    }
}
