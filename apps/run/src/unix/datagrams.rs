//! Datagrams between a Unix socket, whose other end the program has, and a socket of the stack's.
//!
//! Of a connection of messages (`SOCK_SEQPACKET`) each is a datagram, and its end is told; but who sent one is not. So it serves
//! programs whose socket has a peer. Of one that has none, what the program sends goes to the one that was heard last.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use exos::inet::udp::HeaderFields;
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::flow::{Goes, has_finished, is_hung_up};
use crate::context::Context;
use crate::datagram_socket::DatagramSocket;

/// A socket for datagrams that goes by a Unix socket.
pub(crate) struct DatagramFlow {
    pub socket: DatagramSocket,
    pub peer: Option<SocketAddr>,
    heard: Option<SocketAddr>,
    /// Taken of the stack, and not read by the program.
    unread: VecDeque<Vec<u8>>,
    /// The program's socket has had no room for what came.
    pub is_full: bool,
    /// What ICMP said last, for the program to ask for.
    pub error: Option<io::Error>,
}

impl DatagramFlow {
    pub fn new(socket: DatagramSocket, peer: Option<SocketAddr>) -> Self {
        Self::with(socket, peer, Vec::new())
    }

    /// Of one of which this was taken before, with who sent it.
    pub fn with(
        socket: DatagramSocket,
        peer: Option<SocketAddr>,
        unread: Vec<(Option<SocketAddr>, Vec<u8>)>,
    ) -> Self {
        Self {
            socket,
            peer,
            heard: unread.last().and_then(|(from, _)| *from),
            unread: unread.into_iter().map(|(_, datagram)| datagram).collect(),
            is_full: false,
            error: None,
        }
    }

    /// Moves what can be moved, by way of the buffer, which holds the longest datagram.
    ///
    /// # Errors
    ///
    /// The Unix socket does not work.
    pub fn turn(&mut self, cx: &Context, end: &OwnedFd, buffer: &mut [u8]) -> io::Result<Goes> {
        self.pass_to_program(end)?;
        self.pass_to_peer(cx, end, buffer)
    }

    fn pass_to_peer(&mut self, cx: &Context, end: &OwnedFd, buffer: &mut [u8]) -> io::Result<Goes> {
        loop {
            let count = match recv(end, &mut buffer[..], RecvFlags::DONTWAIT) {
                // The end, if it is not a datagram without bytes, with others behind it: of all, or of what the program sends
                // (shutdown(2)).
                Ok((0, _)) if has_finished(end)? && ioctl_fionread(end)? == 0 => {
                    return Ok(match is_hung_up(end)? {
                        true => Goes::Closed,
                        false => Goes::On,
                    });
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
            cx.has_room(count);
            let (datagram, fields) = (buffer[..count].to_vec(), HeaderFields::default());
            if let Err(error) = self.socket.send(cx, datagram, (None, to), fields) {
                self.error = Some(error);
            }
        }
    }

    fn pass_to_program(&mut self, end: &OwnedFd) -> io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        self.socket.hear_kernels();
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
                Err(Errno::AGAIN) => {
                    self.is_full = true;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
