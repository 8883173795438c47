//! The reports that can be read.
//!
//! One is made at most ten times a second, and lent to everybody who asks until the next: one text for all, so that asking
//! costs the daemon little however often it is done and by however many, and nobody's report is taken back for another's.
//! However many are kept, the memory of old ones is taken back.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use exos_host::error::Result;
use exos_host::shared::LentText;

use crate::clock::{Now, now};
use crate::limits::{REPORT_EVERY, REPORT_TIME_PART, REPORTS_MAX};

/// All of them, the newest last.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Reports {
    /// Until when the newest is new enough.
    fresh: Now,
    lent: VecDeque<LentText>,
}

impl Reports {
    /// Whether a new one has to be made.
    pub(in crate::daemon) fn is_due(&self, now: Now) -> bool {
        now >= self.fresh
    }

    /// Keeps a new one, which was begun then.
    pub(in crate::daemon) fn add(&mut self, text: &str, begun: Now) -> Result<()> {
        self.lent.push_back(LentText::new("exos-report", text)?);
        let made = now();
        self.fresh = made + REPORT_EVERY.max((made - begun) * REPORT_TIME_PART);
        if self.lent.len() > REPORTS_MAX
            && let Some(oldest) = self.lent.pop_front()
        {
            oldest.take_back();
        }
        Ok(())
    }

    /// The newest: its length in bytes and a descriptor.
    ///
    /// # Panics
    ///
    /// When none was made, which [`Self::is_due`] says.
    pub(in crate::daemon) fn lend(&self) -> Result<(u32, OwnedFd)> {
        let newest = self.lent.back().expect("one was made");
        Ok((newest.len() as u32, newest.lend()?))
    }
}
