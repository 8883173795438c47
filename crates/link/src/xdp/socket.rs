//! The AF_XDP socket: its four rings and the calls that go with them.
//!
//! Follows Linux, `Documentation/networking/af_xdp.rst` and `linux/if_xdp.h`.
//! The order is fixed by the kernel: socket, memory, rings, mappings, bind. The
//! rings cannot be used by anyone else in this process, because the socket has
//! only just been made and its descriptor stays in here.
//!
//! Bytes of a receive or transmit descriptor ([`Descriptor`]):
//!
//! ```text
//!  0                8          12         16
//!  address: u64     len: u32   options: u32      native byte order
//! ```

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

#[cfg(test)]
use std::ptr::NonNull;

use exos_ring::{Consumer, PeerFault, Plain, Producer, RingMemory};

use super::umem::Umem;
use crate::limits::{
    BUSY_POLL_BUDGET, BUSY_POLL_US, COMPLETION_RING_SIZE, FILL_RING_SIZE, RX_RING_SIZE,
    SEND_BUFFER_LEN, TX_BUDGET, TX_RING_SIZE,
};
use crate::mapping::Mapping;

/// Packets that one system call may send (linux/if_xdp.h, since 6.17).
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

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
    /// Opens a socket over `umem` with empty rings. It is not bound yet.
    pub(super) fn open(umem: &Umem) -> io::Result<Self> {
        let fd = new_socket()?;
        register(&fd, umem)?;
        for (option, size) in [
            (libc::XDP_UMEM_FILL_RING, FILL_RING_SIZE),
            (libc::XDP_UMEM_COMPLETION_RING, COMPLETION_RING_SIZE),
            (libc::XDP_RX_RING, RX_RING_SIZE),
            (libc::XDP_TX_RING, TX_RING_SIZE),
        ] {
            set_option(&fd, libc::SOL_XDP, option, &size)?;
        }
        let at: libc::xdp_mmap_offsets = get_option(&fd, libc::XDP_MMAP_OFFSETS)?;
        let map = |offsets, size, entry, page| map_ring(fd.as_fd(), offsets, size, entry, page);
        let rx = map(
            &at.rx,
            RX_RING_SIZE,
            size_of::<Descriptor>(),
            libc::XDP_PGOFF_RX_RING as u64,
        )?;
        let tx = map(
            &at.tx,
            TX_RING_SIZE,
            size_of::<Descriptor>(),
            libc::XDP_PGOFF_TX_RING as u64,
        )?;
        let fill = map(
            &at.fr,
            FILL_RING_SIZE,
            size_of::<u64>(),
            libc::XDP_UMEM_PGOFF_FILL_RING,
        )?;
        let completion = map(
            &at.cr,
            COMPLETION_RING_SIZE,
            size_of::<u64>(),
            libc::XDP_UMEM_PGOFF_COMPLETION_RING,
        )?;
        Ok(Self {
            rx: Consumer::new(ring(&rx, &at.rx, RX_RING_SIZE)).map_err(io::Error::other)?,
            tx: Producer::new(ring(&tx, &at.tx, TX_RING_SIZE)).map_err(io::Error::other)?,
            fill: Producer::new(ring(&fill, &at.fr, FILL_RING_SIZE)).map_err(io::Error::other)?,
            completion: Consumer::new(ring(&completion, &at.cr, COMPLETION_RING_SIZE))
                .map_err(io::Error::other)?,
            _mappings: [rx, tx, fill, completion],
            fd,
        })
    }

    /// Binds to a queue of an interface. Fails with EBUSY while another socket
    /// holds it; may then be tried again.
    pub(super) fn bind(&self, interface: u32, queue: u32, flags: u16) -> io::Result<()> {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        let len = size_of::<libc::sockaddr_xdp>() as u32;
        // SAFETY: the address is a valid structure of the length given.
        let result = unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) };
        done(result)
    }

    /// True when packets are not copied between the driver and UMEM.
    pub(super) fn is_zero_copy(&self) -> io::Result<bool> {
        let options: libc::xdp_options = get_option(&self.fd, libc::XDP_OPTIONS)?;
        Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// Raises what the kernel sends per call and holds in flight. Both only save
    /// system calls, so that a refusal is not an error.
    pub(super) fn widen_sending(&self) {
        let _ = set_option(&self.fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &TX_BUDGET);
        let level = libc::SOL_SOCKET;
        if set_option(&self.fd, level, libc::SO_SNDBUFFORCE, &SEND_BUFFER_LEN).is_err() {
            let _ = set_option(&self.fd, level, libc::SO_SNDBUF, &SEND_BUFFER_LEN);
        }
    }

    /// Has the driver's work done in our system calls rather than in interrupts.
    pub(super) fn prefer_busy_poll(&self) -> io::Result<()> {
        for (option, value) in [
            (libc::SO_PREFER_BUSY_POLL, 1),
            (libc::SO_BUSY_POLL, BUSY_POLL_US),
            (libc::SO_BUSY_POLL_BUDGET, BUSY_POLL_BUDGET),
        ] {
            set_option(&self.fd, libc::SOL_SOCKET, option, &value)?;
        }
        Ok(())
    }

    /// False when the interface has been deleted: the kernel leaves the socket
    /// an error (ENETDOWN), which is taken from it by this.
    pub(super) fn is_alive(&self) -> bool {
        let error = get_option_at(&self.fd, libc::SOL_SOCKET, libc::SO_ERROR);
        error.is_ok_and(|error: i32| error == 0)
    }

    /// The kernel's own counters of this socket.
    pub(super) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        get_option(&self.fd, libc::XDP_STATISTICS)
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
        let ready = self.completion.peek(COMPLETION_RING_SIZE)?;
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

fn new_socket() -> io::Result<OwnedFd> {
    // SAFETY: a call without pointers.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    done(fd)?;
    // SAFETY: the kernel has just given it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn register(fd: &OwnedFd, umem: &Umem) -> io::Result<()> {
    let region = libc::xdp_umem_reg {
        addr: umem.memory().start().as_ptr() as u64,
        len: umem.memory().len() as u64,
        chunk_size: umem.chunk_size(),
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &region)
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

fn set_option<T: Copy>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as u32;
    // SAFETY: a pointer to a value of the length given.
    done(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            len,
        )
    })
}

