//! Where packets come from and go to.
//!
//! A [`Link`] is one of four things that carry Ethernet frames: queues of a
//! network interface through AF_XDP ([`XdpLink`]), an interface by packet sockets
//! ([`PacketLink`]), a TAP device ([`TapLink`]), or a wire in memory ([`MemoryLink`]) for tests and simulation. They have the
//! same few methods, and there is no trait: the program that drives a stack over
//! a link matches once per batch, not once per frame.
//!
//! A turn of that program:
//!
//! ```text
//! loop {
//!     link.receive(|frame, meta| stack.handle_frame(..));   // lends a batch of frames
//!     while link.room() > 0 { .. link.transmit(head, body, meta) .. }
//!     link.flush()?;                                        // now they leave
//!     if nothing happened && link.prepare_wait() {
//!         poll(link.fds(), POLLIN and POLLOUT where it is wanted, next timer);
//!     }
//! }
//! ```
//!
//! Rules of the interface:
//!
//! - A link belongs to one thread at a time.
//! - `receive` lends frames; `transmit` has copied or written its pieces when it
//!   returns. Nobody waits for anybody's memory.
//! - `relay` lends frames for writing, and sends on those that are to leave
//!   again; an AF_XDP link does so without copying.
//! - `transmit` returns false when there is no room; the caller keeps the frame.
//!   Everything else that keeps a frame from being received or sent is counted
//!   by name in `counters`.
//! - A frame longer than the MTU allows and an offload that
//!   [`offload`](Link::offload) does not have are bugs of the caller and panic.
//!
//! Start reading at `xdp`.

mod datagrams;
mod end;
mod learned;
mod limits;
mod mapping;
mod memory;
mod meta;
mod packet;
mod tap;
mod vnet;
mod xdp;

use std::io;
use std::os::fd::BorrowedFd;

use exos_wire::Mac;

pub use end::End;
pub use exos_host::Error;
pub use learned::Learned;
pub use limits::{
    BOUND_MAPPING_KERNEL, FRAME_OVERHEAD_LEN, GSO_FRAME_LEN_MAX, RX_BATCH, RX_BATCH_MIN,
};
pub use memory::{MemoryConfig, MemoryLink};
pub use meta::{Offload, Relay, RxChecksum, RxMeta, TxChecksum, TxMeta};
pub use packet::PacketLink;
pub use packet::open::PacketConfig;
pub use tap::{TapConfig, TapLink};
pub use xdp::checks::leads_to_a_local_kernel;
pub use xdp::open::XdpConfig;
pub use xdp::way_out::{check_ways_out, way_back, ways_out};
pub use xdp::{
    CheckedParts, Facts, Feed, Held, LiveParts, Offer, OfferConfig, RingLock, check_chunks,
};
pub use xdp::{Merging, Mode, ModeChoice, TransmitChoice, XdpLink};

/// Something that carries Ethernet frames.
#[derive(Debug)]
pub enum Link {
    /// Queues of a network interface.
    Xdp(XdpLink),
    /// A network interface by packet sockets.
    Packet(PacketLink),
    /// A TAP device.
    Tap(TapLink),
    /// A wire in memory.
    Memory(MemoryLink),
}

/// A method that all links have.
macro_rules! on_each {
    ($self:expr, $link:ident => $call:expr) => {
        match $self {
            Link::Xdp($link) => $call,
            Link::Packet($link) => $call,
            Link::Tap($link) => $call,
            Link::Memory($link) => $call,
        }
    };
}

