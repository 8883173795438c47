//! Sending: from the caller's pieces to chunks, from there to the kernel at a flush, and the
//! chunks back.
//!
//! A frame is copied once, into its chunk. At the flush the batch goes into the transmit ring, whose chunks come back by the
//! completion ring, or, where it is cheaper, to the kernel as live frames, whose chunks are free at once. Chunks of frames that have been sent are collected in
//! batches, when a batch is due or when there is need. The kernel is called once
//! per flush, and again only as long as it sends less than all.

use std::io;
use std::time::Instant;

use super::super::send_path::SendPath;
use super::super::socket::Descriptor;
use super::Queue;
use super::batches::Batches;
use crate::limits::{COMPLETION_BATCH, ETHERNET_HEADER_LEN, KICKS_MAX};

impl Queue {
    /// How many frames may be queued now.
    pub(in super::super) fn room(&mut self) -> usize {
        if self.in_flight >= COMPLETION_BATCH {
            self.collect_sent();
        }
        let slots = self.slots(self.socket.tx.capacity());
        let chunks_per_frame = self.chunks_for(self.frame_len_max);
        self.spare_chunks().min(slots) / chunks_per_frame
    }

    /// Whether many frames leave by one call now.
    pub(in super::super) fn has_batches(&mut self) -> bool {
        let batches = self.batches.as_mut();
        self.costs.may_batch(usize::MAX) && batches.is_some_and(|b| b.are_usable(Instant::now()))
    }

    /// Queues one frame; false when there is no room.
    pub(in super::super) fn transmit(&mut self, head: &[u8], body: &[&[u8]]) -> bool {
        let len = head.len() + body.iter().map(|part| part.len()).sum::<usize>();
        let len_max = self.frame_len_max;
        assert!(
            len <= len_max,
            "a frame of {len} bytes on a link that takes {len_max}"
        );
        assert!(
            len >= ETHERNET_HEADER_LEN,
            "a frame of {len} bytes has no Ethernet header"
        );
        let chunks = self.chunks_for(len);
        if !self.has_room_for(chunks) {
            self.counters.tx_no_room += 1;
            return false;
        }
        if chunks == 1 {
            self.queue_whole(head, body, len as u32);
        } else {
            self.queue_pieces(head, body, len);
        }
        self.in_flight += chunks as u32;
        self.counters.tx_frames += 1;
        self.counters.tx_bytes += len as u64;
        true
    }

    fn queue_whole(&mut self, head: &[u8], body: &[&[u8]], len: u32) {
        let (address, chunk) = self.take_chunk(len);
        let (start, mut rest) = chunk.split_at_mut(head.len());
        start.copy_from_slice(head);
        for part in body {
            let (here, after) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = after;
        }
        self.queued.push(Descriptor {
            address,
            len,
            options: 0,
        });
    }

    /// A frame larger than a chunk: one descriptor for each piece, all but the
    /// last saying that it goes on.
    fn queue_pieces(&mut self, head: &[u8], body: &[&[u8]], len: usize) {
        let parts = std::iter::once(head).chain(body.iter().copied());
        let mut bytes = parts.filter(|part| !part.is_empty());
        let mut part: &[u8] = &[];
        let mut left = len;
        while left > 0 {
            let size = left.min(self.umem.chunk_size() as usize);
            let (address, mut chunk) = self.take_chunk(size as u32);
            while !chunk.is_empty() {
                if part.is_empty() {
                    part = bytes.next().expect("the parts add up to the length");
                }
                let count = chunk.len().min(part.len());
                let (here, after) = chunk.split_at_mut(count);
                here.copy_from_slice(&part[..count]);
                (chunk, part) = (after, &part[count..]);
            }
            left -= size;
            let options = if left > 0 { Descriptor::CONTINUED } else { 0 };
            self.queued.push(Descriptor {
                address,
                len: size as u32,
                options,
            });
        }
    }

    fn take_chunk(&mut self, len: u32) -> (u64, &mut [u8]) {
        let address = self.umem.take().expect("room was checked");
        (
            address,
            self.umem
                .bytes_mut(address, len)
                .expect("a piece fits a chunk"),
        )
    }

    pub(super) fn has_room_for(&mut self, chunks: usize) -> bool {
        if self.spare_chunks() < chunks {
            self.collect_sent();
        }
        self.spare_chunks() >= chunks && self.slots(chunks as u32) >= chunks
    }

    /// Entries of the transmit ring, up to `want`, for more than what is queued.
    fn slots(&mut self, want: u32) -> usize {
        let queued = self.queued.len() as u32;
        let slots = self.sound(|link| link.socket.tx.reserve(queued + want));
        (slots.unwrap_or(0) as usize).saturating_sub(queued as usize)
    }

