//! What an emulator did, in numbers: read by `exos lab status` and `down`, by tests and measurements.
//!
//! Two kinds of loss are kept apart: what the conditions asked for (`lost_*`, `drop_queue_full`), and what the
//! emulator itself could not carry (`drop_held_full`, `own_*`). Only when the latter are zero was the wire what it
//! was asked to be. For each direction
//! received + duplicated = delivered + lost_random + lost_burst + drop_queue_full + drop_held_full + held_frames.

use super::conditions::Conditions;
use super::lateness::Lateness;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema of [`Statistics`] as JSON.
pub const SCHEMA: &str = "exos.lab.emulation/1";

/// An emulator and what it did since it started.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Statistics {
    /// `"exos.lab.emulation/1"`.
    pub schema: String,
    /// The emulator's process.
    pub pid: u32,
    /// How long it has been running.
    pub seconds: f64,
    /// The part of that time for which it used a processor, 0 to 1.
    pub cpu_share: f64,
    /// What it was asked for.
    pub settings: Emulation,
    /// From side a to side b.
    pub a_to_b: DirectionReport,
    /// From side b to side a.
    pub b_to_a: DirectionReport,
}

/// A wire that is emulated: its conditions and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Emulation {
    /// What happens to frames, in each direction.
    pub conditions: Conditions,
    /// Decides everything random; the same frames meet the same fate again.
    pub seed: u64,
    /// The core that the emulator is pinned to; `null`: any.
    pub core: Option<usize>,
}

/// One direction: what the wire did, and how well the emulator did it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct DirectionReport {
    /// What became of frames.
    #[serde(flatten)]
    pub frames: DirectionStatistics,
    /// Frames that the emulator lost against its instructions.
    #[serde(flatten)]
    pub own: OwnLosses,
    /// How late frames left.
    pub late: Lateness,
}

/// What became of the frames of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DirectionStatistics {
    /// Frames that came.
    pub received: u64,
    /// Their bytes, Ethernet headers included.
    pub received_bytes: u64,
    /// Frames that left towards the other side, copies included.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Lost because it was asked for, each by itself.
    pub lost_random: u64,
    /// Lost because it was asked for, in bursts.
    pub lost_burst: u64,
    /// Dropped because the queue before the limited rate was full.
    pub drop_queue_full: u64,
    /// Dropped by the emulator itself: no memory for more frames under way.
    pub drop_held_full: u64,
    /// Held back so that others passed.
    pub reordered: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Damaged.
    pub corrupted: u64,
    /// Marked as having met congestion.
    pub marked: u64,
    /// Frames under way now.
    pub held_frames: u64,
    /// The memory that they take.
    pub held_bytes: u64,
}

impl DirectionStatistics {
    /// Lost because it was asked for.
    pub fn lost(&self) -> u64 {
        self.lost_random + self.lost_burst + self.drop_queue_full
    }
}

/// Frames that the emulator or the kernel around it lost against its instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnLosses {
    /// Came while the receive ring was full: the emulator was kept from the processor for too long.
    pub own_rx_ring_full: u64,
    /// Dropped by the kernel before the receive ring for other reasons.
    pub own_rx_dropped: u64,
    /// Came faster than the interface takes them: sent by side's kernel or program into a full veth.
    pub own_arrival_dropped: u64,
    /// Not taken by the other side's interface.
    pub own_departure_dropped: u64,
}

impl OwnLosses {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.own_rx_ring_full
            + self.own_rx_dropped
            + self.own_arrival_dropped
            + self.own_departure_dropped
    }
}
