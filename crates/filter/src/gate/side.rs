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
    /// Nowhere: run by the sender itself on socket buffers. See [`super::batch()`].
    Batch,
    /// Nowhere: run by the sender itself on live frames. See [`super::live()`].
    Live,
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
            Self::In | Self::Live => crate::program::xdp::DROP,
            Self::Out | Self::Host | Self::Batch => tcx::DROP,
        }
    }

    /// The entry of `scratch`. What runs in XDP and in traffic control never interrupts its own kind.
    pub(super) const fn scratch_index(self) -> i32 {
        match self {
            Self::In | Self::Live => 0,
            Self::Out | Self::Host | Self::Batch => 1,
        }
    }

    pub(super) const fn direction(self) -> Direction {
        match self {
            Self::In | Self::Host => Direction::In,
            Self::Out | Self::Batch | Self::Live => Direction::Out,
        }
    }

    /// Whether a slot's sending is checked here, more strictly than what arrives.
    pub(super) const fn is_sending(self) -> bool {
        matches!(self, Self::Out | Self::Batch | Self::Live)
    }

    /// Whether the sender runs it, and what it does not decide is the ring's.
    pub(super) const fn is_lent(self) -> bool {
        matches!(self, Self::Batch | Self::Live)
    }

    /// Whether packets are frames of XDP; else socket buffers.
    pub(super) const fn is_xdp(self) -> bool {
        matches!(self, Self::In | Self::Live)
    }

    /// Whether packets in fragments are decided here.
    pub(super) const fn takes_fragments(self) -> bool {
        !self.is_lent()
    }
}
