//! Datagrams on a socket of the kernel's, in as few calls as can be: several that come are read at once (`recvmmsg`), those of one sender
//! as one where the kernel has put them together (UDP_GRO), and several of one length leave as one for the kernel or the device to cut
//! (UDP_SEGMENT).
//!
//! Datagrams leave from the address that they are to leave from, with the bits of ECN that they are to have, and are not fragmented on
//! their way.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::net::sockopt;

/// Bytes that datagrams come to at most which the kernel has put together.
const TOGETHER_LEN: usize = 65_535;

/// How many are read in one call, each of which may be several.
const BATCH: usize = 8;

/// A datagram that has come.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Who sent it.
    pub remote: SocketAddr,
    /// To which of our addresses.
    pub local: Option<IpAddr>,
    /// The two bits of ECN (RFC 3168).
    pub ecn: u8,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// Datagrams of one length, but for the last, that are to leave.
#[derive(Clone, Copy, Debug)]
pub struct Segments<'a> {
    /// Where they go.
    pub remote: SocketAddr,
    /// From which of our addresses, where that is not the kernel's to choose.
    pub local: Option<IpAddr>,
    /// The two bits of ECN.
    pub ecn: u8,
    /// Their bytes.
    pub payload: &'a [u8],
    /// The length of each but the last.
    pub segment: usize,
}

/// Where datagrams are read to; of several sockets, if need be.
pub struct Buffers(Box<[u8]>);

impl Buffers {
    /// Room for what one call reads.
    pub fn new() -> Self {
        Self(vec![0; BATCH * TOGETHER_LEN].into_boxed_slice())
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Self::new()
    }
}

/// A socket.
#[derive(Debug)]
pub struct Datagrams {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl Datagrams {
    /// At an address; at `::`, for IPv4 too where the kernel has it so. So many bytes may wait in the kernel, coming and going, if it
    /// allows as many.
    ///
    /// # Errors
    ///
    /// It is taken, or is none of this host's.
    pub fn bind(address: SocketAddr, buffer_len: usize) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        // Less loses datagrams when many come at once.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, buffer_len);
        let _ = sockopt::set_socket_send_buffer_size(&socket, buffer_len);
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        Ok(Self { socket, state })
    }

    /// Hears this peer alone from now on, and that nobody listens there.
    ///
    /// # Errors
    ///
    /// No route leads there.
    pub fn connect(&self, to: SocketAddr) -> io::Result<()> {
        self.socket.connect(to)
    }

    /// Takes what one call reads: false when nothing has come, and a wait tells of what comes next.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ConnectionRefused`]: of what was sent, nobody took some. There may be more to take.
    pub fn receive(
        &self,
        buffers: &mut Buffers,
        mut each: impl FnMut(&Datagram<'_>),
    ) -> io::Result<bool> {
        let mut meta = [RecvMeta::default(); BATCH];
        let mut parts = buffers.0.chunks_exact_mut(TOGETHER_LEN);
        let mut parts: [IoSliceMut<'_>; BATCH] =
            std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
        let socket = UdpSockRef::from(&self.socket);
        let count = match self.state.recv(socket, &mut parts, &mut meta) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        for (part, meta) in parts.iter().zip(&meta).take(count) {
            for payload in part[..meta.len].chunks(meta.stride.max(1)) {
                each(&Datagram {
                    remote: meta.addr,
                    local: meta.dst_ip,
                    ecn: meta.ecn.map_or(0, |ecn| ecn as u8),
                    payload,
                });
            }
        }
        Ok(count > 0)
    }

    /// How many may leave in one call.
    pub fn segments_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Sends them.
    ///
    /// # Errors
    ///
    /// The kernel does not take them: for want of room, with [`ErrorKind::WouldBlock`].
    pub fn send(&self, segments: &Segments<'_>) -> io::Result<()> {
        let whole = self.send_once(segments, segments.payload);
        match whole {
            // A device that cannot cut them, as it turns out.
            Err(error) if error.kind() != ErrorKind::WouldBlock && self.segments_max() == 1 => {
                let mut each = segments.payload.chunks(segments.segment);
                each.try_for_each(|payload| self.send_once(segments, payload))
            }
            sent => sent,
        }
    }

    fn send_once(&self, segments: &Segments<'_>, payload: &[u8]) -> io::Result<()> {
        let transmit = Transmit {
            destination: segments.remote,
            ecn: EcnCodepoint::from_bits(segments.ecn),
            contents: payload,
            segment_size: (payload.len() > segments.segment).then_some(segments.segment),
            src_ip: segments.local,
        };
        self.state
            .try_send(UdpSockRef::from(&self.socket), &transmit)
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Datagrams, Datagrams) {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let [one, two] = [any, any].map(|at| Datagrams::bind(at, 1 << 20).unwrap());
        (one, two)
    }

    /// What leaves as one comes as several, each as long as it was, with its bits of ECN, and from where it was to leave.
    #[test]
    fn segments_come_as_they_were() {
        let (one, two) = pair();
        let to = two.socket.local_addr().unwrap();
        let payload: Vec<u8> = (0..2500u32).map(|n| n as u8).collect();
        let segments = Segments {
            remote: to,
            local: Some(IpAddr::from([127, 0, 0, 1])),
            ecn: 2,
            payload: &payload,
            segment: 1000,
        };
        one.send(&segments).unwrap();
        let (mut got, mut buffers) = (Vec::new(), Buffers::new());
        while got.len() < 3 {
            let came = two.receive(&mut buffers, |it| {
                assert_eq!((it.ecn, it.local), (2, Some(IpAddr::from([127, 0, 0, 1]))));
                assert_eq!(it.remote, one.socket.local_addr().unwrap());
                got.push(it.payload.to_vec());
            });
            assert!(came.is_ok());
        }
        let wanted: Vec<&[u8]> = payload.chunks(1000).collect();
        assert_eq!(got, wanted);
        assert!(!two.receive(&mut buffers, |_| ()).unwrap());
    }

    #[test]
    fn where_nobody_listens_is_told() {
        let (one, two) = pair();
        let to = two.socket.local_addr().unwrap();
        drop(two);
        one.connect(to).unwrap();
        let segments = Segments {
            remote: to,
            local: None,
            ecn: 0,
            payload: b"a",
            segment: 1,
        };
        one.send(&segments).unwrap();
        let mut buffers = Buffers::new();
        let refused = one.receive(&mut buffers, |_| ());
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
}
