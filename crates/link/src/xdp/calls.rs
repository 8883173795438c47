//! The system calls on an AF_XDP socket's descriptor, without its rings.
//!
//! The order is fixed by the kernel (`net/xdp/xsk.c`): memory, sizes of rings and the budget of
//! sending while the socket is new, then bind, after which none of them can be changed any more.
//! Mappings of the rings may be made before and, from some kernel on
//! ([`BOUND_MAPPING_KERNEL`](crate::limits::BOUND_MAPPING_KERNEL)), after. Nothing here needs the rings to be mapped,
//! so that a socket can be made ready by one process and used by another.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use exos_host::sockets::{open_xdp, set_option};

use crate::limits::{
    BUSY_POLL_BUDGET, BUSY_POLL_US, CHUNKS, RX_RING_SIZE, SEND_BUFFER_LEN, TX_BUDGET,
};
use crate::mapping::Mapping;

/// Packets that one system call may send (linux/if_xdp.h, since 6.17).
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

/// Entries of the four rings, powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingSizes {
    pub(super) rx: u32,
    pub(super) tx: u32,
    pub(super) fill: u32,
    pub(super) completion: u32,
}

impl RingSizes {
    /// Half of the chunks for each direction, so that a full transmit ring can never starve
    /// reception. The kernel shows us a received frame before it shows that the fill ring's entry is
    /// free again, so that ring has room for twice what is ever in it. The completion ring has room
    /// for every chunk: a full one would stop the kernel from sending.
    pub(super) const fn for_chunks(chunks: u32) -> Self {
        Self {
            rx: chunks / 2,
            tx: chunks / 2,
            fill: chunks,
            completion: chunks,
        }
    }
}

const _: () = assert!(RingSizes::for_chunks(CHUNKS).rx == RX_RING_SIZE);

/// A socket of the calling thread's network namespace with this memory and empty rings, not bound.
pub(super) fn new_socket(
    memory: &Mapping,
    chunk_size: u32,
    sizes: RingSizes,
) -> io::Result<OwnedFd> {
    let fd = open_xdp()?;
    let region = libc::xdp_umem_reg {
        addr: memory.start().as_ptr() as u64,
        len: memory.len() as u64,
        chunk_size,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set_option(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &region)?;
    for (option, size) in [
        (libc::XDP_UMEM_FILL_RING, sizes.fill),
        (libc::XDP_UMEM_COMPLETION_RING, sizes.completion),
        (libc::XDP_RX_RING, sizes.rx),
        (libc::XDP_TX_RING, sizes.tx),
    ] {
        set_option(&fd, libc::SOL_XDP, option, &size)?;
    }
    Ok(fd)
}

/// Binds to a queue of an interface. Fails with EBUSY while another socket holds it; may then be
/// tried again.
pub(super) fn bind(fd: impl AsFd, interface: u32, queue: u32, flags: u16) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of::<libc::sockaddr_xdp>() as u32;
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the address is a valid structure of the length given.
    done(unsafe { libc::bind(fd, (&raw const address).cast(), len) })
}

/// True when packets are not copied between the driver and UMEM.
pub(super) fn is_zero_copy(fd: impl AsFd) -> io::Result<bool> {
    let options: libc::xdp_options = get_option(fd, libc::SOL_XDP, libc::XDP_OPTIONS)?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// Raises what the kernel sends per call and holds in flight. Both only save system calls, so that
/// a refusal is not an error.
pub(super) fn widen_sending(fd: impl AsFd) {
    let fd = fd.as_fd();
    let _ = set_option(fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &TX_BUDGET);
    let level = libc::SOL_SOCKET;
    if set_option(fd, level, libc::SO_SNDBUFFORCE, &SEND_BUFFER_LEN).is_err() {
        let _ = set_option(fd, level, libc::SO_SNDBUF, &SEND_BUFFER_LEN);
    }
}

/// Has the driver's work done in our system calls rather than in interrupts.
pub(super) fn prefer_busy_poll(fd: impl AsFd) -> io::Result<()> {
    let fd = fd.as_fd();
    for (option, value) in [
        (libc::SO_PREFER_BUSY_POLL, 1),
        (libc::SO_BUSY_POLL, BUSY_POLL_US),
        (libc::SO_BUSY_POLL_BUDGET, BUSY_POLL_BUDGET),
    ] {
        set_option(fd, libc::SOL_SOCKET, option, &value)?;
    }
    Ok(())
}

/// Reads an option. `T` is an integer or one of the kernel's structures of them; a kernel with a
/// shorter one leaves the rest 0.
pub(crate) fn get_option<T: Copy>(fd: impl AsFd, level: i32, name: i32) -> io::Result<T> {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as u32;
    let (fd, at) = (fd.as_fd().as_raw_fd(), value.as_mut_ptr().cast());
    // SAFETY: the kernel writes at most `len` bytes to the value.
    done(unsafe { libc::getsockopt(fd, level, name, at, &raw mut len) })?;
    // SAFETY: all integers, for which zeros and whatever the kernel wrote are valid.
    Ok(unsafe { value.assume_init() })
}

pub(super) fn done(result: i32) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
