//! Relaying: frames that are received, changed in place and sent again.
//!
//! The chunk of such a frame goes from the receive ring to the transmit ring, and nothing is copied.
//! For the account of chunks that is the same as to give one back and to take another: the fill ring
//! is owed one, and there is one less to spare. So a frame is relayed only while there is one to
//! spare, and reception never starves. What has come past the ring, into memory of its own, is copied.

use super::super::socket::Descriptor;
use super::Queue;
use super::receive::Came;
use crate::limits::ETHERNET_HEADER_LEN;
use crate::meta::{Relay, RxMeta};

impl Queue {
    /// Calls `take` for each frame that is there, up to a batch, and queues those that are to be sent on.
    pub(in super::super) fn relay(
        &mut self,
        mut take: impl FnMut(&mut [u8], RxMeta) -> Relay,
    ) -> usize {
        self.take_batch(|queue, came| match came {
            Came::Piece(piece) => {
                let whole = piece.options & Descriptor::CONTINUED == 0 && queue.pieces.is_empty();
                if whole {
                    queue.relay_in_place(piece, &mut take)
                } else {
                    queue.relay_copy(piece, &mut take)
                }
            }
            Came::Frame(frame) => {
                let meta = queue.count_arrived(frame);
                if take(frame, meta) == Relay::Onward && queue.may_leave(frame.len()) {
                    queue.transmit(frame, &[]);
                }
                true
            }
        })
    }

    /// A frame in one chunk. False when there is none.
    #[inline]
    fn relay_in_place(
        &mut self,
        piece: Descriptor,
        take: &mut impl FnMut(&mut [u8], RxMeta) -> Relay,
    ) -> bool {
        let meta = RxMeta {
            checksum: self.rx_checksum,
            ..RxMeta::default()
        };
        let Some(bytes) = self.umem.bytes_mut(piece.address, piece.len) else {
            self.counters.rx_bad_descriptor += 1;
            return false;
        };
        self.counters.rx_frames += 1;
        self.counters.rx_bytes += u64::from(piece.len);
        if take(bytes, meta) == Relay::Done || !self.send_on(piece) {
            self.umem.give(piece.address);
        }
        true
    }

    /// Puts the chunk of a received frame into the transmit ring; false when it stays with us.
    #[inline]
    fn send_on(&mut self, piece: Descriptor) -> bool {
        if !self.may_leave(piece.len as usize) {
            return false;
        }
        if !self.has_room_for(1) {
            self.counters.tx_no_room += 1;
            return false;
        }
        self.queued.push(piece);
        self.in_flight += 1;
        self.counters.tx_frames += 1;
        self.counters.tx_bytes += u64::from(piece.len);
        true
    }

    /// False, and counted, for what came and cannot be sent: no interface sends a frame longer than its own.
    fn may_leave(&mut self, len: usize) -> bool {
        let may = (ETHERNET_HEADER_LEN..=self.frame_len_max).contains(&len);
        self.counters.rx_too_long += u64::from(!may);
        may
    }

    /// A piece of a frame that spans chunks: the last one has the frame joined, taken, and copied where it
    /// is sent on.
    #[cold]
    fn relay_copy(
        &mut self,
        piece: Descriptor,
        take: &mut impl FnMut(&mut [u8], RxMeta) -> Relay,
    ) -> bool {
        let mut frame = Vec::new();
        let mut meta = RxMeta::default();
        let whole = self.deliver(piece, &mut |bytes: &[u8], said| {
            frame.extend_from_slice(bytes);
            meta = said;
        });
        if whole && take(&mut frame, meta) == Relay::Onward && self.may_leave(frame.len()) {
            self.transmit(&frame, &[]);
        }
        whole
    }
}
