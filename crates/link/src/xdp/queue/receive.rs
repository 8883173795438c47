//! Receiving: from the receive ring to the caller and back to the fill ring.
//!
//! What comes past the ring into memory of its own ([`Arrivals`]) is taken in the same turn,
//! the older way first.
//!
//! A share of what waits ([`super::share`]) is read, each frame lent to the caller where it lies, and all chunks given back together. A frame that spans chunks (its
//! interface has a large MTU) is joined in a buffer first. What a descriptor
//! says is checked before it is believed.

use super::super::arrivals::Arrivals;
use super::super::socket::Descriptor;
use super::{Counters, Queue};
use crate::limits::{FETCH_AHEAD, GSO_FRAME_LEN_MAX, RX_SHARE_MAX};
use crate::meta::RxMeta;

/// Bytes of the time that a stamping dispatcher puts before a packet.
const STAMP_LEN: u64 = 8;

/// What has come, and is to be taken.
pub(super) enum Came<'a> {
    /// Into the receive ring: a frame, or a piece of one.
    Piece(Descriptor),
    /// A frame, past the ring.
    Frame(&'a mut [u8]),
}

impl Queue {
    /// Calls `take` for each frame that is there, up to a share of them.
    pub(in super::super) fn receive(&mut self, mut take: impl FnMut(&[u8], RxMeta)) -> usize {
        self.take_batch(|queue, came| match came {
            Came::Piece(piece) => queue.deliver(piece, &mut take),
            Came::Frame(frame) => {
                let meta = queue.count_arrived(frame);
                take(frame, meta);
                true
            }
        })
    }

    /// A frame that came past the ring: what is said of it.
    pub(super) fn count_arrived(&mut self, frame: &[u8]) -> RxMeta {
        self.counters.rx_frames += 1;
        self.counters.rx_bytes += frame.len() as u64;
        RxMeta {
            checksum: self.rx_checksum,
            ..RxMeta::default()
        }
    }

    /// Shows frames that are there, without taking them; those in several chunks, and what is no frame, are left out.
    pub(in super::super) fn look(&mut self, count: u32, each: &mut impl FnMut(&[u8])) {
        let ready = self.sound(|link| link.socket.rx.peek(count)).unwrap_or(0);
        let mut inside = !self.pieces.is_empty();
        for i in 0..ready {
            let piece = self.socket.rx.read(i);
            let continued = piece.options & Descriptor::CONTINUED != 0;
            if !inside
                && !continued
                && let Some(bytes) = self.umem.bytes(piece.address, piece.len)
            {
                each(bytes);
            }
            inside = continued;
        }
        if let Some(arrivals) = &self.arrivals {
            arrivals.look(count - ready, each);
        }
    }

