//! What came of `send`: each way, and each of its runs.

use super::way::Way;
use crate::report::{Case, median, outcomes};
use schemars::JsonSchema;
use serde::Serialize;

/// Frames of one length, and how many of them leave at a time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Send {
    /// `send/LENGTH/BATCH`.
    pub name: String,
    /// Bytes of a frame, without its check sequence.
    pub frame_bytes: usize,
    /// Frames that are handed to the kernel at a time.
    pub batch: usize,
    /// What each way did.
    pub results: Vec<SendOutcome>,
}

outcomes! {
    /// One way: medians over the runs.
    pub struct SendOutcome of
    /// The way.
    way: Way, "way";
    /// One way in one run.
    pub struct SendRun {
        /// Frames that arrived in a second.
        frames_per_sec: f64 as median, "frames/s" 0;
        /// Time of the sender's core for each frame that it sent: its program and the kernel's work, most of the receiver's too.
        sender_ns_per_frame: f64 as median, "send ns" 0;
        /// Time of the receiver's core for each frame that arrived, while it found some; of iperf3, of its process; of DPDK, what it says.
        receiver_ns_per_frame: f64 as median, "recv ns" 0;
        /// Part of what was sent that did not arrive.
        lost_share: f64 as median, "lost %" 0 |r| 100.0 * r.lost_share;
        /// Part of what was sent that left in live frame mode.
        live_share: f64 as median, "live %" 0 |r| 100.0 * r.live_share;
    }
}

impl Case for Send {
    type Outcome = SendOutcome;
    const NAMES: &'static str = "send/bytes/batch";

    fn parts(&self) -> (&str, &[SendOutcome]) {
        (&self.name, &self.results)
    }
}
