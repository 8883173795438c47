//! Waiting, for a program on one link or on several: what happens on any of them ends it.
//!
//! Of several the first decides whether to spin and counts the sleeps; each counts its turns.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use exos_host::error::Error;
use exos_inet::Instant;

use super::{Exos, descriptors};
use crate::clock;
use crate::handoff::Handoff;
use crate::wait::{self, Waited};

/// How often a program sees to its link that does not sleep, or never for long: whether that is there still, for one.
const LOOK_AROUND: Duration = Duration::from_millis(1);

impl Exos {
    /// [`wait`](Self::wait) on several links: for frames of any of them.
    ///
    /// # Errors
    ///
    /// The kernel does not let us wait.
    ///
    /// # Panics
    ///
    /// Without a link.
    pub fn wait_for_any(
        all: &mut [Self],
        until: Option<Instant>,
        others: &[BorrowedFd<'_>],
    ) -> Result<(), Error> {
        Self::wait_and_tell(all, until, others).map(drop)
    }

    /// As above; says how the wait has ended.
    pub(crate) fn wait_and_tell(
        all: &mut [Self],
        until: Option<Instant>,
        others: &[BorrowedFd<'_>],
    ) -> Result<Waited, Error> {
        let mut has_worked = false;
        for exos in all.iter_mut() {
            exos.turns += 1;
            exos.turns_busy += u64::from(exos.worked);
            has_worked |= exos.worked;
        }
        if has_worked {
            all[0].waiting.worked();
            return Ok(Waited::Worked);
        }
        let now = clock::now();
        let deadlines = all.iter().filter_map(|exos| exos.deadline(now));
        let deadline = until.into_iter().chain(deadlines).min();
        if deadline.is_some_and(|at| at <= now) || all[0].waiting.should_spin(now) {
            std::hint::spin_loop();
            return Ok(Waited::Awake);
        }
        if !all.iter_mut().all(|exos| exos.prepare_wait(now)) {
            return Ok(Waited::Awake);
        }
        all[0].waiting.sleeps += 1;
        let latest = all.iter().map(|exos| exos.latest(now));
        let until = latest.chain(deadline).min();
        let (mut links, mut fds) = (Vec::new(), others.to_vec());
        for exos in all {
            links.extend(exos.link.fds());
            fds.extend(descriptors(exos.tables.as_ref(), exos.via.as_ref()));
            fds.extend(exos.handoff.as_mut().map(Handoff::fd_to_sleep_on));
        }
        let slept = wait::sleep(now, until, &links, &fds);
        let slept = slept.map_err(|e| Error::io("cannot wait for packets", e))?;
        Ok(Waited::Slept(slept))
    }

    /// Whether the link has nothing, and tells of what comes: to be asked before a sleep.
    fn prepare_wait(&mut self, now: Instant) -> bool {
        self.look_around(now);
        self.link.prepare_next_wait()
    }

    /// Sees to the link now and then.
    fn look_around(&mut self, now: Instant) {
        if now - self.looked_around >= LOOK_AROUND {
            self.looked_around = now;
            self.link.look_after();
        }
    }

    /// [`look_on`](Self::look_on) on several links.
    ///
    /// # Errors
    ///
    /// As those of [`wait_for_any`](Self::wait_for_any).
    ///
    /// # Panics
    ///
    /// Without a link.
    pub fn look_on_any(
        all: &mut [Self],
        until: Option<Instant>,
        others: &[BorrowedFd<'_>],
    ) -> Result<(), Error> {
        let waits = |exos: &mut Self| exos.worked || exos.blocked || exos.link.wants_write();
        if all.iter_mut().any(waits) {
            return Self::wait_for_any(all, until, others);
        }
        for exos in all {
            exos.turns += 1;
            exos.look_around(exos.now);
        }
        std::hint::spin_loop();
        Ok(())
    }
}
