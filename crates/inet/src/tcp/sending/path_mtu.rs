//! What is known of a path that does not carry full segments, and the search for what it carries (RFC 4821). `mtu` conducts it.

use exos_wire::SeqNumber;

use crate::limits::{PATH_MTU_PRECISION, PATH_MTU_PROBE_INTERVAL};
use crate::time::Instant;

/// What is known of a path that does not carry full segments, or did not. Sizes are payloads.
#[derive(Clone, Debug)]
pub(in crate::tcp) struct PathMtu {
    /// What the handshake allows.
    pub(super) full: u16,
    /// The least that did not pass in this search; `full + 1` when nothing larger was tried.
    pub(super) too_big: u16,
    /// When the next probe may leave.
    pub(super) probe_at: Instant,
    /// The probe in flight: its first number, the one behind it.
    pub(super) probe: Option<(SeqNumber, SeqNumber)>,
}

impl PathMtu {
    /// The size of the next probe, where `mss` passes; `None` when the search is over.
    pub(super) fn next_size(&self, mss: u16) -> Option<u16> {
        if self.too_big > self.full {
            return Some(self.full);
        }
        let close = self.too_big - mss <= PATH_MTU_PRECISION;
        (!close).then(|| mss + (self.too_big - mss) / 2)
    }

    /// In another stack: the search begins again, if there is anything to find.
    pub fn resumed(mss: u16, full: u16, now: Instant) -> Option<Box<Self>> {
        (mss < full).then(|| {
            Box::new(Self {
                full,
                // What other processes say of it is judged later.
                too_big: full.saturating_add(1),
                probe_at: now + PATH_MTU_PROBE_INTERVAL,
                probe: None,
            })
        })
    }

    /// Begin to search again at `at`.
    pub(super) fn search_from(&mut self, at: Instant) {
        self.too_big = self.full + 1;
        self.probe_at = at;
        self.probe = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The search ends close to the truth in a few steps.
    #[test]
    fn the_search_finds_what_passes() {
        for truth in [600u16, 1012, 1100, 1300, 1388, 1440, 1448] {
            let (mut mss, mut probes) = (524, 0);
            let mut path = PathMtu {
                full: 1448,
                too_big: 1449,
                probe_at: Instant::START,
                probe: None,
            };
            while mss < path.full
                && let Some(size) = path.next_size(mss)
            {
                assert!(size > mss && size <= path.full);
                probes += 1;
                if size <= truth {
                    mss = size;
                } else {
                    path.too_big = size;
                }
            }
            assert!(
                mss <= truth && truth - mss <= PATH_MTU_PRECISION,
                "{mss} for {truth}"
            );
            assert!(probes <= 7, "{probes} probes for {truth}");
        }
    }
}
