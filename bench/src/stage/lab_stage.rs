//! A stage with a lab's plain wire: what is measured is on side a and the first core, what asks it or sends to it on side b and the second.

use super::args::CommonArgs;
use super::helper::{Helper, Helping};
use super::{Stage, lab_up};
use exos_host::Result;
use exos_lab::{Guard, Settings, Side};
use std::time::Duration;

/// Cores, a wire, and how long a measurement lasts.
pub(crate) struct LabStage {
    stage: Stage,
    pub lab: Guard,
    pub seconds: f64,
}

impl std::ops::Deref for LabStage {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl LabStage {
    /// Three runs of this many seconds, unless other numbers were asked for.
    pub fn up(args: &CommonArgs, seconds: f64) -> Result<Self> {
        let stage = Stage::new(args, args.runs(3))?;
        let lab = lab_up(&Settings::named(&args.lab))?;
        stage.note_other_load()?;
        Ok(Self {
            stage,
            lab,
            seconds: args.seconds(seconds),
        })
    }

    /// A helper on a side and its core, when it is ready.
    pub fn helper<H: Helper>(&self, side: Side, helper: &H) -> Result<Helping<H>> {
        self.help_on(&self.lab, side, helper)
    }

    /// How busy the cores are in the middle half of a measurement of some seconds that begins now.
    pub fn busy_cores(&self, seconds: f64) -> Result<[f64; 2]> {
        let part = Duration::from_secs_f64(seconds / 4.0);
        self.pause(part)?;
        self.busy_for(2 * part)
    }
}
