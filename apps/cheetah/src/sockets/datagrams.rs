//! The socket of datagrams, for HTTP/3: what comes on it to QUIC, what QUIC sends to it.
//!
//! The kernel chooses from which of its addresses an answer leaves: at an unspecified address that is right where a client is reached
//! by one of them.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::sockopt;

use crate::limits::{QUIC_DATAGRAM_LEN_MAX, QUIC_DATAGRAMS_PER_TURN, QUIC_SOCKET_LEN};
use crate::quic::{Datagram, Quic};

/// The socket.
pub(super) struct Datagrams {
    socket: UdpSocket,
    buffer: Box<[u8]>,
    /// There may be more than was taken.
    has_more: bool,
}

impl Datagrams {
    /// At an address; at `::`, for IPv4 too where the kernel has it so.
    ///
    /// # Errors
    ///
    /// It is taken, or is none of this host's.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Datagrams> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        // As much as the kernel allows; less loses datagrams when many come at once, which QUIC sends again.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, QUIC_SOCKET_LEN);
        let _ = sockopt::set_socket_send_buffer_size(&socket, QUIC_SOCKET_LEN);
        Ok(Datagrams {
            socket,
            buffer: vec![0; QUIC_DATAGRAM_LEN_MAX].into_boxed_slice(),
            has_more: false,
        })
    }

    /// Gives QUIC what has come, a turn's worth of it.
    pub(super) fn receive(&mut self, quic: &mut Quic) {
        self.has_more = false;
        for _ in 0..QUIC_DATAGRAMS_PER_TURN {
            match self.socket.recv_from(&mut self.buffer) {
                Ok((len, remote)) => quic.receive(remote, None, 0, &self.buffer[..len]),
                // Errors about what was sent before are told here; the next call goes on.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(_) => return,
            }
        }
        self.has_more = true;
    }

    /// There may be more, of which no wait tells.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Sends what QUIC has to send. What the kernel does not take is lost, and sent again when it is missed.
    pub(super) fn send(&mut self, quic: &mut Quic) {
        while let Some(Datagram {
            remote,
            payload,
            segment,
            ..
        }) = quic.transmit()
        {
            for payload in payload.chunks(segment) {
                if let Err(error) = self.socket.send_to(payload, remote) {
                    quic.count_unsent(1);
                    // What is left waits for the next turn.
                    if error.kind() == ErrorKind::WouldBlock {
                        return;
                    }
                }
            }
        }
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
