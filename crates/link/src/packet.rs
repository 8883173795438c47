//! A network interface by packet sockets: for where packets come several in one piece, and are to leave so.
//!
//! A kernel of this machine, or a device that merges what it receives, hands over up to 64 KiB of TCP data as one packet, of
//! which the headers say how it would be cut. An XDP program on a veth has the other end cut before; here nothing does. What
//! comes is read with the virtio-net header that says what is undone (see `vnet.rs`), and what is sent on leaves with it,
//! whole, its checksum as unfinished as it came.
//!
//! ```text
//! interface ──> traffic control: the rules ──> marked ──> packet socket of the protocol ──> us
//!                                    └──> host                            we ──> packet socket ──> interface
//! ```
//!
//! Small packets cost more than by AF_XDP: a socket buffer each, though many are read and sent with one system call.
//!
//! Rules of the interface: `receive` and `relay` lend each frame within the call only; what is relayed leaves when the
//! batch has been looked at, and `transmit` hands a frame to the kernel at once. `flush` only tells of an interface that is
//! down or gone. The program is on the interface as long as a descriptor of ours is open (a link of tcx, Linux 6.6).

mod open;
mod program;
mod socket;

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use exos_filter::handler::Handler;
use exos_filter::handler::forward::WayOut;
use exos_filter::{Action, Counter, Rule};
use exos_host::netlink::Netlink;
use exos_wire::Mac;

use crate::Error;
use crate::limits::{
    FRAME_OVERHEAD_LEN, GSO_FRAME_LEN_MAX, IDLE_PROTOCOL_TURNS, RX_BATCH_MIN,
    SUPER_PACKET_PIECES_MAX, TX_RING_SIZE,
};
use crate::meta::{Offload, Relay, RxMeta, TxMeta};
use crate::vnet;
use crate::xdp::super_packets;
pub use open::PacketConfig;

use program::Program;
use socket::Frames;

/// An interface by packet sockets. Fields are dropped in their order: first the program, so that packets go to the host again.
#[derive(Debug)]
pub struct PacketLink {
    program: Program,
    protocols: Vec<Protocol>,
    sender: OwnedFd,
    frames: Frames,
    /// Those of the batch that leave.
    onward: Vec<usize>,
    joined: Vec<u8>,
    name: String,
    interface: u32,
    mac: Mac,
    mtu: usize,
    /// The kernel took no more; cleared by `flush`.
    full: bool,
    /// Sending or receiving failed so that the interface is down or gone.
    failed: bool,
    counters: Counters,
}

/// A socket for packets of one protocol.
#[derive(Debug)]
struct Protocol {
    socket: OwnedFd,
    /// Turns in which it is not looked at, since nothing was there.
    rests: u32,
    /// What the kernel had no room for, as far as it was asked.
    dropped: Cell<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    rx_frames: u64,
    rx_bytes: u64,
    rx_gso_frames: u64,
    rx_too_long: u64,
    rx_unknown_gso: u64,
    rx_errors: u64,
    tx_frames: u64,
    tx_bytes: u64,
    tx_gso_frames: u64,
    tx_no_room: u64,
    tx_refused: u64,
}

impl PacketLink {
    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's index.
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// The interface's address, which is ours too.
    pub fn mac(&self) -> Mac {
        self.mac
    }

    /// Largest IP packet in bytes, but for those that stand for several.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Checksums and segmentation, both ways.
    pub fn offload(&self) -> Offload {
        Offload {
            tx_checksum: true,
            tx_segmentation: Some(GSO_FRAME_LEN_MAX),
            rx_partial_checksum: true,
        }
    }

