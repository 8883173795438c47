//! The frames that wait: a queue with a bound.

use std::collections::VecDeque;

use crate::limits::{LOOPBACK_BYTES_MAX, LOOPBACK_FRAME_OVERHEAD, LOOPBACK_FRAMES_KEPT};

/// Frames on their way to ourselves.
#[derive(Debug, Default)]
pub(in crate::stack) struct Loopback {
    waiting: VecDeque<Vec<u8>>,
    /// Of `waiting`, with [`LOOPBACK_FRAME_OVERHEAD`] for each.
    bytes: usize,
    /// Their memory, to be used again.
    free: Vec<Vec<u8>>,
}

impl Loopback {
    /// True when nothing waits.
    #[inline]
    pub(in crate::stack) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Keep a frame made of these parts; false where there is no room.
    pub(super) fn push(&mut self, head: &[u8], body: &[&[u8]]) -> bool {
        if self.bytes >= LOOPBACK_BYTES_MAX {
            return false;
        }
        let mut frame = self.free.pop().unwrap_or_default();
        frame.extend_from_slice(head);
        body.iter().for_each(|part| frame.extend_from_slice(part));
        self.bytes += frame.len() + LOOPBACK_FRAME_OVERHEAD;
        self.waiting.push_back(frame);
        true
    }

    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let frame = self.waiting.pop_front()?;
        self.bytes -= frame.len() + LOOPBACK_FRAME_OVERHEAD;
        Some(frame)
    }

    pub(super) fn give_back(&mut self, mut frame: Vec<u8>) {
        if self.free.len() < LOOPBACK_FRAMES_KEPT {
            frame.clear();
            self.free.push(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_in_order_and_their_memory_is_used_again() {
        let mut loopback = Loopback::default();
        for round in 0..3_u8 {
            assert!(loopback.push(&[round, 1], &[&[2], &[3, 4]]));
            assert!(loopback.push(&[round], &[]));
            let first = loopback.pop().unwrap();
            assert_eq!(first, [round, 1, 2, 3, 4]);
            loopback.give_back(first);
            assert_eq!(loopback.pop().unwrap(), [round]);
            assert!(loopback.is_empty() && loopback.bytes == 0);
        }
        assert_eq!(loopback.free.len(), 1);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut loopback = Loopback::default();
        let frame = [0; 1514];
        let taken = (0..).take_while(|_| loopback.push(&frame, &[])).count();
        assert_eq!(
            taken,
            LOOPBACK_BYTES_MAX.div_ceil(1514 + LOOPBACK_FRAME_OVERHEAD)
        );
        assert!(loopback.pop().is_some() && loopback.push(&frame, &[]));
    }
}
