//! One exchange, recorded and given to a stack again, in a process of its own.

use super::scenario::{Family, Link, Scenario, StackKind};
use super::tape::{self, Side};
use super::{exos, smoltcp};
use crate::stage::helper::Helper;
use exos_host::Result;
use serde::{Deserialize, Serialize};

/// One exchange, recorded and replayed.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(crate) struct Replay {
    pub(super) stack: StackKind,
    pub(super) scenario: Scenario,
    pub(super) family: Family,
    pub(super) link: Link,
    pub(super) operations: u64,
}

/// What a replay says of itself: how much work the counted instructions were for.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(crate) struct Replayed {
    pub(super) operations: u64,
    pub(super) frames_in: u64,
    pub(super) frames_out: u64,
}

impl Helper for Replay {
    const NAME: &'static str = "replay";
    type Measured = Replayed;

    fn run(self) -> Result<Replayed> {
        Ok(self.replay())
    }
}

impl Replay {
    pub(super) fn replay(&self) -> Replayed {
        let Self { family, link, .. } = *self;
        let (role, _) = self.scenario.roles();
        match self.stack {
            StackKind::Exos => self.record(|| exos::Exos::new(0, role, family, link)),
            StackKind::Smoltcp => self.record(|| smoltcp::Smoltcp::new(role, link)),
        }
    }

    fn record<S: Side>(&self, fresh: impl Fn() -> S) -> Replayed {
        let (_, role) = self.scenario.roles();
        let mut peer = exos::Exos::new(1, role, self.family, Link::Verified);
        let plan = self.scenario.plan(self.operations);
        let tape = tape::record(&mut fresh(), &mut peer, &plan);
        tape.replay(&mut fresh());
        Replayed {
            operations: tape.operations,
            frames_in: tape.frames_in,
            frames_out: tape.frames_out,
        }
    }
}
