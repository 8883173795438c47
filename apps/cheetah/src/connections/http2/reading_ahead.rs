//! How much of long files the streams of a connection may hold: together as much as one connection of HTTP/1.1, and nothing of what no
//! window lets go. Streams that get nothing wait in a row.

use exos_http2::StreamId;

use super::Http2;
use crate::limits::{CHUNK_LEN, REACH_MAX};

impl Http2 {
    /// How much of `wanted` bytes may be read ahead on a stream that holds this many chunks. One that holds none and gets none is in the row.
    pub(super) fn read_ahead(&mut self, id: StreamId, wanted: usize, chunks: usize) -> usize {
        let Some(stream) = self.find(id) else {
            return wanted;
        };
        let (before, queued) = (stream.chunks, stream.queue_len());
        stream.chunks = chunks;
        self.chunks = self.chunks + chunks - before;
        if wanted == 0 {
            return 0;
        }
        let room = self.core.room(id).saturating_sub(queued);
        let left = match chunks {
            0 if self.is_another_starved(id) => 0,
            0 => REACH_MAX.saturating_sub(self.chunks),
            // The half of it is for those that hold none.
            _ => (REACH_MAX / 2).saturating_sub(self.chunks),
        };
        let most = wanted.min(room).min(left * CHUNK_LEN);
        if most == 0 && chunks == 0 && !self.starved.contains(&id) {
            self.starved.push_back(id);
        }
        most
    }

    /// Another one is before it in the row.
    fn is_another_starved(&self, id: StreamId) -> bool {
        let mut before = self.starved.iter().take_while(|other| **other != id);
        before.any(|other| self.core.room(*other) > 0)
    }

    /// The stream that may have some now, first in the row.
    pub(super) fn next_starved(&self) -> Option<StreamId> {
        let mut starved = self.starved.iter().copied();
        starved.find(|id| self.chunks < REACH_MAX && self.core.room(*id) > 0)
    }

    /// It is in the row.
    pub(super) fn is_starved(&self, id: StreamId) -> bool {
        self.starved.contains(&id)
    }

    /// It is in the row no longer.
    pub(super) fn leave_row(&mut self, id: StreamId) {
        self.starved.retain(|other| *other != id);
    }
}
