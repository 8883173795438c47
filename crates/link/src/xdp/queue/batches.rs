//! Sending batches by one call each, beside the ring.

use std::time::Instant;

use super::super::checked::Checked;
use super::super::live::LiveFrames;
use super::super::socket::Descriptor;
use super::super::umem::Umem;

/// Fewer frames are not worth a call in live frame mode, which costs more than they do by the ring on any machine seen.
const LIVE_FRAMES_MIN: usize = 8;

/// What sends a batch by one call.
#[derive(Debug)]
pub(in super::super) enum Batches {
    /// As live frames, on an interface of our own.
    Live(LiveFrames),
    /// Through the daemon's program, on one that is lent.
    Checked(Checked),
}

impl Batches {
    /// How many frames it may be worth for.
    pub(super) fn frames_min(&self) -> usize {
        match self {
            Self::Live(_) => LIVE_FRAMES_MIN,
            // It saves even a lone frame the virtual interface.
            Self::Checked(_) => 1,
        }
    }

    /// Whether these can leave this way now, or the first of them.
    pub(super) fn takes(&mut self, frames: &[Descriptor], now: Instant) -> bool {
        match self {
            Self::Live(live) => live.takes(now),
            Self::Checked(checked) => checked.takes(frames, now),
        }
    }

    /// Frames lost so far behind the call, and where this is the interface's count, behind the ring; None where nobody counts.
    pub(super) fn lost(&self) -> Option<u64> {
        match self {
            Self::Live(live) => live.lost(),
            Self::Checked(checked) => Some(checked.lost()),
        }
    }

    /// Sends frames that it [takes](Self::takes), in order; how many of them are dealt with. Those of them that are to leave
    /// by the ring all the same are pushed to `returned`.
    pub(super) fn send(
        &mut self,
        frames: &[Descriptor],
        umem: &Umem,
        returned: &mut Vec<Descriptor>,
    ) -> usize {
        match self {
            Self::Live(live) => live.send(frames),
            Self::Checked(checked) => checked.send(frames, umem, returned),
        }
    }

    /// Events by name, of one way and of the other.
    pub(super) fn counters(batches: Option<&Self>) -> impl Iterator<Item = (&'static str, u64)> {
        let (live, checked) = match batches {
            None => (None, None),
            Some(Self::Live(live)) => (Some(live), None),
            Some(Self::Checked(checked)) => (None, Some(checked)),
        };
        let live = LiveFrames::counters(live).into_iter();
        live.chain(Checked::counters(checked))
    }
}