impl Link {
    /// What a person calls it: the interface's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Xdp(link) => link.name(),
            Self::Packet(link) => link.end().name(),
            Self::Tap(link) => link.end().name(),
            Self::Memory(_) => "memory",
        }
    }

    /// The Ethernet address of our end.
    pub fn mac(&self) -> Mac {
        match self {
            Self::Xdp(link) => link.mac(),
            Self::Packet(link) => link.end().mac(),
            Self::Tap(link) => link.end().mac(),
            Self::Memory(link) => link.mac(),
        }
    }

    /// Largest IP packet in bytes.
    pub fn mtu(&self) -> usize {
        match self {
            Self::Xdp(link) => link.mtu(),
            Self::Packet(link) => link.end().mtu(),
            Self::Tap(link) => link.end().mtu(),
            Self::Memory(link) => link.mtu(),
        }
    }

    /// What the link does for frames that are sent, and may leave undone in
    /// those received.
    pub fn offload(&self) -> Offload {
        match self {
            Self::Xdp(link) => link.offload(),
            Self::Packet(link) => link.end().offload(),
            Self::Tap(link) => link.end().offload(),
            Self::Memory(link) => link.offload(),
        }
    }

    /// Calls `take` for each frame that is there, in order, up to a batch: [`RX_BATCH`], or of queues half of what is under way.
    /// Returns how many. That 0 means that there are none is for
    /// [`prepare_wait`](Self::prepare_wait) to say.
    pub fn receive(&mut self, take: impl FnMut(&[u8], RxMeta)) -> usize {
        on_each!(self, link => link.receive(take))
    }

    /// Shows up to `count` frames that have arrived and stay, in order. Those that came in several pieces
    /// are left out, and a TAP device or packet sockets show none.
    pub fn look(&mut self, count: u32, each: &mut impl FnMut(&[u8])) {
        match self {
            Self::Xdp(link) => link.look(count, each),
            Self::Packet(_) | Self::Tap(_) => {}
            Self::Memory(link) => link.look(count, each),
        }
    }

    /// Receives frames that may be changed, of which those that `take` says so are queued to leave
    /// by this link again, behind what is queued already. Where there is no room for one it is lost,
    /// and counted as `tx_no_room`.
    pub fn relay(&mut self, take: impl FnMut(&mut [u8], RxMeta) -> Relay) -> usize {
        on_each!(self, link => link.relay(take))
    }

    /// Whether frames of several datagrams may be sent, for the kernel or the device to cut. A kernel that knows of none refuses the
    /// first, and is given no others.
    pub fn cuts_datagrams(&self) -> bool {
        match self {
            Self::Xdp(link) => link.cuts_datagrams(),
            Self::Packet(link) => link.end().cuts_datagrams(),
            Self::Tap(link) => link.end().cuts_datagrams(),
            Self::Memory(_) => false,
        }
    }

    /// Whether many frames leave by one call now, and not each by itself.
    pub fn has_batches(&mut self) -> bool {
        match self {
            Self::Xdp(link) => link.has_batches(),
            Self::Packet(_) | Self::Tap(_) | Self::Memory(_) => false,
        }
    }

    /// How many frames may be queued now.
    pub fn room(&mut self) -> usize {
        on_each!(self, link => link.room())
    }

    /// Queues one frame, gathered from a head and pieces of a body; false when
    /// there is no room. It may leave only with [`flush`](Self::flush).
    pub fn transmit(&mut self, head: &[u8], body: &[&[u8]], meta: TxMeta) -> bool {
        on_each!(self, link => link.transmit(head, body, meta))
    }

    /// Sends what is queued, as far as the kernel takes it now.
    ///
    /// # Errors
    ///
    /// The interface is down (ENETDOWN) or gone (ENODEV). Not that the
    /// kernel is busy: see [`wants_write`](Self::wants_write).
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Xdp(link) => link.flush(),
            Self::Packet(link) => link.flush(),
            Self::Tap(link) => link.flush(),
            Self::Memory(link) => {
                link.flush();
                Ok(())
            }
        }
    }

    /// What to poll for readability, with [`wants_write`](Self::wants_write) for
    /// writability too, of a link that has one queue; a wire in memory has nothing.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Xdp(link) => Some(link.fd()),
            Self::Packet(link) => Some(link.fd()),
            Self::Tap(link) => Some(link.fd()),
            Self::Memory(_) => None,
        }
    }

    /// All that is to be polled for readability, and whether for writability too; a wire in memory has nothing.
    pub fn fds(&mut self) -> Vec<(BorrowedFd<'_>, bool)> {
        match self {
            Self::Xdp(link) => link.fds().collect(),
            Self::Packet(link) => link.fds().collect(),
            Self::Tap(link) => {
                let writing = link.wants_write();
                vec![(link.fd(), writing)]
            }
            Self::Memory(_) => Vec::new(),
        }
    }

    /// Frames are queued that the kernel did not take at the last flush: flush
    /// again when the descriptor is writable. After a flush that failed wait for
    /// something else, because a descriptor of an interface that is down is
    /// always writable.
    pub fn wants_write(&mut self) -> bool {
        match self {
            Self::Xdp(link) => link.wants_write(),
            Self::Packet(link) => link.wants_write(),
            Self::Tap(link) => link.wants_write(),
            Self::Memory(_) => false,
        }
    }

    /// To be called now and then by those who never sleep, once in a millisecond: gives the kernel what it is owed to receive into,
    /// and notices an interface that has gone, of which the next flush tells. Packet sockets and TAP devices tell of that when they are
    /// read from, and are owed nothing.
    pub fn look_after(&mut self) {
        if let Self::Xdp(link) = self {
            link.look_after();
        }
    }

    /// To be called before sleeping: false when a frame is there already, or an
    /// error that the next flush will tell. True says that the descriptor will
    /// tell of the next one; without this call it need not.
    pub fn prepare_wait(&mut self) -> bool {
        match self {
            Self::Xdp(link) => link.prepare_wait(),
            Self::Packet(_) | Self::Tap(_) => true,
            Self::Memory(link) => link.prepare_wait(),
        }
    }

    /// [`prepare_wait`](Self::prepare_wait) of those who have [looked after](Self::look_after) the link within a millisecond: the kernel is not
    /// asked whether the interface is there.
    pub fn prepare_next_wait(&mut self) -> bool {
        match self {
            Self::Xdp(link) => link.prepare_next_wait(),
            _ => self.prepare_wait(),
        }
    }

    /// Events by name, every kind of drop among them.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        on_each!(self, link => link.counters())
    }
}

impl From<XdpLink> for Link {
    fn from(link: XdpLink) -> Self {
        Self::Xdp(link)
    }
}

impl From<PacketLink> for Link {
    fn from(link: PacketLink) -> Self {
        Self::Packet(link)
    }
}

impl From<TapLink> for Link {
    fn from(link: TapLink) -> Self {
        Self::Tap(link)
    }
}

impl From<MemoryLink> for Link {
    fn from(link: MemoryLink) -> Self {
        Self::Memory(link)
    }
}
