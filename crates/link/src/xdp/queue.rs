//! The data path of a link: a socket's rings and the chunks that go round in them.
//!
//! It needs no privilege and knows of no interface: tests drive it against a
//! kernel of their own (`tests`).
//!
//! Invariant: each chunk is in one place. Those in the fill and receive rings,
//! the `in_flight` ones and the free ones are all there are; `owed` of the free
//! ones belong into the fill ring and are kept back from sending, so that
//! reception never starves.

mod batches;
mod cost;
mod receive;
mod relay;
mod share;
#[cfg(test)]
mod tests;
mod transmit;

use std::os::fd::{AsFd as _, BorrowedFd};

use exos_ring::PeerFault;

use super::arrivals::Arrivals;
use super::send_path::TransmitChoice;
use super::socket::{Descriptor, Socket};
use super::umem::Umem;
use crate::meta::RxChecksum;
pub(super) use batches::Batches;
use cost::BatchCosts;
use share::Share;

/// A bound socket and its memory, which goes after it.
#[derive(Debug)]
pub(super) struct Queue {
    socket: Socket,
    umem: Umem,
    /// Longest frame to be sent.
    frame_len_max: usize,
    /// What is said of every frame received.
    rx_checksum: RxChecksum,
    /// The program puts the time of arrival before each frame.
    stamped: bool,
    /// When the frame that is being received came.
    arrived_ns: Option<u64>,
    /// Chunks that the fill ring should have and does not.
    owed: u32,
    /// Where frames come past the ring, on a link that is lent.
    arrivals: Option<Arrivals>,
    /// What leaves at the next flush.
    queued: Vec<Descriptor>,
    share: Share,
    /// Chunks queued, in the transmit ring, with the kernel or in the completion ring.
    in_flight: u32,
    /// What sends batches beside the ring, where there is such a thing, and what each path has cost.
    batches: Option<Batches>,
    costs: BatchCosts,
    /// Those that are to leave by the ring after all.
    returned: Vec<Descriptor>,
    /// A received frame of which the last piece has not come yet.
    pieces: Vec<u8>,
    fault: Option<PeerFault>,
    /// The interface was deleted.
    gone: bool,
    counters: Counters,
}

/// What happened to frames, by name.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    /// Frames lent to the caller, and their bytes.
    rx_frames: u64,
    rx_bytes: u64,
    /// Of those, frames that came in several chunks and were joined.
    rx_multi_chunk: u64,
    /// Dropped: longer than any frame.
    rx_too_long: u64,
    /// Dropped: the kernel named bytes that are not in one chunk of UMEM.
    rx_bad_descriptor: u64,
    /// Frames queued for sending, and their bytes.
    tx_frames: u64,
    tx_bytes: u64,
    /// Refused, the caller kept the frame: the transmit ring or UMEM is full.
    tx_no_room: u64,
    /// System calls that had the kernel look at the transmit ring.
    tx_kicks: u64,
    /// Of those, calls after which it had sent nothing: its buffers are full.
    tx_kernel_busy: u64,
    /// Chunks said to be sent that are not in UMEM.
    tx_bad_completion: u64,
}

impl Queue {
    /// Takes a socket over, with chunks put into its fill ring or not.
    pub(super) fn new(
        socket: Socket,
        umem: Umem,
        filled: u32,
        frame_len_max: usize,
        rx_checksum: RxChecksum,
    ) -> Self {
        socket.wake_rx_if_asked();
        let (receiving, sending) = (socket.rx.capacity(), socket.tx.capacity());
        Self {
            socket,
            umem,
            frame_len_max,
            rx_checksum,
            stamped: false,
            arrived_ns: None,
            owed: receiving - filled,
            arrivals: None,
            queued: Vec::with_capacity(sending as usize),
            share: Share::new(),
            in_flight: 0,
            batches: None,
            costs: BatchCosts::new(TransmitChoice::Ring, &[]),
            returned: Vec::new(),
            pieces: Vec::new(),
            fault: None,
            gone: false,
            counters: Counters::default(),
        }
    }

    /// From now on every frame has its time of arrival before it.
    pub(super) fn expect_stamps(&mut self) {
        self.stamped = true;
    }

    /// From now on many frames at once may leave another way than by the ring.
    pub(super) fn send_batches(&mut self, batches: Batches, choice: TransmitChoice) {
        self.costs = BatchCosts::new(choice, batches.paths());
        self.batches = Some(batches);
    }

    /// From now on frames may come past the ring.
    pub(super) fn receive_past_ring(&mut self, arrivals: Arrivals) {
        self.arrivals = Some(arrivals);
    }

    /// Bytes of a chunk of its memory.
    pub(super) fn chunk_size(&self) -> u32 {
        self.umem.chunk_size()
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Events by name, ours and the kernel's.
    pub(super) fn counters(&self) -> Vec<(&'static str, u64)> {
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
        all.extend(Batches::counters(self.batches.as_ref()));
        all.extend(Arrivals::counters(self.arrivals.as_ref()));
        if let Ok(kernel) = self.socket.statistics() {
            all.extend([
                ("kernel_rx_dropped", kernel.rx_dropped),
                ("kernel_rx_ring_full", kernel.rx_ring_full),
                ("kernel_rx_fill_ring_empty", kernel.rx_fill_ring_empty_descs),
                ("kernel_rx_invalid_descriptors", kernel.rx_invalid_descs),
                ("kernel_tx_invalid_descriptors", kernel.tx_invalid_descs),
            ]);
        }
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
}