    /// Readable when a frame of IPv4 is there.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.protocols[0].socket.as_fd()
    }

    /// Readable when a frame is there, and whether to wait for writability too.
    pub fn fds(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let sender = self.full.then(|| (self.sender.as_fd(), true));
        let protocols = self.protocols.iter();
        protocols
            .map(|protocol| (protocol.socket.as_fd(), false))
            .chain(sender)
    }

    /// Claims other packets from now on, at once for each packet.
    ///
    /// # Errors
    ///
    /// The rules are too many for a program, or the kernel refuses it; the old ones stay.
    pub fn set_rules(&mut self, rules: &[Rule], otherwise: Action) -> Result<(), Error> {
        self.program.set_rules(rules, otherwise)
    }

    /// Has a handler deal with socket buffers in the kernel from now on, before the rules are looked at.
    ///
    /// # Errors
    ///
    /// The kernel refuses the program.
    pub fn set_handler(&mut self, handler: &dyn Handler) -> Result<(), Error> {
        self.program.set_handler(handler)
    }

    /// No longer. That the kernel refuses it would leave the handler, which does no harm.
    pub fn remove_handler(&mut self) {
        let _ = self.program.remove_handler();
    }

    /// How packets leave that a handler sends on.
    pub fn way_out(&self) -> WayOut {
        WayOut::Buffers(self.interface)
    }

    /// Claims nothing any more: all packets pass, until rules are set.
    pub fn let_pass(&mut self) {
        self.program.detach();
    }

    /// Packets with this verdict of the program.
    pub fn verdict(&self, counter: Counter) -> u64 {
        self.program.verdict(counter)
    }

    /// Calls `take` for each frame that is there, up to a batch.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8], RxMeta)) -> usize {
        self.relay(|frame, meta| {
            take(frame, meta);
            Relay::Done
        })
    }

    /// Calls `take` for each frame that is there, up to a batch, which may change it and have it sent on.
    pub fn relay(&mut self, mut take: impl FnMut(&mut [u8], RxMeta) -> Relay) -> usize {
        let mut count = 0;
        for at in 0..self.protocols.len() {
            let rests = &mut self.protocols[at].rests;
            if *rests > 0 && count > 0 {
                *rests -= 1;
                continue;
            }
            let took = self.relay_of(at, &mut take);
            self.protocols[at].rests = if took == 0 { IDLE_PROTOCOL_TURNS } else { 0 };
            count += took;
        }
        count
    }

    fn relay_of(&mut self, at: usize, take: &mut impl FnMut(&mut [u8], RxMeta) -> Relay) -> usize {
        let count = match self.frames.receive(&self.protocols[at].socket) {
            Ok(count) => count,
            Err(error) => {
                self.note_read_error(&error);
                return 0;
            }
        };
        self.onward.clear();
        for n in 0..count {
            let Some((header, frame)) = self.frames.get_mut(n) else {
                self.counters.rx_too_long += 1;
                continue;
            };
            let Some(meta) = vnet::decode_relayed(header) else {
                self.counters.rx_unknown_gso += 1;
                continue;
            };
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += frame.len() as u64;
            self.counters.rx_gso_frames += u64::from(meta.gso_size.is_some());
            if take(frame, meta) == Relay::Onward {
                vnet::make_onward(header, frame);
                self.onward.push(n);
            }
        }
        self.send_onward();
        count
    }

    /// Sends on what the batch has for it, in its order.
    fn send_onward(&mut self) {
        let mut left = &self.onward[..];
        while !left.is_empty() {
            let sent = self.frames.send(&self.sender, left);
            let count = *sent.as_ref().unwrap_or(&0);
            for &n in &left[..count] {
                let (len, is_gso) = self.frames.sent(n);
                self.counters.tx_frames += 1;
                self.counters.tx_bytes += len as u64;
                self.counters.tx_gso_frames += u64::from(is_gso);
            }
            left = &left[count..];
            if let Err(error) = sent {
                // The first of them is lost, and the others are tried.
                left = &left[1..];
                match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => {
                        self.counters.tx_no_room += 1;
                    }
                    error => note_refused(&mut self.counters, &mut self.failed, error),
                }
            }
        }
    }

    fn note_read_error(&mut self, error: &io::Error) {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => {}
            Some(libc::ENETDOWN) => self.failed = true,
            _ => self.counters.rx_errors += 1,
        }
    }

    /// How many frames may be sent now. The kernel does not say; it is taken at its word when it refuses.
    pub fn room(&self) -> usize {
        if self.full { 0 } else { TX_RING_SIZE as usize }
    }

    /// Sends one frame; false when the kernel takes no more for now. A frame that it refuses for other reasons is counted
    /// and gone.
    ///
    /// # Panics
    ///
    /// If the frame is longer than the interface takes.
    pub fn transmit(&mut self, head: &[u8], body: &[&[u8]], meta: TxMeta) -> bool {
        let header = vnet::encode(meta);
        let len = head.len() + body.iter().map(|part| part.len()).sum::<usize>();
        let len_max = match meta.segment_size {
            Some(_) => GSO_FRAME_LEN_MAX,
            None => self.mtu + FRAME_OVERHEAD_LEN,
        };
        assert!(
            len <= len_max,
            "a frame of {len} bytes on a link that takes {len_max}"
        );
        match self.send(&header, head, body) {
            Ok(()) => {
                self.counters.tx_frames += 1;
                self.counters.tx_bytes += len as u64;
                self.counters.tx_gso_frames += u64::from(meta.segment_size.is_some());
                true
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => {
                    self.counters.tx_no_room += 1;
                    self.full = true;
                    false
                }
                error => {
                    note_refused(&mut self.counters, &mut self.failed, error);
                    true
                }
            },
        }
    }

    fn send(&mut self, header: &[u8], head: &[u8], body: &[&[u8]]) -> io::Result<()> {
        let mut pieces = [IoSlice::new(&[]); SUPER_PACKET_PIECES_MAX];
        pieces[0] = IoSlice::new(header);
        pieces[1] = IoSlice::new(head);
        if body.len() + 2 <= SUPER_PACKET_PIECES_MAX {
            for (piece, part) in pieces[2..].iter_mut().zip(body) {
                *piece = IoSlice::new(part);
            }
            return super_packets::send(&self.sender, &pieces[..2 + body.len()]);
        }
        self.joined.clear();
        body.iter()
            .for_each(|part| self.joined.extend_from_slice(part));
        pieces[2] = IoSlice::new(&self.joined);
        super_packets::send(&self.sender, &pieces[..3])
    }

    /// Tells of an interface that is down or was deleted.
    ///
    /// # Errors
    ///
    /// ENETDOWN, or ENODEV.
    pub fn flush(&mut self) -> io::Result<()> {
        self.full = false;
        if !self.failed {
            return Ok(());
        }
        let found = Netlink::new().and_then(|netlink| netlink.link_by_index(self.interface));
        match found {
            // It came back, and the kernel has bound the sockets again.
            Ok(Some(info)) if info.up => {
                self.failed = false;
                Ok(())
            }
            Ok(None) => Err(io::Error::from_raw_os_error(libc::ENODEV)),
            _ => Err(io::Error::from_raw_os_error(libc::ENETDOWN)),
        }
    }

    /// The kernel took no more when last asked: wait for writability too.
    pub fn wants_write(&self) -> bool {
        self.full
    }

    /// Events by name. `kernel_rx_dropped` are packets for which a socket had no room; `tc_*` are the verdicts of the program.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let c = &self.counters;
        let dropped = self.protocols.iter().map(|protocol| {
            let sum = protocol.dropped.get() + socket::dropped(&protocol.socket);
            protocol.dropped.set(sum);
            sum
        });
        let mut all = vec![
            ("rx_frames", c.rx_frames),
            ("rx_bytes", c.rx_bytes),
            ("rx_gso_frames", c.rx_gso_frames),
            ("rx_too_long", c.rx_too_long),
            ("rx_unknown_gso", c.rx_unknown_gso),
            ("rx_errors", c.rx_errors),
            ("tx_frames", c.tx_frames),
            ("tx_bytes", c.tx_bytes),
            ("tx_gso_frames", c.tx_gso_frames),
            ("tx_no_room", c.tx_no_room),
            ("tx_refused", c.tx_refused),
            ("kernel_rx_dropped", dropped.sum()),
        ];
        all.extend(self.program.verdicts());
        all
    }
}

fn note_refused(counters: &mut Counters, failed: &mut bool, error: Option<i32>) {
    match error {
        Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => *failed = true,
        _ => counters.tx_refused += 1,
    }
}

const _: () = assert!(socket::BATCH == RX_BATCH_MIN as usize);
