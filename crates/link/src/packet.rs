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

pub(crate) mod open;
mod program;
mod socket;

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use exos_filter::handler::Handler;
use exos_filter::handler::forward::WayOut;
use exos_filter::{Action, Counter, Rule};
use exos_host::netlink::Netlink;

use crate::Error;
use crate::end::End;
use crate::limits::{IDLE_PROTOCOL_TURNS, RX_BATCH_MIN};
use crate::meta::{Relay, RxMeta, TxMeta};
use crate::xdp::super_packets;
use crate::{datagrams, vnet};

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
    end: End,
    /// Sending or receiving failed so that the interface is down or gone.
    failed: bool,
    /// Frames that were longer than there is room for.
    rx_too_long: u64,
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

impl PacketLink {
    /// The interface, and our end of it.
    pub fn end(&self) -> &End {
        &self.end
    }

    /// Readable when a frame of IPv4 is there.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.protocols[0].socket.as_fd()
    }

    /// Readable when a frame is there, and whether to wait for writability too.
    pub fn fds(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let sender = self.end.full.then(|| (self.sender.as_fd(), true));
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
        WayOut::Buffers(self.end.interface)
    }

    /// Claims nothing any more: all packets pass, until rules are set.
    pub fn let_pass(&mut self) {
        self.program.detach();
    }

    /// Packets with this verdict of the program.
    pub fn verdict(&self, counter: Counter) -> u64 {
        self.program.verdict(counter)
    }

    /// Calls `take` for each frame that is there, up to a batch; of those that stand for several datagrams, for each of these.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8], RxMeta)) -> usize {
        let mut unknown = 0;
        let count = self.relay(|frame, meta| {
            match meta.gso_size.filter(|_| meta.datagrams) {
                Some(size) => unknown += u64::from(!datagrams::each(frame, size, &mut take)),
                None => take(frame, meta),
            }
            Relay::Done
        });
        self.end.account.rx_unknown_gso += unknown;
        count
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
                self.rx_too_long += 1;
                continue;
            };
            let Some(meta) = vnet::decode_relayed(header) else {
                self.end.account.rx_unknown_gso += 1;
                continue;
            };
            self.end.account.received(frame, &meta);
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
                let (len, is_cut) = self.frames.sent(n);
                self.end.account.sent(len, is_cut);
            }
            left = &left[count..];
            if let Err(error) = sent {
                // The first of them is lost, and the others are tried.
                left = &left[1..];
                match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => {
                        self.end.account.tx_no_room += 1;
                    }
                    error => note_refused(&mut self.end, &mut self.failed, error),
                }
            }
        }
    }

    fn note_read_error(&mut self, error: &io::Error) {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => {}
            Some(libc::ENETDOWN) => self.failed = true,
            _ => self.end.account.rx_errors += 1,
        }
    }

    /// How many frames may be sent now: all or none.
    pub fn room(&self) -> usize {
        self.end.room()
    }

    /// Sends one frame; false when the kernel takes no more for now. A frame that it refuses for other reasons is counted
    /// and gone.
    ///
    /// # Panics
    ///
    /// If the frame is longer than the interface takes.
    pub fn transmit(&mut self, head: &[u8], body: &[&[u8]], meta: TxMeta) -> bool {
        let sender = &self.sender;
        let sent = self.end.write(&vnet::encode(meta), head, body, |pieces| {
            super_packets::send(sender, pieces)
        });
        let Err(error) = sent else {
            return true;
        };
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => {
                self.end.account.tx_no_room += 1;
                self.end.full = true;
                false
            }
            error => {
                note_refused(&mut self.end, &mut self.failed, error);
                true
            }
        }
    }

    /// Tells of an interface that is down or was deleted.
    ///
    /// # Errors
    ///
    /// ENETDOWN, or ENODEV.
    pub fn flush(&mut self) -> io::Result<()> {
        self.end.full = false;
        if !self.failed {
            return Ok(());
        }
        let found = Netlink::new().and_then(|netlink| netlink.link_by_index(self.end.interface));
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
        self.end.full
    }

    /// Events by name. `kernel_rx_dropped` are packets for which a socket had no room; `tc_*` are the verdicts of the program.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let dropped = self.protocols.iter().map(|protocol| {
            let sum = protocol.dropped.get() + socket::dropped(&protocol.socket);
            protocol.dropped.set(sum);
            sum
        });
        let mut all = self.end.account.with(&[
            ("rx_too_long", self.rx_too_long),
            ("kernel_rx_dropped", dropped.sum()),
        ]);
        all.extend(self.program.verdicts());
        all
    }
}

fn note_refused(end: &mut End, failed: &mut bool, error: Option<i32>) {
    match error {
        Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => *failed = true,
        _ => end.account.tx_refused += 1,
    }
}

const _: () = assert!(socket::BATCH == RX_BATCH_MIN as usize);
