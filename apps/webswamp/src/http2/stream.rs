//! The streams of a connection that are open, by number.
//!
//! Numbers only grow, so streams stand in their order: a new one comes behind all others, and one is found by halving.

use std::collections::VecDeque;

use exos_buf::Slice;
use exos_http2::StreamId;

/// A request under way.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) id: StreamId,
    /// Whose it is.
    pub(super) slot: u32,
    /// The head of its response has come.
    pub(super) has_head: bool,
    /// Its response has no content, whatever its head says (RFC 9110 §9.3.2).
    pub(super) is_head: bool,
    /// The length of the content, where the head says it.
    pub(super) length: Option<u64>,
    /// Content that has come.
    pub(super) came: u64,
    /// Bytes that have come and whose room was not given back.
    pub(super) owed: u32,
    /// How much of a body may be sent.
    pub(super) window: i64,
    /// What is left to send of a body.
    pub(super) upload: Option<Slice>,
}

impl Stream {
    /// The content is as long as the head says, or the head says nothing, or nothing of content (RFC 9113 §8.1.1).
    pub(super) fn is_whole(&self) -> bool {
        self.is_head || self.length.is_none_or(|length| length == self.came)
    }
}

/// Those that are open.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams(VecDeque<Stream>);

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// One with a number above all others.
    pub(super) fn push(&mut self, stream: Stream) {
        debug_assert!(self.0.back().is_none_or(|last| last.id < stream.id));
        self.0.push_back(stream);
    }

    pub(super) fn find(&self, id: StreamId) -> Option<usize> {
        self.0.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    pub(super) fn get(&mut self, id: StreamId) -> Option<&mut Stream> {
        let place = self.find(id)?;
        Some(&mut self.0[place])
    }

    pub(super) fn remove(&mut self, id: StreamId) -> Option<Stream> {
        let place = self.find(id)?;
        self.0.remove(place)
    }

    /// The last one, where its number is above this.
    pub(super) fn pop_above(&mut self, id: StreamId) -> Option<Stream> {
        let is_above = self.0.back().is_some_and(|last| last.id > id);
        is_above.then(|| self.0.pop_back()).flatten()
    }

    pub(super) fn of_slot(&self, slot: u32) -> Option<StreamId> {
        let found = self.0.iter().find(|stream| stream.slot == slot);
        found.map(|stream| stream.id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.0.iter_mut()
    }
}
