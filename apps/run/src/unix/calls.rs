//! What intercepted calls do to a socket that goes by a Unix socket, or is to. Those that ask of options, and set them, are in
//! `options`.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};

use exos::net::TcpStream;
use exos_host::intercept::{self, Call};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketType, send};

use super::datagrams::DatagramFlow;
use super::epoll_sets::EpollSets;
use super::sockets::{Connecting, Kind, Listening, Socket, UnixSockets, pair};
use crate::answer::{Answer, fails};
use crate::context::Context;
use crate::datagram_socket::DatagramSocket;
use crate::limits::PIECE;
use crate::listener::Listener;
use crate::target::{Descriptor, copy_options, keepalive_options};
use crate::waiting::{Patience, Waiters};

impl UnixSockets {
    /// Has a socket of the kernel's listen on the stack.
    pub fn listen(
        &mut self,
        cx: &Context,
        call: &Call,
        descriptor: &Descriptor,
        family: AddressFamily,
        listener: Listener,
    ) -> io::Result<()> {
        let local = listener.local_addr()?;
        let (theirs, ours) = pair(SocketType::STREAM, descriptor.nonblocking)?;
        put_in_place(cx, &mut self.sets, call, descriptor, &theirs)?;
        let listening = Kind::Listening(Listening {
            of: listener,
            made: VecDeque::new(),
            waiting: Waiters::default(),
        });
        self.add(cx, (&theirs, ours), family, (local, None), listening)?;
        Ok(())
    }

    pub fn listen_again(&self, key: usize) -> io::Result<Answer> {
        match self.all[key].kind {
            Kind::Listening(_) => Ok(Answer::Value(0)),
            _ => fails(libc::EINVAL),
        }
    }

    /// Has a socket of the kernel's be a connection of the stack's, which is being opened.
    pub fn connect(
        &mut self,
        cx: &Context,
        call: &Call,
        (descriptor, family): (&Descriptor, AddressFamily),
        stream: TcpStream,
        to: SocketAddr,
    ) -> io::Result<()> {
        let (theirs, ours) = pair(SocketType::STREAM, descriptor.nonblocking)?;
        let patience = Patience::to_connect(&descriptor.fd, false)?;
        // One that waits without a limit is told when it stands.
        let filled = match descriptor.nonblocking || patience.has_end() {
            true => fill(&theirs)?,
            false => 0,
        };
        put_in_place(cx, &mut self.sets, call, descriptor, &theirs)?;
        let local = stream.local_addr()?;
        let connecting = Kind::Connecting(Connecting {
            stream,
            filled,
            waiting: Waiters::default(),
        });
        let made = self.add(cx, (&theirs, ours), family, (local, Some(to)), connecting)?;
        if !descriptor.nonblocking
            && let Kind::Connecting(connecting) = &mut self.all[made].kind
        {
            connecting.waiting.push(cx, call, patience, 2 * made);
        }
        self.set_keepalive(made, keepalive_options(descriptor));
        Ok(())
    }

    /// A socket that is one of these already is connected.
    pub fn connect_again(
        &mut self,
        cx: &Context,
        call: &Call,
        key: usize,
        descriptor: &Descriptor,
    ) -> io::Result<Answer> {
        let socket = &mut self.all[key];
        match &mut socket.kind {
            Kind::Connecting(_) if descriptor.nonblocking => fails(libc::EALREADY),
            // Also a call that a signal has interrupted, and that the kernel makes again.
            Kind::Connecting(connecting) => {
                let patience = Patience::to_connect(&descriptor.fd, true)?;
                connecting.waiting.push(cx, call, patience, 2 * key);
                Ok(Answer::Later)
            }
            Kind::Flowing(_) => fails(libc::EISCONN),
            // It was before.
            Kind::Datagrams(_) => Ok(Answer::Value(0)),
            Kind::Listening(_) => fails(libc::EINVAL),
            Kind::Failed => Err(socket
                .error
                .take()
                .unwrap_or_else(|| io::Error::from_raw_os_error(libc::ECONNABORTED))),
        }
    }

