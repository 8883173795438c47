//! What came of `send`: each way, and each of its runs.

use super::cell::Cell;
use super::way::Way;
use crate::report::{case, median, outcomes};

case! {
    /// Frames of one length, and how many of them leave at a time.
    pub struct Send in "send/bytes/batch" from (cell: Cell) {
        /// `send/LENGTH/BATCH`.
        name: String = cell.to_string();
        /// Bytes of a frame, without its check sequence.
        frame_bytes: usize = cell.frame_bytes;
        /// Frames that are handed to the kernel at a time.
        batch: usize = cell.count as usize;
    } of {
        /// What each way did.
        results: SendOutcome;
    }
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
