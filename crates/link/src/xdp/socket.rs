//! The AF_XDP socket: its four rings and the calls that go with them.
//!
//! Follows Linux, `Documentation/networking/af_xdp.rst` and `linux/if_xdp.h`. The socket was made
//! in this process (`calls`) or by a daemon that passed it (`offer`). The rings cannot be used by
//! anyone else in this process, because the descriptor stays in here.
//!
//! Bytes of a receive or transmit descriptor ([`Descriptor`]):
//!
//! ```text
//!  0                8          12         16
//!  address: u64     len: u32   options: u32      native byte order
//! ```

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

#[cfg(test)]
use std::ptr::NonNull;

use exos_ring::{Consumer, PeerFault, Plain, Producer, RingMemory};

use super::calls::{RingSizes, get_option};
use super::umem::Umem;
use crate::mapping::Mapping;

/// A packet, or a piece of one, in the receive and transmit rings.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Descriptor {
    /// Where it begins in UMEM.
    pub(super) address: u64,
    /// Its bytes.
    pub(super) len: u32,
    /// [`Descriptor::CONTINUED`] or 0.
    pub(super) options: u32,
}

// SAFETY: integers without gaps, 16 bytes.
unsafe impl Plain for Descriptor {}

impl Descriptor {
    /// The packet goes on in the next descriptor.
    pub(super) const CONTINUED: u32 = libc::XDP_PKT_CONTD;
}

/// An AF_XDP socket with its rings.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) rx: Consumer<Descriptor>,
    pub(super) tx: Producer<Descriptor>,
    pub(super) fill: Producer<u64>,
    pub(super) completion: Consumer<u64>,
    /// What the rings lie in; unmapped after them.
    _mappings: [Mapping; 4],
    fd: OwnedFd,
}

impl Socket {
    /// Maps the rings of a socket that has them, bound or not. `sizes` are those that it was made with.
    pub(super) fn over(fd: OwnedFd, sizes: RingSizes) -> io::Result<Self> {
        let at: libc::xdp_mmap_offsets = get_option(&fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
        let entry = size_of::<Descriptor>();
        let map = |offsets, size, entry, page| map_ring(fd.as_fd(), offsets, size, entry, page);
        let rx = map(&at.rx, sizes.rx, entry, libc::XDP_PGOFF_RX_RING as u64)?;
        let tx = map(&at.tx, sizes.tx, entry, libc::XDP_PGOFF_TX_RING as u64)?;
        let entry = size_of::<u64>();
        let fill = map(&at.fr, sizes.fill, entry, libc::XDP_UMEM_PGOFF_FILL_RING)?;
        let page = libc::XDP_UMEM_PGOFF_COMPLETION_RING;
        let completion = map(&at.cr, sizes.completion, entry, page)?;
        Ok(Self {
            rx: Consumer::new(ring(&rx, &at.rx, sizes.rx)).map_err(io::Error::other)?,
            tx: Producer::new(ring(&tx, &at.tx, sizes.tx)).map_err(io::Error::other)?,
            fill: Producer::new(ring(&fill, &at.fr, sizes.fill)).map_err(io::Error::other)?,
            completion: Consumer::new(ring(&completion, &at.cr, sizes.completion))
                .map_err(io::Error::other)?,
            _mappings: [rx, tx, fill, completion],
            fd,
        })
    }

    /// False when the interface has been deleted: the kernel leaves the socket
    /// an error (ENETDOWN), which is taken from it by this.
    pub(super) fn is_alive(&self) -> bool {
        let error = get_option(&self.fd, libc::SOL_SOCKET, libc::SO_ERROR);
        error.is_ok_and(|error: i32| error == 0)
    }

    /// The kernel's own counters of this socket.
    pub(super) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        get_option(&self.fd, libc::SOL_XDP, libc::XDP_STATISTICS)
    }

