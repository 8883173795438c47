//! What one side of a TCP connection, or a stream of QUIC, has sent, in order, of pieces that come as they were captured: out of order,
//! twice, or not at all.

use std::collections::BTreeMap;

use exos_wire::SeqNumber;

use crate::limits::{AHEAD_BYTES_MAX, AHEAD_PIECE_COST};

/// Something of it is not in the capture, and will not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing;

/// One side's bytes. Places in it are counted from its first byte on.
#[derive(Debug)]
pub(super) struct Stream {
    /// Its first byte's number.
    first: SeqNumber,
    /// What is in order and was not taken yet.
    ready: Vec<u8>,
    /// The place where that ends.
    end: u64,
    /// What is behind gaps, by its places: each piece goes on as far as there is no other gap.
    ahead: BTreeMap<u64, Vec<u8>>,
    /// Their bytes, and [`AHEAD_PIECE_COST`] of each.
    ahead_cost: usize,
    ahead_cost_max: usize,
}

impl Stream {
    /// Begins with the byte of this number.
    pub(super) fn new(first: SeqNumber) -> Self {
        Self::with_ahead(first, AHEAD_BYTES_MAX)
    }

    /// Begins with the byte of this number, and has room for so much behind gaps.
    pub(super) fn with_ahead(first: SeqNumber, ahead_cost_max: usize) -> Self {
        Self {
            first,
            ready: Vec::new(),
            end: 0,
            ahead: BTreeMap::new(),
            ahead_cost: 0,
            ahead_cost_max,
        }
    }

    /// Takes a segment's data.
    ///
    /// # Errors
    /// So much has come behind a gap that what is missing was not captured: this is not kept.
    pub(super) fn put(&mut self, seq: SeqNumber, data: &[u8]) -> Result<(), Missing> {
        let distance = seq.0.wrapping_sub(self.next().0).cast_signed();
        let Some(place) = self.end.checked_add_signed(distance.into()) else {
            return Ok(()); // Before the first byte: a probe that keeps the connection alive.
        };
        self.put_at(place, data)
    }

    /// Takes data whose first byte has this place.
    ///
    /// # Errors
    /// As [`Stream::put`].
    pub(super) fn put_at(&mut self, place: u64, data: &[u8]) -> Result<(), Missing> {
        if place > self.end {
            return self.put_ahead(place, data);
        }
        self.put_next(place, data);
        while let Some(entry) = self.ahead.first_entry()
            && *entry.key() <= self.end
        {
            let (place, data) = entry.remove_entry();
            self.ahead_cost -= AHEAD_PIECE_COST + data.len();
            self.put_next(place, &data);
        }
        Ok(())
    }

    /// Takes what is new of data that begins no later than what is in order ends.
    fn put_next(&mut self, place: u64, data: &[u8]) {
        let known = usize::try_from(self.end - place).ok();
        let fresh = known.and_then(|known| data.get(known..));
        let fresh = fresh.unwrap_or_default();
        self.ready.extend_from_slice(fresh);
        self.end += fresh.len() as u64;
    }

    fn put_ahead(&mut self, place: u64, data: &[u8]) -> Result<(), Missing> {
        if self.ahead_cost + AHEAD_PIECE_COST + data.len() > self.ahead_cost_max {
            return Err(Missing);
        }
        let before = self.ahead.range_mut(..=place).next_back();
        let before = before.map(|(at, piece)| ((place - at) as usize, piece));
        if let Some((distance, piece)) = before.filter(|(distance, piece)| *distance <= piece.len())
        {
            let fresh = data.get(piece.len() - distance..).unwrap_or_default();
            piece.extend_from_slice(fresh);
            self.ahead_cost += fresh.len();
        } else {
            self.ahead_cost += AHEAD_PIECE_COST + data.len();
            self.ahead.insert(place, data.to_vec());
        }
        Ok(())
    }

    /// The number of the byte that is next.
    pub(super) fn next(&self) -> SeqNumber {
        SeqNumber(self.first.0.wrapping_add(self.end as u32))
    }

    /// The number of its first byte.
    pub(super) fn first(&self) -> SeqNumber {
        self.first
    }

    /// Gives back its memory.
    pub(super) fn clear(&mut self) {
        *self = Self::with_ahead(self.first, self.ahead_cost_max);
    }

    /// The place where what is in order ends.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// What is behind gaps, with [`AHEAD_PIECE_COST`] of each piece.
    pub(super) fn ahead(&self) -> usize {
        self.ahead_cost
    }

    /// What is in order and was not taken yet.
    pub(super) fn ready(&self) -> &[u8] {
        &self.ready
    }

    /// Takes its first bytes out.
    pub(super) fn consume(&mut self, count: usize) {
        self.ready.drain(..count);
        if self.ready.is_empty() {
            self.ready = Vec::new(); // An idle connection has no buffer.
        }
    }

    /// Bytes that it keeps at most: a piece that grows has up to twice its length.
    pub(super) fn held(&self) -> usize {
        self.ready.capacity() + 2 * self.ahead_cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of a stream in any order, some twice and overlapping, across the wrap of sequence numbers.
    #[test]
    fn any_order_gives_the_same_bytes() {
        let data: Vec<u8> = (0..4000_u32).map(|i| (i % 251) as u8).collect();
        let first = SeqNumber(u32::MAX - 1500);
        let mut random = exos_testing::Random(3);
        for _ in 0..50 {
            let mut stream = Stream::new(first);
            let mut pieces: Vec<usize> = (0..80).map(|i| i % 40 * 100).collect();
            for i in (1..pieces.len()).rev() {
                pieces.swap(i, random.below(i + 1));
            }
            for at in pieces {
                let len = 100 + random.below(200);
                let piece = &data[at..(at + len).min(data.len())];
                let seq = SeqNumber(first.0.wrapping_add(at as u32));
                stream.put(seq, piece).expect("there is room");
            }
            assert_eq!(stream.ready(), data);
            assert_eq!(stream.ahead_cost, 0, "nothing is left ahead");
        }
    }

    #[test]
    fn a_gap_that_is_never_filled_is_told() {
        let mut stream = Stream::new(SeqNumber(1));
        stream.put(SeqNumber(1), b"ab").expect("in order");
        let mut seq = SeqNumber(4);
        let put = (0..AHEAD_BYTES_MAX / 100 + 1).find(|_| {
            seq.0 += 100;
            stream.put(seq, &[0; 100]).is_err()
        });
        assert!(put.is_some() && stream.ahead_cost <= AHEAD_BYTES_MAX);
        assert_eq!(stream.ahead.len(), 1, "there is one gap");
        assert_eq!(stream.ready(), b"ab");
    }

    /// Each piece costs more than its byte.
    #[test]
    fn pieces_behind_gaps_are_bounded() {
        let mut stream = Stream::with_ahead(SeqNumber(0), 64 * 1024);
        let put = (1..64 * 1024).find(|nth| stream.put_at(2 * nth, b"x").is_err());
        assert!(put.is_some_and(|nth| nth <= 64 * 1024 / AHEAD_PIECE_COST as u64));
        assert!(stream.held() >= stream.ahead.len() * 100);
        // What is in order goes on, and makes room.
        for place in [0, 1, 3] {
            stream.put_at(place, b"x").expect("it is next");
        }
        assert_eq!(stream.end(), 5);
        stream.put_at(64 * 1024, b"x").expect("there is room");
    }
}
