//! Where a program of the gate runs, and what differs by it.

use super::tap::Direction;

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// XDP on the device.
    In,
    /// Traffic control, ingress of a slot's interface.
    Out,
    /// Traffic control, egress of the device.
    Host,
    /// Nowhere: run by the sender itself. See [`super::batch`].
    Batch,
}

/// Verdicts of traffic control links (`enum tcx_action_base`).
pub(super) mod tcx {
    pub(in crate::gate) const NEXT: i32 = -1;
    pub(in crate::gate) const DROP: i32 = 2;
}

impl Side {
    /// The verdict that drops.
    pub(super) const fn drop(self) -> i32 {
        match self {
            Self::In => crate::program::xdp::DROP,
            Self::Out | Self::Host | Self::Batch => tcx::DROP,
        }
    }

    /// The entry of `scratch`. What runs in XDP and in traffic control never interrupts its own kind.
    pub(super) const fn scratch_index(self) -> i32 {
        match self {
            Self::In => 0,
            Self::Out | Self::Host | Self::Batch => 1,
        }
    }

    pub(super) const fn direction(self) -> Direction {
        match self {
            Self::In | Self::Host => Direction::In,
            Self::Out | Self::Batch => Direction::Out,
        }
    }

    /// Whether a slot's sending is checked here, more strictly than what arrives.
    pub(super) const fn is_sending(self) -> bool {
        matches!(self, Self::Out | Self::Batch)
    }

    /// Whether packets in fragments are decided here.
    pub(super) const fn takes_fragments(self) -> bool {
        !matches!(self, Self::Batch)
    }
}
