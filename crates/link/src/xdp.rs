//! Queues of a network interface, through AF_XDP.
//!
//! What the rules claim of the packets that arrive at the queues comes to us, the
//! rest goes on to the host's stack. What we send leaves the interface as it is.
//! Divided by job: `open` makes a link, `checks` and `binding` say what is in the way, `program` has what
//! runs in the kernel, `socket` the rings and system calls, `umem` the memory and
//! the places in which a chunk of it can be, `queue` the data path, `live` how many frames leave at once, `way_out` how a handler's
//! packets leave. A link can also be made by a daemon (`offer`) and passed to a program without privilege (`adopt`), with
//! some numbers (`facts`); it sends many frames at once through the daemon's program (`checked`), and frames come to it past
//! its interface (`arrivals`).
//!
//! Rules of the interface:
//!
//! - `receive` lends each frame in place, within the call only: afterwards its
//!   chunk goes back to the kernel.
//! - `relay` lends each frame for writing, and the chunk of one that is to be sent on goes into the
//!   transmit ring as it is.
//! - `transmit` copies the frame once, into UMEM, so that the caller may change
//!   or free its pieces at once. Nothing of it leaves before `flush`. One to be cut into segments is
//!   handed to the kernel at once, behind what was queued (`super_packets`).
//! - In copy mode, which is all that veth has, the kernel sends only within our
//!   calls. What it could not take at a flush stays queued: `wants_write` says
//!   so, and the next flush goes on with it.
//! - Everything is released when the link is dropped, or by the kernel when the
//!   process dies in any way.
//! - A link of several queues receives by all of them and sends by the first; what is relayed leaves by the queue that it
//!   came by.
//! - An interface has room for one XDP program, hence for one link, or for several that are opened together and share its
//!   queues ([`XdpLink::open_for_cores`]).

mod adopt;
mod arrivals;
mod binding;
pub(crate) mod calls;
mod checked;
pub(crate) mod checks;
mod facts;
mod interface;
mod live;
mod losses;
mod offer;
pub(crate) mod open;
mod program;
mod queue;
mod send_path;
mod socket;
pub(crate) mod super_packets;
mod umem;
pub(crate) mod way_out;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use exos_filter::handler::Handler;
use exos_filter::{Action, Counter, Rule};
use exos_wire::Mac;

use crate::limits::GSO_FRAME_LEN_MAX;
use crate::meta::{Offload, Relay, RxChecksum, RxMeta, TxChecksum, TxMeta};
use exos_host::error::{Error, ErrorKind};

pub use checked::{CheckedParts, LiveParts};
pub use facts::{Facts, check_chunks};
pub use offer::{Feed, Held, Offer, OfferConfig};
pub use program::{Mode, ModeChoice};
pub use send_path::TransmitChoice;
pub use super_packets::RingLock;

use interface::Interface;
use losses::Losses;
use program::Program;
use queue::Queue;
use super_packets::SuperPackets;

/// An AF_XDP link. Fields are dropped in their order: first the program, so that
/// packets go to the host again, then the socket with its memory.
#[derive(Debug)]
pub struct XdpLink {
    /// What takes packets from the interface; a daemon's business where the link is adopted.
    program: Option<Arc<Program>>,
    /// Of several links with one program the first tells of its verdicts, and of what the interface dropped.
    tells_verdicts: bool,
    /// What the interface drops of what is sent, where this can be known.
    losses: Option<Losses>,
    mode: Mode,
    /// At least one.
    queues: Vec<Queue>,
    /// What the interface calls them.
    numbers: Vec<u32>,
    /// The way of super-packets, where the interface copies.
    large: Option<SuperPackets>,
    interface: Interface,
    zero_copy: bool,
    merging: Merging,
    /// Why no frames leave in live frame mode, where they were to.
    live_refusal: Option<Error>,
}