    /// Free chunks that the fill ring does not wait for.
    fn spare_chunks(&self) -> usize {
        self.umem.free().saturating_sub(self.owed as usize)
    }

    fn chunks_for(&self, len: usize) -> usize {
        len.div_ceil(self.umem.chunk_size() as usize).max(1)
    }

    pub(super) fn collect_sent(&mut self) {
        if let Some((count, strange)) = self.sound(|link| link.socket.collect_sent(&mut link.umem))
        {
            self.in_flight = self.in_flight.saturating_sub(count);
            self.counters.tx_bad_completion += u64::from(strange);
        }
        if self.owed > 0 {
            self.refill();
        }
    }

    /// Sends what was queued, as far as the kernel takes it now.
    pub(in super::super) fn flush(&mut self) -> io::Result<()> {
        self.share.end_turn();
        let result = self.send_queued();
        if self.in_flight >= COMPLETION_BATCH {
            self.collect_sent();
        }
        match self.fault {
            Some(fault) => Err(io::Error::other(fault)),
            None if self.gone => Err(io::Error::from_raw_os_error(libc::ENODEV)),
            None => result,
        }
    }

    /// Frames were queued since the last flush.
    pub(in super::super) fn has_uncommitted(&self) -> bool {
        !self.queued.is_empty()
    }

    /// A batch leaves by the cheaper path; what the ring has not sent yet leaves first.
    fn send_queued(&mut self) -> io::Result<()> {
        let frames = self.queued.len();
        if !self.costs.may_batch(frames) || self.unsent() > 0 {
            return self.send_by_ring();
        }
        let bytes = self.queued.iter().map(|frame| frame.len as usize).sum();
        let mut begin = Instant::now();
        let mut path = SendPath::Ring;
        let mut before = None;
        if let Some(batches) = &mut self.batches
            && batches.takes(&self.queued, begin)
        {
            if self.costs.is_watched(frames, bytes) {
                before = batches.lost();
                begin = Instant::now();
            }
            path = self.costs.choose(frames, bytes);
            if path != SendPath::Ring {
                let done = batches.send(path, &self.queued, &self.umem, &mut self.returned);
                self.forget_sent(done);
                if done == 0 {
                    path = SendPath::Ring;
                }
            }
        }
        // Behind the others: what did not fit, what the kernel had no room for, or nobody could check.
        let result = self.send_by_ring();
        self.costs.learn(frames, bytes, path, begin.elapsed());
        if let Some(before) = before {
            let after = self.batches.as_ref().and_then(Batches::lost);
            let lost = after.unwrap_or(before).saturating_sub(before);
            self.costs.learn_lost(frames, bytes, path, lost);
        }
        result
    }

    /// The first of the queued frames have left, but for those that were returned: these are the first now.
    fn forget_sent(&mut self, count: usize) {
        let mut returned = self.returned.iter().peekable();
        for frame in &self.queued[..count] {
            if returned.next_if(|r| r.address == frame.address).is_none() {
                self.umem.give(frame.address);
            }
        }
        let left = (count - self.returned.len()) as u32;
        self.in_flight = self.in_flight.saturating_sub(left);
        self.queued.splice(..count, self.returned.drain(..));
    }

    fn send_by_ring(&mut self) -> io::Result<()> {
        for frame in self.queued.drain(..) {
            self.socket.tx.write(frame);
        }
        self.socket.tx.commit();
        self.kick_until_sent()
    }

    /// In copy mode each call sends a limited number of packets; goes on until
    /// all are sent or the kernel makes no progress.
    fn kick_until_sent(&mut self) -> io::Result<()> {
        let mut before = self.unsent();
        for _ in 0..KICKS_MAX {
            if before == 0 || self.socket.tx.flags() & libc::XDP_RING_NEED_WAKEUP == 0 {
                return Ok(());
            }
            self.counters.tx_kicks += 1;
            let result = self.socket.kick_tx();
            let after = self.unsent();
            match result.map_err(|error| (error.raw_os_error(), error)) {
                Ok(()) => {}
                Err((Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR), _)) => {
                    self.counters.tx_kernel_busy += u64::from(after == before);
                }
                Err((Some(libc::ENXIO), _)) => {
                    self.gone = true;
                    return Ok(());
                }
                Err((_, error)) => return Err(error),
            }
            if after == before {
                return Ok(());
            }
            before = after;
        }
        Ok(())
    }

    fn unsent(&mut self) -> u32 {
        self.sound(|link| link.socket.tx.pending()).unwrap_or(0)
    }

    /// Frames are queued that the kernel has not taken: wait for writability
    /// too, then flush again.
    pub(in super::super) fn wants_write(&mut self) -> bool {
        self.unsent() > 0
    }
}
