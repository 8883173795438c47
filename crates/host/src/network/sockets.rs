//! Packet sockets of an interface, and options of sockets that libraries do not have.

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

/// A packet socket that does not wait, in the network namespace of the calling thread. It hears nothing until it is bound to a protocol.
///
/// # Errors
///
/// This process may not.
pub fn open_packets() -> io::Result<OwnedFd> {
    open(AddressFamily::PACKET, SocketFlags::NONBLOCK)
}

/// An AF_XDP socket, in the network namespace of the calling thread.
///
/// # Errors
///
/// This process may not, or the kernel has no such sockets.
pub fn open_xdp() -> io::Result<OwnedFd> {
    open(AddressFamily::XDP, SocketFlags::empty())
}

fn open(family: AddressFamily, flags: SocketFlags) -> io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    Ok(socket_with(family, SocketType::RAW, flags, None)?)
}

/// Has a packet socket send by an interface, and hear what is of this protocol there (`ETH_P_ALL`: everything; 0: nothing).
///
/// # Errors
///
/// There is no such interface, or it is down.
pub fn bind_packets(socket: impl AsFd, interface: u32, protocol: i32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (protocol as u16).to_be(),
        sll_ifindex: interface.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let (fd, len) = (socket.as_fd().as_raw_fd(), size_of_val(&address) as u32);
    // SAFETY: the address lives through the call and is of the length given.
    done(unsafe { libc::bind(fd, (&raw const address).cast(), len) })
}

/// setsockopt(2) with an integer, or one of the kernel's structures.
///
/// # Errors
///
/// The kernel's.
pub fn set_option<T: Copy>(
    socket: impl AsFd,
    level: i32,
    option: i32,
    value: &T,
) -> io::Result<()> {
    let (fd, len) = (socket.as_fd().as_raw_fd(), size_of::<T>() as u32);
    // SAFETY: a pointer to a value of the length given, which the kernel reads.
    done(unsafe { libc::setsockopt(fd, level, option, std::ptr::from_ref(value).cast(), len) })
}

fn done(result: libc::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
