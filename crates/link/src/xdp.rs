//! A queue of a network interface, through AF_XDP.
//!
//! What the rules claim of the packets that arrive at the queue comes to us, the
//! rest goes on to the host's stack. What we send leaves the interface as it is.
//! Divided by job: `open` has every check and what is in the way, `program` what
//! runs in the kernel, `socket` the rings and system calls, `umem` the memory and
//! the places in which a chunk of it can be, `receive` and `transmit` the data
//! path.
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
//! - One link per interface, which has room for one XDP program, whatever its
//!   number of queues.
//!
//! Invariant on chunks: those in the fill and receive rings, `in_flight` and the
//! free ones are all there are. `owed` of the free ones belong into the fill ring
//! and are kept back from sending, so that reception never starves.

mod open;
mod program;
mod receive;
mod socket;
mod transmit;
mod umem;

use std::os::fd::{AsFd as _, BorrowedFd};

use exos_filter::{Action, Rule};
use exos_ring::PeerFault;
use exos_wire::Mac;

use crate::Error;
use crate::meta::{Offload, RxChecksum};

pub use open::XdpConfig;
pub use program::{Mode, ModeChoice};

use program::Program;
use socket::Socket;
use umem::Umem;

/// An AF_XDP link. Fields are dropped in their order: first the program, so that
/// packets go to the host again, then the socket, then its memory.
#[derive(Debug)]
pub struct XdpLink {
    program: Program,
    socket: Socket,
    umem: Umem,
    interface: Interface,
    zero_copy: bool,
    /// Chunks that the fill ring should have and does not.
    owed: u32,
    /// Chunks in the transmit ring, with the kernel or in the completion ring.
    in_flight: u32,
    /// A received frame of which the last piece has not come yet.
    pieces: Vec<u8>,
    fault: Option<PeerFault>,
    /// The interface was deleted.
    gone: bool,
    counters: Counters,
}

/// What the link needs to know of its interface.
#[derive(Clone, Debug)]
struct Interface {
    name: String,
    index: u32,
    mac: Mac,
    mtu: usize,
    queue: u32,
    queues: u32,
    rx_checksum: RxChecksum,
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

    /// Events by name. `kernel_*` are the kernel's own for this socket: frames
    /// dropped for want of a large enough chunk or of any, because the receive
    /// ring was full, because the fill ring was empty, and descriptors of ours
    /// that it refused. `xdp_*` are the verdicts of the filter program.
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
}
