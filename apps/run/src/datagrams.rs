//! Datagrams between a Unix socket, whose other end the program has, and a socket of the stack's.
//!
//! Of a connection of messages (`SOCK_SEQPACKET`) each is a datagram, and its end is told; but who sent one is not. So it serves
//! programs whose socket has a peer. Of one that has none, what the program sends goes to the one that was heard last.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use exos::Buffer;
use exos::net::UdpSocket;
use exos_host::intercept::Call;
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{RecvFlags, SendFlags, SocketType, recv, send};

use crate::calls::{Answer, fails};
use crate::flow::{Goes, is_hung_up};
use crate::sharing::has_room;
use crate::sockets::{Kind, pair};
use crate::supervise::Supervisor;
use crate::target::Descriptor;

/// A socket for datagrams that goes by a Unix socket.
pub(crate) struct DatagramFlow {
    pub socket: UdpSocket,
    pub peer: Option<SocketAddr>,
    heard: Option<SocketAddr>,
    /// Taken of the stack, and not read by the program.
    unread: VecDeque<Vec<u8>>,
    /// What ICMP said last, for the program to ask for.
    pub error: Option<io::Error>,
}

impl DatagramFlow {
    pub fn new(socket: UdpSocket, peer: Option<SocketAddr>) -> Self {
        Self::with(socket, peer, Vec::new())
    }

    /// Of one of which this was taken before, with who sent it.
    pub fn with(
        socket: UdpSocket,
        peer: Option<SocketAddr>,
        unread: Vec<(Option<SocketAddr>, Vec<u8>)>,
    ) -> Self {
        Self {
            socket,
            peer,
            heard: unread.last().and_then(|(from, _)| *from),
            unread: unread.into_iter().map(|(_, datagram)| datagram).collect(),
            error: None,
        }
    }

    /// Moves what can be moved, by way of the buffer, which holds the longest datagram.
    ///
    /// # Errors
    ///
    /// The Unix socket does not work.
    pub fn turn(&mut self, end: &OwnedFd, buffer: &mut [u8]) -> io::Result<Goes> {
        self.pass_to_program(end)?;
        self.pass_to_peer(end, buffer)
    }

    fn pass_to_peer(&mut self, end: &OwnedFd, buffer: &mut [u8]) -> io::Result<Goes> {
        loop {
            let count = match recv(end, &mut buffer[..], RecvFlags::DONTWAIT) {
                // The end, if it is not a datagram without bytes, with others behind it.
                Ok((0, _)) if is_hung_up(end)? && ioctl_fionread(end)? == 0 => {
                    return Ok(Goes::Closed);
                }
                Ok((count, _)) => count,
                Err(Errno::AGAIN) => return Ok(Goes::On),
                Err(Errno::CONNRESET) => return Ok(Goes::Closed),
                Err(error) => return Err(error.into()),
            };
            let Some(to) = self.peer.or(self.heard) else {
                continue;
            };
            // What the link has no room for is dropped and counted there.
            has_room(self.socket.net(), count);
            let slice = Buffer::from(&buffer[..count]).into();
            if let Err(error) = self.socket.send_slice(slice, to, None) {
                self.error = Some(error);
            }
        }
    }

    fn pass_to_program(&mut self, end: &OwnedFd) -> io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            let Some(datagram) = self.unread.front() else {
                match self.socket.receive() {
                    Ok(received) => {
                        self.heard = Some(received.from);
                        self.unread.push_back(received.payload);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                    Err(error) => self.error = Some(error),
                }
                continue;
            };
            match send(end, datagram, flags) {
                Ok(_) | Err(Errno::PIPE | Errno::CONNRESET | Errno::MSGSIZE) => {
                    self.unread.pop_front();
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Supervisor {
    /// One that goes by a Unix socket for datagrams is connected to another peer, or to nobody.
    pub fn connect_passed(
        &mut self,
        call: &Call,
        to: Option<SocketAddr>,
    ) -> io::Result<Option<Answer>> {
        let Some(key) = self.sockets.of_datagrams(|| {
            let descriptor = Descriptor::of(call, call.args[0] as i32).ok();
            descriptor.map(|descriptor| descriptor.inode)
        }) else {
            return Ok(None);
        };
        let source = to.map(|to| {
            self.source_for(to.ip())
                .ok_or(ErrorKind::NetworkUnreachable)
        });
        let source = source.transpose()?;
        let socket = &mut self.sockets.all[key];
        let Kind::Datagrams(flow) = &mut socket.kind else {
            return Ok(None);
        };
        match to {
            Some(to) => flow.socket.connect(to)?,
            None => flow.socket.disconnect()?,
        }
        (flow.peer, socket.peer) = (to, to);
        let bound = flow.socket.local_addr()?;
        let ip = source.filter(|_| bound.ip().is_unspecified());
        socket.local = SocketAddr::new(ip.unwrap_or(bound.ip()), bound.port());
        Ok(Some(Answer::Value(0)))
    }

    /// A socket of the kernel's for datagrams is connected to another host: where sockets are shared it is ours from now on. Calls that
    /// the library does not see (the C library's own, when it looks names up) get a Unix socket.
    pub fn connect_kernels_datagrams(
        &mut self,
        call: &Call,
        descriptor: Descriptor,
        to: SocketAddr,
    ) -> io::Result<Answer> {
        let Some(family) = descriptor.udp_family().filter(|_| self.sharing.is_some()) else {
            return Ok(Answer::Pass);
        };
        if descriptor.is_bound() || to.ip().is_multicast() {
            return Ok(Answer::Pass);
        }
        let Some(source) = self.source_for(to.ip()) else {
            return fails(libc::ENETUNREACH);
        };
        if let Some(part) = self.part_of(call) {
            let number = self.share_datagrams((call, part), descriptor, family)?;
            self.connect_datagrams(number, Some(to))?;
            return Ok(Answer::Value(0));
        }
        let socket = UdpSocket::bind(&self.net, SocketAddr::new(source, 0))?;
        socket.set_nonblocking(true)?;
        socket.connect(to)?;
        let local = socket.local_addr()?;
        let (theirs, ours) = pair(SocketType::SEQPACKET, descriptor.nonblocking)?;
        self.put_in_place(call, &descriptor, &theirs)?;
        let flow = Kind::Datagrams(DatagramFlow::new(socket, Some(to)));
        self.add(&theirs, ours, family, local, Some(to), flow)?;
        Ok(Answer::Value(0))
    }
}