    /// Has a socket of the kernel's be one of the stack's for datagrams, which is connected.
    pub fn open_datagrams(
        &mut self,
        cx: &Context,
        call: &Call,
        (descriptor, family): (&Descriptor, AddressFamily),
        socket: DatagramSocket,
        to: SocketAddr,
    ) -> io::Result<()> {
        let local = socket.local_addr()?;
        let (theirs, ours) = pair(SocketType::SEQPACKET, descriptor.nonblocking)?;
        put_in_place(cx, &mut self.sets, call, descriptor, &theirs)?;
        let flow = Kind::Datagrams(DatagramFlow::new(socket, Some(to)));
        self.add(cx, (&theirs, ours), family, (local, Some(to)), flow)?;
        Ok(())
    }

    /// One for datagrams is connected to another peer, or to nobody; none where the call is of another socket.
    pub fn connect_datagrams(
        &mut self,
        cx: &Context,
        call: &Call,
        to: Option<SocketAddr>,
    ) -> io::Result<Option<Answer>> {
        let is_it = |socket: &Socket| matches!(socket.kind, Kind::Datagrams(_));
        // The descriptor is looked at where there are any.
        let any = self.all.iter().any(|(_, socket)| is_it(socket));
        let of_call = || self.descriptor(call).ok()?.1;
        let Some(key) = any.then(of_call).flatten() else {
            return Ok(None);
        };
        let socket = &mut self.all[key];
        let Kind::Datagrams(flow) = &mut socket.kind else {
            return Ok(None);
        };
        let peer = match to {
            Some(to) => {
                let (local, peer) = flow.socket.connect(cx, to)?;
                socket.local = local;
                Some(peer)
            }
            None => {
                flow.socket.disconnect(cx)?;
                socket.local = flow.socket.local_addr()?;
                None
            }
        };
        (flow.peer, socket.peer) = (peer, peer);
        Ok(Some(Answer::Value(0)))
    }

    pub fn accept(&mut self, cx: &Context, call: &Call) -> io::Result<Answer> {
        let (descriptor, Some(key)) = self.descriptor(call)? else {
            return Ok(Answer::Pass);
        };
        if accept_flags(call) & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return fails(libc::EINVAL);
        }
        let Kind::Listening(listening) = &mut self.all[key].kind else {
            return fails(libc::EINVAL);
        };
        if !listening.made.is_empty() {
            // The call has its answer with the descriptor.
            self.give(cx, call, key, &descriptor)?;
            return Ok(Answer::Later);
        }
        if descriptor.nonblocking {
            return fails(libc::EAGAIN);
        }
        let patience = Patience::to_receive(&descriptor.fd)?;
        listening.waiting.push(cx, call, patience, 2 * key);
        Ok(Answer::Later)
    }

    /// Where one is bound, or whom it is connected to.
    pub fn name(&self, key: usize, peer: bool) -> io::Result<(SocketAddr, AddressFamily)> {
        let socket = &self.all[key];
        let stands = matches!(socket.kind, Kind::Flowing(_) | Kind::Datagrams(_));
        let address = match peer {
            true => socket.peer.filter(|_| stands),
            false => Some(socket.local),
        };
        Ok((address.ok_or(ErrorKind::NotConnected)?, socket.family))
    }
}

/// The flags of a call that accepts.
pub(super) fn accept_flags(call: &Call) -> i32 {
    match call.number {
        libc::SYS_accept4 => call.args[3] as i32,
        _ => 0,
    }
}

/// Puts the program's end in the place of the kernel's socket, also in epoll sets: some programs wait for a socket before they
/// connect it.
fn put_in_place(
    cx: &Context,
    sets: &mut EpollSets,
    call: &Call,
    descriptor: &Descriptor,
    theirs: &OwnedFd,
) -> io::Result<()> {
    let number = call.args[0] as i32;
    let close_on_exec = intercept::closes_on_exec(call.thread, number)?;
    let places = sets.registrations(call, number, descriptor.inode)?;
    copy_options(&descriptor.fd, theirs)?;
    cx.calls
        .replace(call, number, theirs.as_fd(), close_on_exec)?;
    places
        .iter()
        .try_for_each(|place| place.renew(number, theirs.as_fd()))
}

/// Fills a socket, so that it cannot be written to.
fn fill(theirs: &OwnedFd) -> io::Result<usize> {
    let mut filled = 0;
    loop {
        match send(theirs, &[0; PIECE], SendFlags::DONTWAIT) {
            Ok(count) => filled += count,
            Err(Errno::AGAIN) => return Ok(filled),
            Err(error) => return Err(error.into()),
        }
    }
}