    /// Hands what is there, up to a share of it, to `each`, which says whether it completed a frame; gives how many did.
    #[inline]
    pub(super) fn take_batch(
        &mut self,
        mut each: impl FnMut(&mut Self, Came<'_>) -> bool,
    ) -> usize {
        let ready = self
            .sound(|link| link.socket.rx.peek(2 * RX_SHARE_MAX))
            .unwrap_or(0);
        let Some(mut arrivals) = self.arrivals.take() else {
            let share = self.share.of(ready);
            return self.take_from_ring(share, &mut each);
        };
        // Looked at after the ring: what is in there and was put into memory before it is seen.
        let older = arrivals.are_older();
        let most = self.share.of(ready + arrivals.waiting());
        let (mut here, mut by_interface) = (0, 0);
        if older {
            here = arrivals.take(most, |frame| {
                each(self, Came::Frame(frame));
            });
        }
        if !older || arrivals.are_taken() {
            let most = ready.min(most - here as u32);
            by_interface = self.take_from_ring(most, &mut each);
        }
        if !older {
            here = arrivals.take(most - by_interface as u32, |frame| {
                each(self, Came::Frame(frame));
            });
        }
        arrivals.settle(here, by_interface);
        self.arrivals = Some(arrivals);
        here + by_interface
    }

    /// Hands this many descriptors, which are there, to `each`; gives how many completed a frame. The kernel then gets chunks in the
    /// place of those that it gave.
    #[inline]
    fn take_from_ring(
        &mut self,
        ready: u32,
        each: &mut impl FnMut(&mut Self, Came<'_>) -> bool,
    ) -> usize {
        if ready == 0 {
            return 0;
        }
        let mut frames = 0;
        let fetch = |queue: &Self, i| {
            let piece = queue.socket.rx.read(i);
            queue.umem.prefetch(piece.address, piece.len);
        };
        (0..ready.min(FETCH_AHEAD)).for_each(|i| fetch(self, i));
        for i in 0..ready {
            if i + FETCH_AHEAD < ready {
                fetch(self, i + FETCH_AHEAD);
            }
            let piece = self.socket.rx.read(i);
            frames += usize::from(each(self, Came::Piece(piece)));
        }
        self.socket.rx.release(ready);
        self.owed += ready;
        self.refill();
        frames
    }

    /// Gives one descriptor's bytes on. True when that completed a frame.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        piece: Descriptor,
        take: &mut impl FnMut(&[u8], RxMeta),
    ) -> bool {
        let Some(bytes) = self.umem.bytes(piece.address, piece.len) else {
            self.counters.rx_bad_descriptor += 1;
            // Of a frame in pieces nothing is left: its end finds it too long.
            if piece.options & Descriptor::CONTINUED != 0 || !self.pieces.is_empty() {
                self.pieces.resize(GSO_FRAME_LEN_MAX + 1, 0);
            }
            return false;
        };
        // The time lies before the first piece.
        if self.stamped && self.pieces.is_empty() {
            self.arrived_ns = piece.address.checked_sub(STAMP_LEN).and_then(|before| {
                let stamp = self.umem.bytes(before, STAMP_LEN as u32)?;
                Some(u64::from_ne_bytes(stamp.try_into().ok()?))
            });
        }
        let meta = RxMeta {
            checksum: self.rx_checksum,
            gso_size: None,
            datagrams: false,
            arrived_ns: self.arrived_ns,
        };
        let last = piece.options & Descriptor::CONTINUED == 0;
        let whole = if last && self.pieces.is_empty() {
            self.counters.rx_bytes += bytes.len() as u64;
            take(bytes, meta);
            true
        } else {
            join(&mut self.pieces, bytes, last, &mut self.counters, |frame| {
                take(frame, meta)
            })
        };
        self.counters.rx_frames += u64::from(whole);
        self.umem.give(piece.address);
        whole
    }

    pub(super) fn refill(&mut self) {
        let owed = self.owed;
        let given = self.sound(|link| link.socket.refill(&mut link.umem, owed));
        self.owed -= given.unwrap_or(0);
        self.socket.wake_rx_if_asked();
    }

    /// What is to be done now and then also by those who do not sleep: gives the kernel what it is owed to receive into, and notices
    /// an interface that has gone, of which the next flush tells.
    pub(in super::super) fn look_after(&mut self) {
        self.refill_if_owed();
        let ready = self.sound(|link| link.socket.rx.peek(1)).unwrap_or(0);
        // Asked because poll(2) says nothing of it.
        self.gone |= ready == 0 && !self.socket.is_alive();
    }

    fn refill_if_owed(&mut self) {
        if self.owed > 0 {
            self.refill();
        }
    }

    /// False when a frame is there already, or when the interface has gone, as far as is known
    /// ([`look_after`](Self::look_after)), of which the next flush tells. To be called after the caller has found nothing
    /// to do and before it sleeps on the descriptor: from then on all that comes makes that readable.
    pub(in super::super) fn prepare_next_wait(&mut self) -> bool {
        self.refill_if_owed();
        let may = self.arrivals.as_mut().is_none_or(Arrivals::prepare_wait);
        let ready = self.sound(|link| link.socket.rx.peek(1)).unwrap_or(0);
        let may = may && ready == 0 && !self.gone;
        if may && let Some(arrivals) = &mut self.arrivals {
            arrivals.wait_for_no_more();
        }
        may
    }
}

/// Collects the pieces of a frame that spans chunks. True when it was whole and
/// has been taken. One that is longer than any frame is dropped and counted.
#[cold]
fn join(
    pieces: &mut Vec<u8>,
    bytes: &[u8],
    last: bool,
    counters: &mut Counters,
    take: impl FnOnce(&[u8]),
) -> bool {
    // What is too long stays at one byte over, and is dropped at its end.
    let keep = bytes.len().min(GSO_FRAME_LEN_MAX + 1 - pieces.len());
    pieces.extend_from_slice(&bytes[..keep]);
    if !last {
        return false;
    }
    let whole = pieces.len() <= GSO_FRAME_LEN_MAX;
    if whole {
        counters.rx_multi_chunk += 1;
        counters.rx_bytes += pieces.len() as u64;
        take(pieces);
    } else {
        counters.rx_too_long += 1;
    }
    pieces.clear();
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Joins pieces of these lengths; returns the lengths of the frames taken.
    fn join_all(lens: &[usize], counters: &mut Counters) -> Vec<usize> {
        let (mut pieces, mut taken) = (Vec::new(), Vec::new());
        for (i, &len) in lens.iter().enumerate() {
            let last = i + 1 == lens.len();
            let whole = join(&mut pieces, &vec![i as u8; len], last, counters, |frame| {
                assert!(frame.is_sorted(), "pieces in order");
                taken.push(frame.len());
            });
            assert_eq!(whole, last && !taken.is_empty());
        }
        assert!(pieces.is_empty(), "the next frame begins again");
        taken
    }

    #[test]
    fn pieces_become_a_frame() {
        let mut counters = Counters::default();
        assert_eq!(join_all(&[3840, 3840, 1320], &mut counters), [9000]);
        assert_eq!(join_all(&[1, 0], &mut counters), [1]);
        assert_eq!((counters.rx_multi_chunk, counters.rx_bytes), (2, 9001));
    }

    #[test]
    fn a_frame_longer_than_any_is_dropped_and_counted() {
        let mut counters = Counters::default();
        assert_eq!(
            join_all(&[GSO_FRAME_LEN_MAX, 0], &mut counters),
            [GSO_FRAME_LEN_MAX]
        );
        assert_eq!(join_all(&[GSO_FRAME_LEN_MAX, 1], &mut counters), []);
        assert_eq!(join_all(&[3840; 100], &mut counters), []);
        assert_eq!((counters.rx_too_long, counters.rx_multi_chunk), (2, 1));
    }
}
