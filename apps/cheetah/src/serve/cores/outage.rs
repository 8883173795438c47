//! An interface among several that fails: the loops of the others go on, and its own tries again.
//!
//! Its connections stay until they time out, so that those of an interface that was only down for a moment go on. When no
//! interface is left, the last error is the program's.

use std::os::fd::BorrowedFd;

use exos::{Error, clock, wait};
use exos_inet::Instant;

use super::worker::Worker;
use crate::limits::{OUTAGE_PAUSE, OUTAGE_PAUSE_MIN};

/// Whether this loop's interface works.
pub(super) struct Outage {
    worker: Worker,
    is_cut_off: bool,
}

impl Outage {
    /// Of a loop on one of several interfaces, which works.
    pub(super) fn of(worker: &Worker) -> Option<Self> {
        worker.place().interface.as_ref()?;
        Some(Self {
            worker: worker.clone(),
            is_cut_off: false,
        })
    }

    /// Hears what became of sending; fails when all interfaces have failed.
    pub(super) fn hear<T>(&mut self, sent: Result<T, Error>) -> Result<(), Error> {
        match (sent, self.is_cut_off) {
            (Ok(_), false) | (Err(_), true) => Ok(()),
            (Ok(_), true) => {
                self.is_cut_off = false;
                self.worker.is_back();
                exos_program::info!("exos serve: {} is back", self.name());
                Ok(())
            }
            (Err(error), false) => {
                self.is_cut_off = true;
                if self.worker.cut_off() {
                    return Err(error);
                }
                let (name, what) = (self.name(), error.sentence());
                exos_program::warn!(
                    "exos serve: {name} is cut off: {what}; the other interfaces go on"
                );
                Ok(())
            }
        }
    }

    fn name(&self) -> String {
        let place = self.worker.place();
        let interface = place.interface.as_deref().unwrap_or_default();
        format!("{interface} (core {})", place.core)
    }

    /// Sleeps before it is tried again, in place of a wait for the interface; false when it works.
    pub(super) fn sleep(
        &self,
        until: Option<Instant>,
        fds: &[BorrowedFd<'_>],
    ) -> Result<bool, Error> {
        if !self.is_cut_off {
            return Ok(false);
        }
        let now = clock::now();
        let latest = now + OUTAGE_PAUSE;
        let until = until.map_or(latest, |at| at.clamp(now + OUTAGE_PAUSE_MIN, latest));
        wait::sleep(now, Some(until), &[], fds)
            .map_err(|e| Error::io("cannot wait for the interface", e))?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::worker::Place;
    use super::*;

    #[test]
    fn the_last_interface_that_fails_ends_the_program() {
        let place = |interface: &str| Place {
            core: 0,
            interface: Some(interface.to_owned()),
        };
        let workers = Worker::make(["eth0", "eth1"].map(place)).unwrap();
        let outage = |n: usize| Outage::of(&workers[n]).unwrap();
        let (mut first, mut second) = (outage(0), outage(1));
        let down = || Err::<(), _>(Error::new("the network is down"));
        assert!(!first.sleep(None, &[]).unwrap(), "it works");
        // One is cut off and comes back, then the other.
        for one in [&mut first, &mut second] {
            one.hear(down()).unwrap();
            one.hear(down()).unwrap();
            assert!(one.sleep(Some(Instant::START), &[]).unwrap());
            one.hear(Ok(())).unwrap();
        }
        first.hear(down()).unwrap();
        let error = second.hear(down()).unwrap_err().to_string();
        assert!(error.contains("network is down"), "{error}");
    }

    #[test]
    fn one_interface_alone_has_no_outage() {
        let workers = Worker::make([Place::default(), Place::default()]).unwrap();
        assert!(Outage::of(&workers[0]).is_none());
    }
}
