//! An episode of slowing down and repairing: how it begins and ends, what may leave meanwhile, how it is taken back (RFC 4015,
//! RFC 3522).

use exos_wire::SeqNumber;

use crate::tcp::congestion::algorithm::Congestion;
use crate::tcp::congestion::control::Cause;
use crate::tcp::sending::numbers::PathState;
use crate::tcp::sending::recovery::repair::Repair;
use crate::time::Instant;

/// What the connection is about.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// Nothing is wrong.
    Open,
    /// Reducing after a mark (RFC 3168): nothing was lost.
    Marked,
    /// Repairing losses that acknowledgements told of.
    Recovery,
    /// Repairing after the retransmission timer ran out.
    Timeout,
}

/// The episode at hand, or the last one: duplicates that are reported later may still undo it.
#[derive(Debug)]
pub(super) struct Episode {
    phase: Phase,
    /// The window was reduced for a mark: the next new data says so (CWR).
    slowed_down: bool,
    /// The window while repairing.
    window: u32,
    /// Behind the last number that was out when the episode began, or the last timeout.
    recover: SeqNumber,
    repair: Option<Box<Repair>>,
}

impl Episode {
    /// None yet; the first number will be `una`.
    pub const fn new(una: SeqNumber) -> Self {
        Self {
            phase: Phase::Open,
            slowed_down: false,
            window: 0,
            recover: SeqNumber(una.0.wrapping_sub(1)),
            repair: None,
        }
    }

    // Its course.

    /// Slow down, with this many bytes `outstanding`.
    pub fn begin(
        &mut self,
        phase: Phase,
        cause: Cause,
        outstanding: u32,
        path: &mut PathState<'_>,
        now: Instant,
    ) {
        // Marked already: what is lost of the same flight is the same congestion (RFC 3168 §6.1.2).
        let reduced = self.phase == Phase::Marked && cause == Cause::Loss;
        if !reduced {
            let in_flight = outstanding.min(self.window(path.congestion));
            path.slow_down(now, cause, in_flight);
            let repair = Repair::new(path.at.una, outstanding).after_mark(cause == Cause::Mark);
            self.repair = Some(Box::new(repair));
            self.recover = path.at.max;
            // RFC 3168 §6.1.2: CWR is said for whatever reason the window was reduced.
            self.slowed_down = path.at.agreed.ecn;
        }
        self.phase = phase;
    }

    /// The retransmission timer ran out, perhaps again, for what was sent up to `max`. RFC 6582 §3.2, step 4: duplicates caused
    /// by what is sent again are no new loss.
    pub fn timed_out(&mut self, max: SeqNumber) {
        self.phase = Phase::Timeout;
        self.recover = max;
    }

    /// All is well again.
    pub fn end(&mut self) {
        self.phase = Phase::Open;
    }

    /// `len` bytes have left, at this time `again`.
    #[inline]
    pub fn left(&mut self, len: u32, again: Option<Instant>) {
        if let Some(repair) = &mut self.repair {
            repair.left(len);
            if let Some(at) = again {
                repair.left_again(at);
            }
        }
    }

    /// An acknowledgement delivered `bytes`, with `pipe` in flight: what may leave follows (RFC 6937), towards a `threshold`.
    pub fn pace(&mut self, bytes: u32, pipe: u32, threshold: u32, mss: u32, safe: bool) {
        if let Some(repair) = &mut self.repair {
            self.window = repair.window(bytes, pipe, threshold, mss, safe);
        }
    }

    /// CWR is said, with new data.
    pub fn said_slowed_down(&mut self) {
        self.slowed_down = false;
    }

    /// What was passed comes along, lest 2 GiB later it seem to lie ahead.
    #[inline]
    pub fn keep_up(&mut self, una: SeqNumber) {
        if una.gt(self.recover) {
            self.recover = una - 1;
        }
    }

    // What is known.

    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Losses are being repaired.
    #[inline]
    pub fn is_repairing(&self) -> bool {
        matches!(self.phase, Phase::Recovery | Phase::Timeout)
    }

    /// A loss that is noticed now begins another.
    pub fn may_begin(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Marked)
    }

    /// What may be in flight follows from the repair, not from the algorithm.
    #[inline]
    pub fn leads(&self, congestion: &Congestion) -> bool {
        matches!(self.phase, Phase::Recovery | Phase::Marked) && !congestion.owns_recovery()
    }

    /// The congestion window as it is in force.
    #[inline]
    pub fn window(&self, congestion: &Congestion) -> u32 {
        match self.leads(congestion) {
            true => self.window,
            false => congestion.window(),
        }
    }

    /// All that was out when it began is acknowledged, or more.
    pub fn is_over(&self, una: SeqNumber) -> bool {
        una.ge(self.recover)
    }

    /// What is acknowledged up to `una` is not of the episode any more.
    pub fn is_behind(&self, una: SeqNumber) -> bool {
        una.gt(self.recover)
    }

    /// What is or was repaired, and whether that was a mistake.
    #[inline]
    pub fn repair(&self) -> Option<&Repair> {
        self.repair.as_deref()
    }

    pub fn repair_mut(&mut self) -> Option<&mut Repair> {
        self.repair.as_deref_mut()
    }

    /// CWR is to be said.
    #[inline]
    pub fn has_slowed_down(&self) -> bool {
        self.slowed_down
    }
}
