//! A queue of a network interface, through AF_XDP.
//!
//! What the rules claim of the packets that arrive at the queue comes to us, the
//! rest goes on to the host's stack. What we send leaves the interface as it is.
//! How the link is opened, and what can be in the way, is in [`crate::open`];
//! the program in the kernel is [`crate::program`]'s.
//!
//! Rules of the interface:
//!
//! - `receive` lends each frame in place, within the call only: afterwards its
//!   chunk goes back to the kernel.
//! - `transmit` copies the frame once, into UMEM, so that the caller may change
//!   or free its pieces at once. Nothing leaves before `flush`.
//! - In copy mode, which is all that veth has, the kernel sends only within our
//!   calls. What it could not take at a flush stays queued: `wants_write` says
//!   so, and the next flush goes on with it.
//! - Everything is released when the link is dropped, or by the kernel when the
//!   process dies in any way.
//!
//! Invariant on chunks: `free + owed-to-fill + in-flight + lent <= all`, where
//! `owed` of the free ones are kept back from sending, so that reception never
//! starves.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use exos_filter::{Action, Rule};
use exos_ring::PeerFault;
use exos_wire::Mac;

use crate::Error;
use crate::limits::{
    COMPLETION_BATCH, FRAME_OVERHEAD_LEN, GSO_FRAME_LEN_MAX, KICKS_MAX, RX_BATCH, RX_RING_SIZE,
    TX_RING_SIZE,
};
use crate::meta::{Offload, RxChecksum, RxMeta, TxChecksum, TxMeta};
use crate::program::{Mode, Program};
use crate::socket::{Descriptor, Socket};
use crate::umem::Umem;

/// An AF_XDP link. Fields are dropped in their order: first the program, so that
/// packets go to the host again, then the socket, then its memory.
#[derive(Debug)]
pub struct XdpLink {
    pub(crate) program: Program,
    pub(crate) socket: Socket,
    pub(crate) umem: Umem,
    pub(crate) interface: Interface,
    pub(crate) zero_copy: bool,
    /// Chunks that the fill ring should have and does not.
    pub(crate) owed: u32,
    /// Chunks in the transmit ring, with the kernel or in the completion ring.
    pub(crate) in_flight: u32,
    /// A received frame of which the last piece has not come yet.
    pub(crate) pieces: Vec<u8>,
    pub(crate) fault: Option<PeerFault>,
    pub(crate) counters: Counters,
}

/// What the link needs to know of its interface.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) mac: Mac,
    pub(crate) mtu: usize,
    pub(crate) queue: u32,
    pub(crate) queues: u32,
    pub(crate) rx_checksum: RxChecksum,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    rx_frames: u64,
    rx_bytes: u64,
    rx_multi_chunk: u64,
    rx_too_long: u64,
    rx_bad_descriptor: u64,
    tx_frames: u64,
    tx_bytes: u64,
    tx_no_room: u64,
    tx_kicks: u64,
    tx_kernel_busy: u64,
    tx_bad_completion: u64,
}

