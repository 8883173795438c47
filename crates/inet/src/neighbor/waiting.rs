//! Frames that wait for a neighbour's link address, a bounded number of bytes of them: for each neighbour, and for all.

use std::collections::VecDeque;

use crate::limits::{
    NEIGHBOR_BYTES_MAX, NEIGHBOR_FRAME_OVERHEAD, NEIGHBOR_FRAMES_MIN, NEIGHBORS_BYTES_MAX,
};

/// The frames that wait for one neighbour, the oldest first.
#[derive(Debug, Default)]
pub(super) struct FrameQueue {
    frames: VecDeque<Vec<u8>>,
    /// What they cost, in bytes.
    cost: usize,
}

impl FrameQueue {
    /// Takes a frame; `total` is what those of all neighbours cost. The oldest go when there are too many: how many.
    pub fn push(&mut self, frame: Vec<u8>, total: &mut usize) -> u64 {
        let (cost, mut dropped) = (cost_of(&frame), 0);
        while self.frames.len() >= NEIGHBOR_FRAMES_MIN
            && (self.cost + cost > NEIGHBOR_BYTES_MAX || *total + cost > NEIGHBORS_BYTES_MAX)
            && let Some(oldest) = self.frames.pop_front()
        {
            self.cost -= cost_of(&oldest);
            *total -= cost_of(&oldest);
            dropped += 1;
        }
        self.cost += cost;
        *total += cost;
        self.frames.push_back(frame);
        dropped
    }

    /// All of them, to be sent or given up.
    pub fn take(&mut self, total: &mut usize) -> Vec<Vec<u8>> {
        *total -= std::mem::take(&mut self.cost);
        std::mem::take(&mut self.frames).into()
    }

    #[cfg(test)]
    pub fn check(&self) -> (usize, usize) {
        let cost: usize = self.frames.iter().map(|frame| cost_of(frame)).sum();
        assert_eq!(self.cost, cost);
        assert!(cost <= NEIGHBOR_BYTES_MAX);
        (self.frames.len(), cost)
    }
}

/// What a frame costs while it waits, in bytes.
pub(super) fn cost_of(frame: &[u8]) -> usize {
    frame.len() + NEIGHBOR_FRAME_OVERHEAD
}
