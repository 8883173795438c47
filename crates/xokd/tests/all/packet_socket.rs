//! A packet socket, which sees everything that an interface receives and sends any frame.

use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// On this interface of the namespace that one is in.
pub fn open(interface: u32) -> OwnedFd {
    let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(AddressFamily::PACKET, kind, flags, None);
    let socket = socket.expect("root may");
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: interface.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of_val(&address) as u32;
    // SAFETY: the address is a valid structure of the length given.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
    socket
}