    /// Has the kernel look at the transmit ring.
    pub(super) fn kick_tx(&self) -> io::Result<()> {
        let (fd, none) = (self.fd.as_raw_fd(), std::ptr::null());
        // SAFETY: no data and no address.
        let sent = unsafe { libc::sendto(fd, none, 0, libc::MSG_DONTWAIT, none.cast(), 0) };
        if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Has the kernel look at the fill ring, where it asked to be told. That it
    /// cannot just now is no loss: the next call asks again.
    pub(super) fn wake_rx_if_asked(&self) {
        if self.fill.flags() & libc::XDP_RING_NEED_WAKEUP == 0 {
            return;
        }
        let (fd, none) = (self.fd.as_raw_fd(), std::ptr::null_mut());
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: no data and no address.
        unsafe {
            libc::recvfrom(
                fd,
                none,
                0,
                flags,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
    }

    /// Hands free chunks to the kernel to receive into, at most `want`. Returns
    /// how many.
    pub(super) fn refill(&mut self, umem: &mut Umem, want: u32) -> Result<u32, PeerFault> {
        let room = self.fill.reserve(want)?;
        let mut count = 0;
        while count < room {
            let Some(chunk) = umem.take() else { break };
            self.fill.write(chunk);
            count += 1;
        }
        self.fill.commit();
        Ok(count)
    }

    /// Takes back the chunks of what has been sent. Returns how many, and how
    /// many of them were not ours.
    pub(super) fn collect_sent(&mut self, umem: &mut Umem) -> Result<(u32, u32), PeerFault> {
        let ready = self.completion.peek(self.completion.capacity())?;
        let strange = (0..ready)
            .filter(|&i| !umem.give(self.completion.read(i)))
            .count();
        self.completion.release(ready);
        Ok((ready, strange as u32))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn map_ring(
    fd: BorrowedFd<'_>,
    at: &libc::xdp_ring_offset,
    size: u32,
    entry_len: usize,
    page: u64,
) -> io::Result<Mapping> {
    Mapping::shared(fd, at.desc as usize + size as usize * entry_len, page)
}

/// One end of the ring within its mapping. The other is the kernel's.
fn ring<T: Plain>(mapping: &Mapping, at: &libc::xdp_ring_offset, size: u32) -> RingMemory<T> {
    let word = |offset: u64| mapping.at::<u32>(offset as usize, 1);
    let entries = mapping.at::<T>(at.desc as usize, size as usize);
    // SAFETY: the addresses were checked to be within the mapping and aligned;
    // `Socket` keeps the mapping as long as the ring and makes one end of it.
    unsafe {
        RingMemory::new(
            word(at.producer),
            word(at.consumer),
            Some(word(at.flags)),
            entries,
            size,
        )
    }
}

/// The kernel's ends of the rings of a socket that has no kernel.
#[cfg(test)]
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) rx: Producer<Descriptor>,
    pub(super) tx: Consumer<Descriptor>,
    pub(super) fill: Consumer<u64>,
    pub(super) completion: Producer<u64>,
    /// The rings' words of positions, to be forged: produced at 0, consumed at 64.
    pub(super) rx_words: NonNull<u32>,
    pub(super) tx_words: NonNull<u32>,
}

#[cfg(test)]
impl Socket {
    /// A socket whose rings lie in memory of our own, and their other ends. The
    /// memory is never given back, so that the peer may outlive the socket.
    pub(super) fn simulated() -> (Self, Peer) {
        let at = libc::xdp_ring_offset {
            producer: 0,
            consumer: 64,
            flags: 128,
            desc: 192,
        };
        let map = |size: u32, entry: usize| {
            let len = at.desc as usize + size as usize * entry;
            &*Box::leak(Box::new(Mapping::anonymous(len).expect("memory")))
        };
        let sizes = RingSizes::for_chunks(crate::limits::CHUNKS);
        let rx = map(sizes.rx, size_of::<Descriptor>());
        let tx = map(sizes.tx, size_of::<Descriptor>());
        let fill = map(sizes.fill, size_of::<u64>());
        let completion = map(sizes.completion, size_of::<u64>());
        let sound = "a new ring is sound";
        let peer = Peer {
            rx: Producer::new(ring(rx, &at, sizes.rx)).expect(sound),
            tx: Consumer::new(ring(tx, &at, sizes.tx)).expect(sound),
            fill: Consumer::new(ring(fill, &at, sizes.fill)).expect(sound),
            completion: Producer::new(ring(completion, &at, sizes.completion)).expect(sound),
            rx_words: rx.at(0, 1),
            tx_words: tx.at(0, 1),
        };
        let own = || Mapping::anonymous(1).expect("memory");
        let socket = Self {
            rx: Consumer::new(ring(rx, &at, sizes.rx)).expect(sound),
            tx: Producer::new(ring(tx, &at, sizes.tx)).expect(sound),
            fill: Producer::new(ring(fill, &at, sizes.fill)).expect(sound),
            completion: Consumer::new(ring(completion, &at, sizes.completion)).expect(sound),
            _mappings: [own(), own(), own(), own()],
            // Any socket: it is asked for errors only, and has none.
            fd: std::os::unix::net::UnixDatagram::unbound()
                .expect("a socket")
                .into(),
        };
        (socket, peer)
    }
}
