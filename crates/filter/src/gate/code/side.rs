//! Where a program of the gate runs, and what differs by it.

use crate::gate::tap::Direction;

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gate) enum Side {
    /// XDP on the device.
    In,
    /// Traffic control, ingress of a slot's interface.
    Out,
    /// Traffic control, egress of the device.
    Host,
    /// Nowhere: run by the sender itself on socket buffers. See [`crate::gate::batch()`].
    Batch,
    /// Nowhere: run by the sender itself on live frames. See [`crate::gate::live()`].
    Live,
}

/// Verdicts of traffic control links (`enum tcx_action_base`).
pub(in crate::gate) mod tcx {
    pub(in crate::gate) const NEXT: i32 = -1;
    pub(in crate::gate) const DROP: i32 = 2;
}

impl Side {
    /// The verdict that drops.
    pub(in crate::gate) const fn drop(self) -> i32 {
        match self {
            Self::In | Self::Live => crate::program::xdp::DROP,
            Self::Out | Self::Host | Self::Batch => tcx::DROP,
        }
    }

    /// The entry of `scratch`. What runs in XDP and in traffic control never interrupts its own kind.
    pub(in crate::gate) const fn scratch_index(self) -> i32 {
        match self {
            Self::In | Self::Live => 0,
            Self::Out | Self::Host | Self::Batch => 1,
        }
    }

    pub(in crate::gate) const fn direction(self) -> Direction {
        match self {
            Self::In | Self::Host => Direction::In,
            Self::Out | Self::Batch | Self::Live => Direction::Out,
        }
    }

    /// Whether a slot's sending is checked here, more strictly than what arrives.
    pub(in crate::gate) const fn is_sending(self) -> bool {
        matches!(self, Self::Out | Self::Batch | Self::Live)
    }

    /// Whether the sender runs it, and what it does not decide is the ring's.
    pub(in crate::gate) const fn is_lent(self) -> bool {
        matches!(self, Self::Batch | Self::Live)
    }

    /// Whether packets are frames of XDP; else socket buffers.
    pub(in crate::gate) const fn is_xdp(self) -> bool {
        matches!(self, Self::In | Self::Live)
    }

    /// Whether packets in fragments are decided here.
    pub(in crate::gate) const fn takes_fragments(self) -> bool {
        !self.is_lent()
    }
}
