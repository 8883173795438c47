//! [`UdpSocket`].

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use exos::inet::udp::Received;
use exos::net::{self, Net};

/// A socket for datagrams, shaped as `tokio::net::UdpSocket`.
#[derive(Debug)]
pub struct UdpSocket(net::UdpSocket);

impl UdpSocket {
    /// Binds to the first of the addresses that can be had, as [`net::UdpSocket::bind`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn bind(net: &Net, at: impl ToSocketAddrs) -> io::Result<Self> {
        let socket = net::UdpSocket::bind(net, at)?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// The socket beneath: `connect`, `local_addr`, and calls that do not wait.
    pub fn get_ref(&self) -> &net::UdpSocket {
        &self.0
    }

    /// The next datagram, whole. One task receives at a time.
    ///
    /// # Errors
    ///
    /// What ICMP has said of one that was sent.
    pub async fn receive(&self) -> io::Result<Received> {
        poll_fn(|cx| self.0.poll_receive(cx)).await
    }

    /// The next datagram; what does not fit is cut off. Gives how many bytes, and who sent it.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    pub async fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let next = self.receive().await?;
        let count = next.payload.len().min(into.len());
        into[..count].copy_from_slice(&next.payload[..count]);
        Ok((count, next.from))
    }

    /// Sends a datagram, at once: it never waits.
    ///
    /// # Errors
    ///
    /// As [`net::UdpSocket::send_to`].
    pub fn send_to(&self, bytes: &[u8], to: impl ToSocketAddrs) -> io::Result<usize> {
        self.0.send_to(bytes, to)
    }
}
