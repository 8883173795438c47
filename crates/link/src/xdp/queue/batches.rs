//! Sending batches by one call each, beside the ring.

use std::time::Instant;

use super::super::checked::Checked;
use super::super::live::LiveFrames;
use super::super::send_path::SendPath;
use super::super::socket::Descriptor;
use super::super::umem::Umem;

/// What sends a batch by one call.
#[derive(Debug)]
pub(in super::super) enum Batches {
    /// As live frames, on an interface of our own.
    Live(LiveFrames),
    /// Through the daemon's programs, on one that is lent.
    Checked(Checked),
}

impl Batches {
    /// The paths that there are.
    pub(super) fn paths(&self) -> &'static [SendPath] {
        match self {
            Self::Live(_) => &[SendPath::Ring, SendPath::Live],
            Self::Checked(checked) if checked.has_live() => {
                &[SendPath::Ring, SendPath::Batch, SendPath::Live]
            }
            Self::Checked(_) => &[SendPath::Ring, SendPath::Batch],
        }
    }

    /// Whether batches can be sent now.
    pub(super) fn are_usable(&mut self, now: Instant) -> bool {
        match self {
            Self::Live(live) => live.takes(now),
            Self::Checked(_) => true,
        }
    }

    /// Whether these can be sent as a batch now, or the first of them.
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
        path: SendPath,
        frames: &[Descriptor],
        umem: &Umem,
        returned: &mut Vec<Descriptor>,
    ) -> usize {
        match self {
            Self::Live(live) => live.send(frames),
            Self::Checked(checked) => checked.send(path == SendPath::Live, frames, umem, returned),
        }
    }

    /// Events by name.
    pub(super) fn counters(batches: Option<&Self>) -> impl Iterator<Item = (&'static str, u64)> {
        let (live, checked) = match batches {
            None => (None, None),
            Some(Self::Live(live)) => (Some(live.counters()), None),
            Some(Self::Checked(checked)) => (Some(checked.live_counters()), Some(checked)),
        };
        let live = live.unwrap_or_default().named().into_iter();
        live.chain(Checked::counters(checked))
    }
}