/// Whether the device merges what comes into packets longer than the MTU, which keeps its driver from running XDP programs
/// and which no setting ends: virtio-net without control over its guest offloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// It does not, or stops for XDP.
    No,
    /// It does, and the link takes such packets, in pieces.
    Taken,
    /// It does, and such packets are lost: before Linux 6.6 none may be longer than a chunk.
    Lost,
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

    /// The queues of the interface. Packets that it steers to others go to the host's stack.
    pub fn queues(&self) -> &[u32] {
        &self.numbers
    }

    /// The interface's address, which is ours too.
    pub fn mac(&self) -> Mac {
        self.interface.mac
    }

    /// Largest IP packet in bytes.
    pub fn mtu(&self) -> usize {
        self.interface.mtu
    }

    /// For sending, the cutting of super-packets where the interface copies. Received frames of an
    /// interface that leads to a kernel on this machine may have partial checksums.
    pub fn offload(&self) -> Offload {
        Offload {
            tx_checksum: false,
            tx_segmentation: self.large.as_ref().map(|_| GSO_FRAME_LEN_MAX),
            rx_partial_checksum: self.interface.rx_checksum == RxChecksum::MaybePartial,
        }
    }

    /// How the program is attached.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Why native mode was not to be had, when the mode is generic by necessity.
    pub fn native_refusal(&self) -> Option<&Error> {
        self.program.as_ref()?.native_refusal()
    }

    /// Why no frames leave in live frame mode, where they were to.
    pub fn live_refusal(&self) -> Option<&Error> {
        self.live_refusal.as_ref()
    }

    /// Whether the device merges packets for good, and what becomes of them.
    pub fn merging(&self) -> Merging {
        self.merging
    }

    /// True when packets are not copied between the driver and UMEM.
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Readable when a frame is there, of a link of one queue.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.queues[0].fd()
    }

    /// Of each queue: readable when a frame is there, and whether to wait for writability too
    /// ([`wants_write`](Self::wants_write)).
    pub fn fds(&mut self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        self.queues.iter_mut().map(|queue| {
            let writing = queue.wants_write();
            let queue: &Queue = queue;
            (queue.fd(), writing)
        })
    }

    /// Claims other packets from now on, on all queues that are open. Takes effect at once for each packet
    /// and loses none in between.
    ///
    /// # Errors
    ///
    /// The rules are too many for a program, or the kernel refuses it; the old
    /// ones stay. The link is adopted: what comes is for the daemon to say.
    pub fn set_rules(&mut self, rules: &[Rule], otherwise: Action) -> Result<(), Error> {
        match &self.program {
            Some(program) => program.set_rules(rules, otherwise),
            None => Err(Error::new("a link of the daemon has no rules of ours")
                .mend("claim addresses and ports from the daemon")),
        }
    }

    /// Has a handler deal with packets in the kernel from now on, on all queues, before the rules are looked at; and others, in their order,
    /// with what it goes on with.
    ///
    /// # Errors
    ///
    /// The kernel refuses a program, or the link is adopted.
    pub fn set_handlers(
        &mut self,
        handler: &dyn Handler,
        others: &[&dyn Handler],
    ) -> Result<(), Error> {
        match &self.program {
            Some(program) => program.set_handlers(handler, others),
            None => Err(Error::new("a link of the daemon has no handlers of ours")
                .mend("attach to the interface itself")
                .of_kind(ErrorKind::NeedsInterface)),
        }
    }

    /// No longer. That the kernel refuses to exchange one program for another would leave the handler, which does no
    /// harm: anyone who set it can have dealt with what it does.
    pub fn remove_handler(&mut self) {
        if let Some(program) = &self.program {
            let _ = program.remove_handler();
        }
    }

    /// Claims nothing any more, and takes a handler away: all packets pass, on all queues, until rules or a handler are set. No
    /// program is loaded for it, so that a process does it that has given up its privilege.
    ///
    /// # Errors
    ///
    /// The kernel refuses it, or the link is adopted.
    pub fn let_pass(&mut self) -> Result<(), Error> {
        match &self.program {
            Some(program) => program.let_pass(),
            None => Err(Error::new("a link of the daemon has no rules of ours")),
        }
    }

    /// Packets with this verdict of the program, on all queues.
    pub fn verdict(&self, counter: Counter) -> u64 {
        self.program.as_ref().map_or(0, |p| p.verdict(counter))
    }

    /// Calls `take` for each frame that is there, up to a batch of each queue.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8], RxMeta)) -> usize {
        let mut count = 0;
        for queue in &mut self.queues {
            count += queue.receive(&mut take);
        }
        count
    }

    /// Shows up to `count` frames of each queue that have arrived and stay.
    pub fn look(&mut self, count: u32, each: &mut impl FnMut(&[u8])) {
        for queue in &mut self.queues {
            queue.look(count, each);
        }
    }

    /// Receives frames that may be changed and sent on; those are not copied.
    pub fn relay(&mut self, mut take: impl FnMut(&mut [u8], RxMeta) -> Relay) -> usize {
        let mut count = 0;
        for queue in &mut self.queues {
            count += queue.relay(&mut take);
        }
        count
    }

    /// Whether frames of several datagrams may be sent, to be cut.
    pub fn cuts_datagrams(&self) -> bool {
        self.large
            .as_ref()
            .is_some_and(SuperPackets::cuts_datagrams)
    }

    /// Whether many frames leave by one call now.
    pub fn has_batches(&mut self) -> bool {
        self.queues[0].has_batches()
    }

    /// How many frames may be queued now.
    pub fn room(&mut self) -> usize {
        self.queues[0].room()
    }

    /// Queues one frame; false when there is no room, or when it is of several segments and the kernel refuses it. See
    /// [`flush`](Self::flush).
    ///
    /// # Panics
    ///
    /// If the frame is longer than the interface takes, shorter than an Ethernet
    /// header, or asks for an offload that there is not: a frame of one segment
    /// is complete, one of several goes where [`offload`](Self::offload) says so.
    pub fn transmit(&mut self, head: &[u8], body: &[&[u8]], meta: TxMeta) -> bool {
        if meta.segment_size.is_some() {
            return self.transmit_large(head, body, meta);
        }
        assert!(
            meta.checksum == TxChecksum::Complete,
            "offload is asked of a link that has none"
        );
        self.queues[0].transmit(head, body)
    }

    /// A super-packet leaves at once, so what was queued before it leaves first: the segments of a
    /// connection stay in order.
    fn transmit_large(&mut self, head: &[u8], body: &[&[u8]], meta: TxMeta) -> bool {
        let uncommitted = self.queues.iter().any(Queue::has_uncommitted);
        if uncommitted && self.flush().is_err() {
            // The caller's next flush says what is wrong.
            return false;
        }
        let large = self.large.as_mut();
        large
            .expect("offload is asked of a link that has none")
            .transmit(head, body, meta)
    }

    /// Sends what was queued, as far as the kernel takes it now.
    ///
    /// # Errors
    ///
    /// ENETDOWN when the interface is down (what was queued stays), ENODEV when it
    /// has gone, once [`prepare_wait`](Self::prepare_wait) or a flush with
    /// something to send has noticed. That the kernel is busy is no error, see
    /// [`wants_write`](Self::wants_write).
    pub fn flush(&mut self) -> io::Result<()> {
        self.queues.iter_mut().try_for_each(Queue::flush)
    }

    /// Frames are queued that the kernel has not taken: wait for writability
    /// too, then flush again.
    pub fn wants_write(&mut self) -> bool {
        self.queues.iter_mut().any(Queue::wants_write)
    }

    /// What is to be done now and then also by those who do not sleep: chunks for the kernel to receive into, and a look whether the
    /// interface is there, of which the next flush tells.
    pub fn look_after(&mut self) {
        self.queues.iter_mut().for_each(Queue::look_after);
    }

    /// False when a frame is there already, or when the interface has gone, of
    /// which the next flush tells. To be called after the caller has found nothing
    /// to do and before it sleeps on [`fds`](Self::fds).
    pub fn prepare_wait(&mut self) -> bool {
        self.look_after();
        self.prepare_next_wait()
    }

    /// As above, where [`look_after`](Self::look_after) was called within a millisecond.
    pub fn prepare_next_wait(&mut self) -> bool {
        // Each is asked, for each gives the kernel chunks to receive into.
        let may = self.queues.iter_mut().map(Queue::prepare_next_wait);
        may.fold(true, |all, one| all & one)
    }

    /// Events by name. `kernel_*` are the kernel's own for this socket: frames
    /// dropped for want of a large enough chunk or of any (the latter also by
    /// themselves, as `kernel_rx_fill_ring_empty`), because the receive ring was
    /// full, and descriptors of ours that it refused. `xdp_*` are the verdicts of
    /// the filter program. `interface_tx_dropped` are the frames that the
    /// interface's driver has dropped on their way out, those of other senders among them.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.queues[0].counters();
        for queue in &self.queues[1..] {
            for (sum, (name, value)) in all.iter_mut().zip(queue.counters()) {
                debug_assert_eq!(sum.0, name);
                sum.1 += value;
            }
        }
        all.extend(self.large.iter().flat_map(SuperPackets::counters));
        let losses = self.losses.iter().filter(|_| self.tells_verdicts);
        all.extend(losses.map(|losses| ("interface_tx_dropped", losses.count())));
        let program = self.program.iter().filter(|_| self.tells_verdicts);
        all.extend(program.flat_map(|program| program.verdicts()));
        all
    }
}
