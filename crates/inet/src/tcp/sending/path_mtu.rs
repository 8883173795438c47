//! The path's MTU: what routers report, black holes that nobody reports, and trying larger again
//! (RFC 1191, RFC 8201, RFC 4821).
//!
//! A connection begins with what the handshake allows, and keeps state here only once that was too
//! much. Then the sender's `mss` is what is believed to pass, and there are three ways on:
//!
//! - **A report** ([`reported_mss`]) is believed as far as it may be:
//!   never below a floor, and only for numbers in flight. After [`PATH_MTU_LIFETIME`] it is doubted.
//! - **A black hole** ([`black_hole_mss`]): full segments are sent again and again without an answer, and nobody says why.
//!   After [`BLACK_HOLE_RETRIES`] timeouts they become as short as every path carries. What looked like
//!   one may have been an outage, so larger ones are tried soon.
//! - **A probe** is a segment of new data, longer than `mss`. Acknowledged, its size is what passes; sent
//!   again, in pieces, it does not. First the full size is tried, then the middle between what passes
//!   and what does not, until they are close together.
//!
//! A lost probe counts as a loss like any other and costs the congestion window its share; with probes
//! seconds and minutes apart this is not worth an exception (RFC 4821 §7.6.1 allows one).

use exos_wire::SeqNumber;

use crate::limits::{
    BLACK_HOLE_MSS_V4, BLACK_HOLE_RETRIES, BLACK_HOLE_RETRIES_MORE, MSS_DEFAULT_V6,
    MSS_PATH_MIN_V4, PATH_MTU_LIFETIME, PATH_MTU_PRECISION, PATH_MTU_PROBE_INTERVAL,
};
use crate::time::Instant;

/// A path that does not carry full segments, or did not; nothing is kept of one that does. Sizes are payloads.
#[derive(Debug, Default)]
pub(in crate::tcp) struct PathMtu(Option<Box<Search>>);

/// The search for what the path carries.
#[derive(Clone, Debug)]
struct Search {
    /// What the handshake allows.
    full: u16,
    /// The least that did not pass in this search; `full + 1` when nothing larger was tried.
    too_big: u16,
    /// When the next probe may leave.
    probe_at: Instant,
    /// The probe in flight: its first number, the one behind it.
    probe: Option<(SeqNumber, SeqNumber)>,
}

impl Search {
    /// The size of the next probe, where `mss` passes; `None` when the search is over.
    fn next_size(&self, mss: u16) -> Option<u16> {
        if self.too_big > self.full {
            return Some(self.full);
        }
        let close = self.too_big - mss <= PATH_MTU_PRECISION;
        (!close).then(|| mss + (self.too_big - mss) / 2)
    }

    /// Begin to search again at `at`.
    fn search_from(&mut self, at: Instant) {
        self.too_big = self.full + 1;
        self.probe_at = at;
        self.probe = None;
    }
}

impl PathMtu {
    /// In another stack: the search begins again, if there is anything to find.
    pub fn resumed(mss: u16, full: u16, now: Instant) -> Self {
        Self((mss < full).then(|| {
            Box::new(Search {
                full,
                // What other processes say of it is judged later.
                too_big: full.saturating_add(1),
                probe_at: now + PATH_MTU_PROBE_INTERVAL,
                probe: None,
            })
        }))
    }

    /// What is known of the path is worth a look.
    #[inline]
    pub fn is_searched(&self) -> bool {
        self.0.is_some()
    }

    /// The longest payload that the handshake allows, where `mss` is in use.
    pub fn full(&self, mss: u16) -> u16 {
        self.0.as_ref().map_or(mss, |path| path.full)
    }

    /// Less than `mss` passes. Larger ones are tried at `probe_at`.
    pub fn narrowed(&mut self, mss: u16, probe_at: Instant) {
        let path = self.0.get_or_insert_with(|| {
            Box::new(Search {
                full: mss,
                too_big: mss + 1,
                probe_at,
                probe: None,
            })
        });
        path.search_from(probe_at);
    }

    /// A router says that more than `reported` does not pass, which is no less than the `mss` in use: it speaks of a probe.
    pub fn probe_reported(&mut self, now: Instant, reported: u16, mss: u16) {
        if let Some(path) = self.0.as_mut().filter(|p| p.probe.is_some()) {
            // Whatever passes of the rest will be found in time; the probe itself is repeated as lost.
            path.too_big = path.too_big.min(reported.saturating_add(1)).max(mss + 1);
            path.probe_at = now + PATH_MTU_PROBE_INTERVAL;
        }
    }

    /// The size of a probe that may leave now, where `mss` is known to pass.
    pub fn next_probe(&mut self, now: Instant, mss: u16) -> Option<u16> {
        let path = self.0.as_mut()?;
        if path.probe.is_some() || now < path.probe_at {
            return None;
        }
        let size = path.next_size(mss);
        if size.is_none() {
            path.search_from(now + PATH_MTU_LIFETIME);
        }
        size
    }

    /// A probe from `first` to before `behind` leaves.
    pub fn probe_left(&mut self, first: SeqNumber, behind: SeqNumber) {
        if let Some(path) = &mut self.0 {
            path.probe = Some((first, behind));
        }
    }

    /// Something from `start` to `end` is sent again: a probe among it did not pass.
    #[cold]
    pub fn sent_again(&mut self, now: Instant, start: SeqNumber, end: SeqNumber) {
        let Some(path) = &mut self.0 else { return };
        if let Some((first, behind)) = path.probe
            && start.lt(behind)
            && end.gt(first)
        {
            path.probe = None;
            path.too_big = path.too_big.min((behind - first) as u16);
            path.probe_at = now + PATH_MTU_PROBE_INTERVAL;
        }
    }

    /// Everything before `una` has arrived. Gives the `mss` that is known to pass now: a probe may be among it.
    #[cold]
    pub fn acknowledged(&mut self, now: Instant, una: SeqNumber, mss: u16) -> u16 {
        let Some(path) = &mut self.0 else { return mss };
        let Some((first, behind)) = path.probe.filter(|p| p.1.le(una)) else {
            return mss;
        };
        path.probe = None;
        path.probe_at = now;
        let mss = mss.max((behind - first) as u16);
        if mss >= path.full {
            self.0 = None;
        }
        mss
    }
}

/// What is believed of a report that segments of more than `mss` bytes do not pass.
pub(super) fn reported_mss(mss: u16, ipv6: bool) -> u16 {
    let least = if ipv6 {
        MSS_DEFAULT_V6
    } else {
        MSS_PATH_MIN_V4
    };
    mss.max(least)
}

/// What passes where the retransmission timer ran out for full segments `retries` times in a row: perhaps they are too long
/// for a router that does not say so.
pub(super) fn black_hole_mss(retries: u8, ipv6: bool) -> Option<u16> {
    let least = retries >= BLACK_HOLE_RETRIES + BLACK_HOLE_RETRIES_MORE;
    (retries >= BLACK_HOLE_RETRIES).then_some(match (ipv6, least) {
        (true, _) => MSS_DEFAULT_V6,
        (false, false) => BLACK_HOLE_MSS_V4,
        (false, true) => MSS_PATH_MIN_V4,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The search ends close to the truth in a few steps.
    #[test]
    fn the_search_finds_what_passes() {
        for truth in [600u16, 1012, 1100, 1300, 1388, 1440, 1448] {
            let (mut mss, mut probes) = (524, 0);
            let mut path = Search {
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
