//! The far end of the wire: a Linux host, and a packet socket that sees everything and can send anything.

use std::net::UdpSocket;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use exos_host::netns::NetNs;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::attacks::attacker::PATIENCE;
use crate::attacks::world::PEER_PORT;
use crate::packet_socket;

/// The far end.
pub struct FarEnd {
    packets: OwnedFd,
    /// Takes what is sent to the host, which would answer with errors otherwise.
    _sink: UdpSocket,
}

impl FarEnd {
    /// From now on everything is seen that this interface of the namespace receives.
    pub fn open(namespace: &NetNs, interface: u32) -> Self {
        let open = || {
            (
                packet_socket::open(interface),
                UdpSocket::bind(("::", PEER_PORT)),
            )
        };
        let (packets, sink) = namespace.run(open).expect("it can be entered");
        // A flood must not push out what is looked for.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&packets, 32 << 20);
        Self {
            packets,
            _sink: sink.expect("nobody else is there"),
        }
    }

    /// Sends a frame as it is, when there is room: the far side of the pair may be full behind a flood (packet(7): ENOBUFS).
    pub fn send(&self, frame: &[u8]) {
        let until = Instant::now() + PATIENCE;
        loop {
            match rustix::net::send(self.packets.as_fd(), frame, SendFlags::empty()) {
                Err(Errno::NOBUFS) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                sent => return assert_eq!(sent, Ok(frame.len())),
            }
        }
    }

    /// Everything that was seen and not asked for yet, up to a frame that ends with `last`, and that one.
    pub fn seen_up_to(&self, last: &[u8]) -> Vec<Vec<u8>> {
        let until = Instant::now() + PATIENCE;
        let mut frames = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        while Instant::now() < until {
            let received = rustix::net::recv(&self.packets, &mut buffer[..], RecvFlags::DONTWAIT);
            let Ok((len, _)) = received else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            frames.push(buffer[..len].to_vec());
            if buffer[..len].ends_with(last) {
                return frames;
            }
        }
        panic!("it does not arrive at the far end: {last:?}")
    }
}
