//! The streams of a connection that are not closed, and what is remembered of those that are.

use std::collections::VecDeque;

use crate::frame::StreamId;
use crate::limits::{EARLY_PRIORITIES_MAX, FRAME_LEN_MAX, RESET_REMEMBERED, WINDOW_MAX};
use crate::priority::Priority;
use crate::state::State;

/// A stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: StreamId,
    pub(super) state: State,
    /// What we may send; settings may make it less than nothing (RFC 9113 §6.9.2).
    pub(super) send_window: i32,
    pub(super) receive_window: ReceiveWindow,
    /// What of the body that its head has announced has not come.
    pub(super) length_left: Option<u64>,
    /// It is a tunnel's, which has no fields behind it.
    pub(super) is_tunnel: bool,
    /// What of it has come behind the response.
    pub(super) surplus: u32,
    pub(super) priority: Priority,
}

/// How much a peer may still send.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveWindow {
    /// This much.
    pub(super) left: u32,
    /// What was consumed since the peer was told of it.
    consumed: u32,
    /// All that it may have sent and nobody consumed.
    most: u32,
}

impl ReceiveWindow {
    pub(super) const fn new(most: u32) -> ReceiveWindow {
        ReceiveWindow {
            left: most,
            consumed: 0,
            most,
        }
    }

    /// The peer has sent this much; false where it may not.
    #[must_use]
    pub(super) fn take(&mut self, len: u32) -> bool {
        let left = self.left.checked_sub(len);
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    /// This much of it was consumed: gives by how much the peer is told to open its window, if that is worth a frame.
    #[must_use]
    pub(super) fn consume(&mut self, len: u32) -> Option<u32> {
        self.consumed += len;
        debug_assert!(
            self.left + self.consumed <= self.most,
            "nobody consumes what has not come"
        );
        // What the peer waits for may be little: others hold the rest of the connection's.
        let is_much = self.consumed >= (self.most / 2).min(FRAME_LEN_MAX as u32);
        if self.consumed == 0 || !is_much && self.consumed < self.left {
            return None;
        }
        let by = std::mem::take(&mut self.consumed);
        self.left += by;
        Some(by)
    }
}

/// All streams.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// By their numbers: later ones have higher ones.
    open: Vec<Stream>,
    /// The highest number that was used.
    pub(super) last: StreamId,
    /// How many were opened.
    opened: u32,
    /// Those that we have reset last.
    reset: VecDeque<StreamId>,
    /// Priorities of those that are not open yet.
    early: Vec<(StreamId, Priority)>,
}

impl Streams {
    #[inline]
    fn place(&self, id: StreamId) -> Option<usize> {
        // The last one is meant nearly always.
        match self.open.last() {
            Some(last) if last.id == id => Some(self.open.len() - 1),
            _ => self.open.binary_search_by_key(&id, |stream| stream.id).ok(),
        }
    }

    #[inline]
    pub(super) fn get(&self, id: StreamId) -> Option<&Stream> {
        Some(&self.open[self.place(id)?])
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        let place = self.place(id)?;
        Some(&mut self.open[place])
    }

    pub(super) fn count(&self) -> usize {
        self.open.len()
    }

    /// Those that we have not ended our side of.
    pub(super) fn owed(&self) -> usize {
        self.open
            .iter()
            .filter(|it| it.state != State::HalfClosedLocal)
            .count()
    }

    /// A number that is used from now on.
    pub(super) fn use_number(&mut self, id: StreamId) {
        self.last = id;
        self.opened += 1;
    }

    /// Adds a stream, whose number is the highest.
    pub(super) fn add(&mut self, stream: Stream) {
        self.open.push(stream);
    }

    /// It is closed.
    pub(super) fn remove(&mut self, id: StreamId) {
        if let Some(place) = self.place(id) {
            self.open.remove(place);
        }
    }

    /// It is closed by us: what was under way is nobody's fault.
    pub(super) fn note_reset(&mut self, id: StreamId) {
        if self.reset.len() == RESET_REMEMBERED {
            self.reset.pop_front();
        }
        self.reset.push_back(id);
    }

    /// The peer has given up, too, what we have reset: nothing more of it is under way.
    pub(super) fn forget_reset(&mut self, id: StreamId) {
        self.reset.retain(|its| *its != id);
    }

    pub(super) fn was_reset(&self, id: StreamId) -> bool {
        self.reset.contains(&id)
    }

    /// Whether a number that is not higher than the last one may be one that nobody has used: then it is closed, too (§5.1.1),
    /// but nobody may use it.
    pub(super) fn may_be_skipped(&self) -> bool {
        self.opened != self.last.div_ceil(2)
    }

    /// The peer's settings give all windows as much more, or less; false where one becomes larger than there is.
    #[must_use]
    pub(super) fn change_windows(&mut self, by: i64) -> bool {
        self.open.iter_mut().all(|stream| {
            let window = i64::from(stream.send_window) + by;
            stream.send_window = window.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
            window <= i64::from(WINDOW_MAX)
        })
    }

    /// The priority of a stream that is not open yet.
    pub(super) fn note_early(&mut self, id: StreamId, priority: Priority) {
        self.early.retain(|(its, _)| *its != id && *its > self.last);
        if self.early.len() == EARLY_PRIORITIES_MAX {
            self.early.remove(0);
        }
        self.early.push((id, priority));
    }

    /// What was said of the priority of a stream before it was opened.
    pub(super) fn take_early(&mut self, id: StreamId) -> Option<Priority> {
        let place = self.early.iter().position(|(its, _)| *its == id)?;
        Some(self.early.swap_remove(place).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_opens_when_half_of_it_was_consumed() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.take(60));
        assert_eq!(window.consume(30), None);
        assert_eq!(window.consume(20), Some(50));
        assert_eq!(window.left, 90);
        // A peer that has nothing left hears of anything.
        let mut window = ReceiveWindow::new(100);
        assert!(window.take(60) && window.take(40) && !window.take(1));
        assert_eq!(window.consume(1), Some(1));
    }

    #[test]
    fn numbers_that_were_left_out_are_noticed() {
        let mut streams = Streams::default();
        streams.use_number(1);
        streams.use_number(3);
        assert!(!streams.may_be_skipped());
        streams.use_number(7);
        assert!(streams.may_be_skipped());
    }

    #[test]
    fn little_is_remembered() {
        let mut streams = Streams::default();
        for id in 0..1000 {
            streams.note_reset(id);
            streams.note_early(id + 1, Priority::default());
        }
        assert!(streams.was_reset(999) && !streams.was_reset(500));
        assert_eq!(streams.take_early(1000), Some(Priority::default()));
        assert_eq!(streams.take_early(1000), None);
        assert!(streams.early.len() < EARLY_PRIORITIES_MAX);
    }
}