/// Reads an option of the AF_XDP level.
fn get_option<T: Copy>(fd: &OwnedFd, name: i32) -> io::Result<T> {
    get_option_at(fd, libc::SOL_XDP, name)
}

/// Reads an option. `T` is an integer or one of the kernel's structures of them; a
/// kernel with a shorter one leaves the rest 0.
fn get_option_at<T: Copy>(fd: &OwnedFd, level: i32, name: i32) -> io::Result<T> {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as u32;
    let at = value.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `len` bytes to the value.
    done(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, at, &raw mut len) })?;
    // SAFETY: all integers, for which zeros and whatever the kernel wrote are valid.
    Ok(unsafe { value.assume_init() })
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
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
        let rx = map(RX_RING_SIZE, size_of::<Descriptor>());
        let tx = map(TX_RING_SIZE, size_of::<Descriptor>());
        let fill = map(FILL_RING_SIZE, size_of::<u64>());
        let completion = map(COMPLETION_RING_SIZE, size_of::<u64>());
        let sound = "a new ring is sound";
        let peer = Peer {
            rx: Producer::new(ring(rx, &at, RX_RING_SIZE)).expect(sound),
            tx: Consumer::new(ring(tx, &at, TX_RING_SIZE)).expect(sound),
            fill: Consumer::new(ring(fill, &at, FILL_RING_SIZE)).expect(sound),
            completion: Producer::new(ring(completion, &at, COMPLETION_RING_SIZE)).expect(sound),
            rx_words: rx.at(0, 1),
            tx_words: tx.at(0, 1),
        };
        let own = || Mapping::anonymous(1).expect("memory");
        let socket = Self {
            rx: Consumer::new(ring(rx, &at, RX_RING_SIZE)).expect(sound),
            tx: Producer::new(ring(tx, &at, TX_RING_SIZE)).expect(sound),
            fill: Producer::new(ring(fill, &at, FILL_RING_SIZE)).expect(sound),
            completion: Consumer::new(ring(completion, &at, COMPLETION_RING_SIZE)).expect(sound),
            _mappings: [own(), own(), own(), own()],
            // Any socket: it is asked for errors only, and has none.
            fd: std::os::unix::net::UnixDatagram::unbound()
                .expect("a socket")
                .into(),
        };
        (socket, peer)
    }
}