impl XdpLink {
    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.interface.name
    }

    /// The interface's index.
    pub fn interface(&self) -> u32 {
        self.interface.index
    }

    /// The queue of the interface.
    pub fn queue(&self) -> u32 {
        self.interface.queue
    }

    /// How many queues the interface has. Packets that it steers to another than
    /// ours go to the host's stack: with more than one, steer them
    /// (`ethtool -X`, `ethtool -L`).
    pub fn queues(&self) -> u32 {
        self.interface.queues
    }

    /// The interface's address, which is ours too.
    pub fn mac(&self) -> Mac {
        self.interface.mac
    }

    /// Largest IP packet in bytes.
    pub fn mtu(&self) -> usize {
        self.interface.mtu
    }

    /// None for sending. Received frames of an interface that leads to a kernel
    /// on this machine may have partial checksums.
    pub fn offload(&self) -> Offload {
        Offload {
            rx_partial_checksum: self.interface.rx_checksum == RxChecksum::MaybePartial,
            ..Offload::default()
        }
    }

    /// How the program is attached.
    pub fn mode(&self) -> Mode {
        self.program.mode()
    }

    /// Why native mode was not to be had, when the mode is generic by necessity.
    pub fn native_refusal(&self) -> Option<&Error> {
        self.program.native_refusal()
    }

    /// True when packets are not copied between the driver and UMEM.
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Readable when a frame is there.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Claims other packets from now on. Takes effect at once for each packet
    /// and loses none in between.
    ///
    /// # Errors
    ///
    /// The rules are too many for a program, or the kernel refuses it; the old
    /// ones stay.
    pub fn set_rules(&mut self, rules: &[Rule], otherwise: Action) -> Result<(), Error> {
        self.program.set_rules(rules, otherwise)
    }

    /// Calls `take` for each frame that is there, up to a batch.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8], RxMeta)) -> usize {
        let ready = self
            .sound(|link| link.socket.rx.peek(RX_BATCH))
            .unwrap_or(0);
        if ready == 0 {
            return 0;
        }
        let mut frames = 0;
        for i in 0..ready {
            let descriptor = self.socket.rx.read(i);
            frames += usize::from(self.deliver(descriptor, &mut take));
        }
        self.socket.rx.release(ready);
        self.owed += ready;
        self.refill();
        frames
    }

    /// Gives one descriptor's bytes on. True when that completed a frame.
    #[inline]
    fn deliver(&mut self, piece: Descriptor, take: &mut impl FnMut(&[u8], RxMeta)) -> bool {
        let Some(bytes) = self.umem.bytes(piece.address, piece.len) else {
            self.counters.rx_bad_descriptor += 1;
            return false;
        };
        let meta = RxMeta {
            checksum: self.interface.rx_checksum,
            gso_size: None,
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

    fn refill(&mut self) {
        let owed = self.owed;
        let given = self.sound(|link| link.socket.refill(&mut link.umem, owed));
        self.owed -= given.unwrap_or(0);
        self.socket.wake_rx_if_asked();
    }

    /// How many frames may be queued now.
    pub fn room(&mut self) -> usize {
        if self.in_flight >= COMPLETION_BATCH {
            self.collect_sent();
        }
        let slots = self
            .sound(|link| link.socket.tx.reserve(TX_RING_SIZE))
            .unwrap_or(0);
        let chunks_per_frame = self.chunks_for(self.frame_len_max());
        self.spare_chunks().min(slots as usize) / chunks_per_frame
    }

    /// Queues one frame; false when there is no room. See [`flush`](Self::flush).
    ///
    /// # Panics
    ///
    /// If the frame is longer than the interface takes, or asks for an offload:
    /// AF_XDP has none that is of use.
    pub fn transmit(&mut self, head: &[u8], body: &[&[u8]], meta: TxMeta) -> bool {
        assert!(
            meta.checksum == TxChecksum::None && meta.segment_size.is_none(),
            "offload is asked of a link that has none"
        );
        let len = head.len() + body.iter().map(|part| part.len()).sum::<usize>();
        let len_max = self.frame_len_max();
        assert!(
            len <= len_max,
            "a frame of {len} bytes on a link that takes {len_max}"
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
        self.socket.tx.write(Descriptor {
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
            self.socket.tx.write(Descriptor {
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

    fn has_room_for(&mut self, chunks: usize) -> bool {
        if self.spare_chunks() < chunks {
            self.collect_sent();
        }
        let slots = self
            .sound(|link| link.socket.tx.reserve(chunks as u32))
            .unwrap_or(0);
        self.spare_chunks() >= chunks && slots as usize >= chunks
    }

    /// Free chunks that the fill ring does not wait for.
    fn spare_chunks(&self) -> usize {
        self.umem.free().saturating_sub(self.owed as usize)
    }

    fn chunks_for(&self, len: usize) -> usize {
        len.div_ceil(self.umem.chunk_size() as usize).max(1)
    }

    fn frame_len_max(&self) -> usize {
        self.interface.mtu + FRAME_OVERHEAD_LEN
    }

    fn collect_sent(&mut self) {
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
    ///
    /// # Errors
    ///
    /// ENETDOWN when the interface is down (what was queued stays), ENXIO when it
    /// has gone. That the kernel is busy is no error, see
    /// [`wants_write`](Self::wants_write).
    pub fn flush(&mut self) -> io::Result<()> {
        self.socket.tx.commit();
        let result = self.kick_until_sent();
        if self.in_flight >= COMPLETION_BATCH {
            self.collect_sent();
        }
        match self.fault {
            Some(fault) => Err(io::Error::other(fault)),
            None => result,
        }
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
    pub fn wants_write(&mut self) -> bool {
        self.unsent() > 0
    }

    /// False when a frame is there already. To be called after the caller has
    /// found nothing to do and before it sleeps on [`fd`](Self::fd).
    pub fn prepare_wait(&mut self) -> bool {
        if self.owed > 0 {
            self.refill();
        }
        self.sound(|link| link.socket.rx.peek(1)).unwrap_or(0) == 0
    }

    /// Events by name; those of the kernel as far as it tells them.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let c = &self.counters;
        let mut all = vec![
            ("rx_frames", c.rx_frames),
            ("rx_bytes", c.rx_bytes),
            ("rx_multi_chunk", c.rx_multi_chunk),
            ("rx_too_long", c.rx_too_long),
            ("rx_bad_descriptor", c.rx_bad_descriptor),
            ("tx_frames", c.tx_frames),
            ("tx_bytes", c.tx_bytes),
            ("tx_no_room", c.tx_no_room),
            ("tx_kicks", c.tx_kicks),
            ("tx_kernel_busy", c.tx_kernel_busy),
            ("tx_bad_completion", c.tx_bad_completion),
            ("ring_fault", u64::from(self.fault.is_some())),
        ];
        if let Ok(kernel) = self.socket.statistics() {
            all.extend([
                ("kernel_rx_dropped", kernel.rx_dropped),
                ("kernel_rx_ring_full", kernel.rx_ring_full),
                ("kernel_rx_fill_ring_empty", kernel.rx_fill_ring_empty_descs),
                ("kernel_rx_invalid_descriptors", kernel.rx_invalid_descs),
                ("kernel_tx_invalid_descriptors", kernel.tx_invalid_descs),
            ]);
        }
        all.extend(self.program.verdicts());
        all
    }

    /// Notes a fault of a ring; there is nothing after it.
    #[inline]
    fn sound<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, PeerFault>) -> Option<T> {
        if self.fault.is_some() {
            return None;
        }
        work(self).map_err(|fault| self.fault = Some(fault)).ok()
    }

    /// Puts the first chunks into the fill ring.
    pub(crate) fn fill_first(&mut self) {
        self.owed = RX_RING_SIZE;
        self.refill();
        assert_eq!(self.owed, 0, "a new UMEM has chunks for a new fill ring");
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
        assert!(pieces.is_empty(), "the next frame begins anew");
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
