//! A packet socket, which sees everything that an interface receives and sends any frame.

use std::os::fd::OwnedFd;

use exos_host::sockets::{bind_packets, open_packets};

/// On this interface of the namespace that one is in.
pub fn open(interface: u32) -> OwnedFd {
    let socket = open_packets().expect("root may");
    rustix::io::ioctl_fionbio(&socket, false).expect("it may wait");
    bind_packets(&socket, interface, libc::ETH_P_ALL).expect("it is there");
    socket
}
