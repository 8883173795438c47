//! Which request is on which stream of a connection.
//!
//! They stand in the order of their streams, in which requests begin. Most end in nearly this order, too, so that one mostly stands as far
//! behind the first as its stream does. Where some between have ended, it is found by halving.

use std::collections::VecDeque;

use exos_inet::tcp::ConnectionId;
use quinn_proto::StreamId;

/// The requests of a connection.
#[derive(Default)]
pub(super) struct Streams(VecDeque<(StreamId, ConnectionId)>);

impl Streams {
    /// Adds one, on a stream behind those of all that have been added.
    pub(super) fn push(&mut self, stream: StreamId, request: ConnectionId) {
        debug_assert!(self.0.back().is_none_or(|(last, _)| *last < stream));
        self.0.push_back((stream, request));
    }

    pub(super) fn get(&self, stream: StreamId) -> Option<ConnectionId> {
        self.place(stream).map(|at| self.0[at].1)
    }

    pub(super) fn remove(&mut self, stream: StreamId) -> Option<ConnectionId> {
        let (_, request) = self.0.remove(self.place(stream)?)?;
        Some(request)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (StreamId, ConnectionId)> {
        self.0.iter().copied()
    }

    fn place(&self, stream: StreamId) -> Option<usize> {
        let (first, _) = self.0.front()?;
        let behind = stream.index().checked_sub(first.index())? as usize;
        match self.0.get(behind) {
            Some((it, _)) if *it == stream => Some(behind),
            _ => self.0.binary_search_by_key(&stream, |(it, _)| *it).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use quinn_proto::{Dir, Side};

    use super::*;

    #[test]
    fn each_is_found_until_it_is_removed() {
        let stream = |number| StreamId::new(Side::Client, Dir::Bi, number);
        let mut streams = Streams::default();
        for number in 0..200 {
            streams.push(stream(number), ConnectionId::from_bits(number));
            // Every third goes on; others end as they began, but one behind another.
            let over = number ^ 1;
            if over % 3 != 0 && over <= number {
                assert!(streams.remove(stream(over)).is_some());
                assert!(streams.remove(stream(over)).is_none());
            }
        }
        let left: Vec<_> = streams.iter().collect();
        assert!(left.is_sorted() && left.len() < 200);
        for (at, request) in left {
            assert_eq!(streams.get(at), Some(request));
            assert_eq!(at, stream(request.to_bits()));
            assert_eq!(streams.remove(at), Some(request));
        }
        assert!(streams.is_empty());
    }
}
