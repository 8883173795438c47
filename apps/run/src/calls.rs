//! What each intercepted call does. Those that ask of options, and set them, are in `options`.

mod options;

use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use exos::inet::limits::EPHEMERAL_FIRST;
use exos::inet::tcp::Keepalive;
use exos::net::{TcpListener, TcpStream};
use exos::{ListenOptions, Options};
use exos_host::intercept::{self, Call};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, sockopt};

use exos_preload::memory::ASK_LEVEL;

use crate::limits::PIECE;
use crate::sharing;
use crate::sockets::{Connecting, Kind, Listening, Socket, pair};
use crate::supervise::Supervisor;
use crate::target::{Descriptor, copy_timeouts, inode, read_address, write_address};

/// The calls that are told to us.
pub(crate) const TOLD: [libc::c_long; 9] = [
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
];

/// Told too where sockets are shared: a process becomes another program.
pub(crate) const BECOMING: [libc::c_long; 2] = [libc::SYS_execve, libc::SYS_execveat];

/// Calls that the program finds missing: what it asks of an io_uring passes by us. Programs fall back to the others.
pub(crate) const REFUSED: [libc::c_long; 1] = [libc::SYS_io_uring_setup];

/// What becomes of a call.
pub(crate) enum Answer {
    /// The kernel does it.
    Pass,
    /// Its result.
    Value(i64),
    /// It waits.
    Later,
}

/// An error of the kernel's, by its number.
pub(crate) fn fails<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

/// The number of an error (errno(3)).
pub(crate) fn number(error: &io::Error) -> i32 {
    if let Some(number) = error.raw_os_error() {
        return number;
    }
    match error.kind() {
        ErrorKind::PermissionDenied => libc::EACCES,
        ErrorKind::ConnectionRefused => libc::ECONNREFUSED,
        ErrorKind::ConnectionReset => libc::ECONNRESET,
        ErrorKind::ConnectionAborted => libc::ECONNABORTED,
        ErrorKind::HostUnreachable => libc::EHOSTUNREACH,
        ErrorKind::NetworkUnreachable => libc::ENETUNREACH,
        ErrorKind::NotConnected => libc::ENOTCONN,
        ErrorKind::AddrInUse => libc::EADDRINUSE,
        ErrorKind::AddrNotAvailable => libc::EADDRNOTAVAIL,
        ErrorKind::BrokenPipe => libc::EPIPE,
        ErrorKind::TimedOut => libc::ETIMEDOUT,
        ErrorKind::InvalidInput => libc::EINVAL,
        ErrorKind::OutOfMemory => libc::ENOBUFS,
        ErrorKind::Interrupted => libc::EINTR,
        _ => libc::EIO,
    }
}

impl Supervisor {
    pub fn answer(&mut self, call: &Call) -> io::Result<Answer> {
        match call.number {
            libc::SYS_execve | libc::SYS_execveat => self.becomes_another(call),
            libc::SYS_setsockopt if call.args[1] as i32 == ASK_LEVEL => self.asked(call),
            libc::SYS_bind => self.bind(call),
            libc::SYS_listen => self.listen(call),
            libc::SYS_connect => self.connect(call),
            libc::SYS_accept | libc::SYS_accept4 => self.accept(call),
            libc::SYS_getsockname => self.name(call, false),
            libc::SYS_getpeername => self.name(call, true),
            libc::SYS_getsockopt => self.get_option(call),
            libc::SYS_setsockopt => self.set_option(call),
            _ => Ok(Answer::Pass),
        }
    }

    /// The descriptor that a call is of, and the number of its socket where it is one of ours.
    fn descriptor(&self, call: &Call) -> io::Result<(Descriptor, Option<usize>)> {
        let descriptor = Descriptor::of(call, call.args[0] as i32)?;
        let key = self.sockets.find(descriptor.inode);
        Ok((descriptor, key))
    }

    /// One of the ports that are given out where none is asked for (RFC 6335 §6), and that no socket has.
    fn random_port(&mut self) -> u16 {
        const TRIES: u32 = 100;
        let mut port = 0;
        for _ in 0..TRIES {
            let hash = self.random.hash_one(self.ports_drawn);
            self.ports_drawn += 1;
            port = EPHEMERAL_FIRST + (hash % u64::from(u16::MAX - EPHEMERAL_FIRST + 1)) as u16;
            if !self.sockets.has_port(port) && !self.shares_port(port) {
                break;
            }
        }
        port
    }

    /// Sockets of other users listen there: with those none is shared.
    fn others_listen(&self, at: SocketAddr, user: u32) -> bool {
        let mut users = self.sockets.listeners_at(at).chain(self.listeners_at(at));
        users.any(|other| other != user)
    }

    /// An address that is the stack's, or all of them.
    pub fn is_ours(&self, ip: IpAddr) -> bool {
        let of_stack = |exos: &mut exos::Exos| exos.stack.addresses().iter().any(|a| a.addr == ip);
        ip.is_unspecified() || self.net.with(of_stack)
    }

    fn bind(&mut self, call: &Call) -> io::Result<Answer> {
        let address = read_address(&self.calls, call, call.args[1], call.args[2])?;
        if let Some(number) = self.shared_datagrams(call) {
            let address = address.ok_or(ErrorKind::InvalidInput)?;
            self.bind_datagrams(number, Some(address))?;
            return Ok(Answer::Value(0));
        }
        let Some(address) = address.filter(|address| self.is_ours(address.ip())) else {
            return Ok(Answer::Pass);
        };
        // Sockets that the program has closed before it asks have left their ports.
        self.share();
        let (descriptor, key) = self.descriptor(call)?;
        if key.is_some() || self.sockets.bound(descriptor.inode).is_some() {
            return fails(libc::EINVAL);
        }
        if let (Some(family), Some(part)) = (descriptor.udp_family(), self.part_of(call))
            && !descriptor.is_bound()
        {
            let number = self.share_datagrams((call, part), descriptor, family)?;
            self.bind_datagrams(number, Some(address))?;
            return Ok(Answer::Value(0));
        }
        if descriptor.tcp_family().is_none() {
            return Ok(Answer::Pass);
        }
        // The program may ask which port it is before it listens.
        let port = match address.port() {
            0 => self.random_port(),
            port => port,
        };
        self.sockets
            .bind(descriptor.inode, SocketAddr::new(address.ip(), port));
        Ok(Answer::Value(0))
    }

    fn listen(&mut self, call: &Call) -> io::Result<Answer> {
        self.share();
        let (descriptor, key) = self.descriptor(call)?;
        if let Some(key) = key {
            return match self.sockets.all[key].kind {
                Kind::Listening(_) => Ok(Answer::Value(0)),
                _ => fails(libc::EINVAL),
            };
        }
        let Some(family) = descriptor.tcp_family() else {
            return Ok(Answer::Pass);
        };
        let bound = match self.sockets.bound(descriptor.inode) {
            Some(bound) => bound,
            // Without an address: at all, and a port that is free.
            None if !descriptor.is_bound() => {
                let all = match family {
                    AddressFamily::INET6 => IpAddr::from(Ipv6Addr::UNSPECIFIED),
                    _ => Ipv4Addr::UNSPECIFIED.into(),
                };
                SocketAddr::new(all, self.random_port())
            }
            None => return Ok(Answer::Pass),
        };
        let backlog = (call.args[1] as i32).max(1) as usize;
        let options = ListenOptions {
            backlog,
            ..ListenOptions::default()
        };
        let listener = match sockopt::socket_reuseport(&descriptor.fd)? {
            true if self.others_listen(bound, descriptor.user) => return fails(libc::EADDRINUSE),
            true => TcpListener::bind_shared_with(&self.net, bound, &options)?,
            false => TcpListener::bind_with(&self.net, bound, &options)?,
        };
        listener.set_nonblocking(true)?;
        let local = listener.local_addr()?;
        if let Some(part) = self.part_of(call) {
            let listening = sharing::Listening {
                listener,
                backlog,
                user: descriptor.user,
            };
            self.share_listener((call, part), &descriptor, family, listening)?;
            self.sockets.take_bound(descriptor.inode);
            return Ok(Answer::Value(0));
        }
        let (theirs, ours) = pair(SocketType::STREAM, descriptor.nonblocking)?;
        self.put_in_place(call, &descriptor, &theirs)?;
        self.sockets.take_bound(descriptor.inode);
        let listening = Listening {
            listener,
            made: VecDeque::new(),
            backlog,
            waiting: VecDeque::new(),
            user: descriptor.user,
        };
        self.add(
            &theirs,
            ours,
            family,
            local,
            None,
            Kind::Listening(listening),
        )?;
        Ok(Answer::Value(0))
    }

    fn connect(&mut self, call: &Call) -> io::Result<Answer> {
        let to = read_address(&self.calls, call, call.args[1], call.args[2])?;
        if let Some(number) = self.shared_datagrams(call) {
            self.connect_datagrams(number, to)?;
            return Ok(Answer::Value(0));
        }
        if let Some(answer) = self.connect_passed(call, to)? {
            return Ok(answer);
        }
        // What is this host's own stays the kernel's; and so does what ends a connection of datagrams.
        let Some(to) = to.filter(|to| !to.ip().is_loopback() && !to.ip().is_unspecified()) else {
            return Ok(Answer::Pass);
        };
        if self.is_ours(to.ip()) {
            // What the stack sends to itself comes back by no link. An address that it shares with this host is the kernel's to reach.
            return match UdpSocket::bind((to.ip(), 0)) {
                Ok(_) => Ok(Answer::Pass),
                Err(_) => fails(libc::ENETUNREACH),
            };
        }
        if let Some(answer) = self.connect_shared_again(call) {
            return answer;
        }
        let (descriptor, key) = self.descriptor(call)?;
        if let Some(key) = key {
            return self.connect_again(call, key, descriptor.nonblocking);
        }
        let Some(family) = descriptor.tcp_family() else {
            return self.connect_kernels_datagrams(call, descriptor, to);
        };
        let bound = self.sockets.bound(descriptor.inode);
        let from = bound.and_then(|bound| {
            let ip = match bound.ip().is_unspecified() {
                true => self.net.with(|exos| exos.stack.source_for(to.ip()))?,
                false => bound.ip(),
            };
            Some(SocketAddr::new(ip, bound.port()))
        });
        let stream = TcpStream::open(&self.net, to, from, &Options::default())?;
        if sockopt::socket_keepalive(&descriptor.fd)? {
            stream.set_keepalive(Some(Keepalive::default()));
        }
        if sockopt::socket_linger(&descriptor.fd)? == Some(Duration::ZERO) {
            stream.set_linger(Some(Duration::ZERO))?;
        }
        if let Some(part) = self.part_of(call) {
            self.share_attempt((call, part), &descriptor, family, stream, to)?;
            self.sockets.take_bound(descriptor.inode);
            return match descriptor.nonblocking {
                true => fails(libc::EINPROGRESS),
                false => Ok(Answer::Later),
            };
        }
        let (theirs, ours) = pair(SocketType::STREAM, descriptor.nonblocking)?;
        let filled = match descriptor.nonblocking {
            true => fill(&theirs)?,
            false => 0,
        };
        self.put_in_place(call, &descriptor, &theirs)?;
        self.sockets.take_bound(descriptor.inode);
        let local = stream.local_addr()?;
        let waiting = match descriptor.nonblocking {
            true => Vec::new(),
            false => vec![*call],
        };
        let connecting = Kind::Connecting(Connecting {
            stream,
            filled,
            waiting,
        });
        self.add(&theirs, ours, family, local, Some(to), connecting)?;
        match descriptor.nonblocking {
            true => fails(libc::EINPROGRESS),
            false => Ok(Answer::Later),
        }
    }

    /// A socket that is ours already is connected.
    fn connect_again(&mut self, call: &Call, key: usize, nonblocking: bool) -> io::Result<Answer> {
        let socket = &mut self.sockets.all[key];
        match &mut socket.kind {
            Kind::Connecting(_) if nonblocking => fails(libc::EALREADY),
            // Also a call that a signal has interrupted, and that the kernel makes again.
            Kind::Connecting(connecting) => {
                connecting.waiting.retain(|call| self.calls.waits(call));
                connecting.waiting.push(*call);
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

    fn accept(&mut self, call: &Call) -> io::Result<Answer> {
        let (descriptor, Some(key)) = self.descriptor(call)? else {
            return Ok(Answer::Pass);
        };
        let Kind::Listening(listening) = &mut self.sockets.all[key].kind else {
            return fails(libc::EINVAL);
        };
        if !listening.made.is_empty() {
            // The call has its answer with the descriptor.
            self.give(call, key, &descriptor)?;
            return Ok(Answer::Later);
        }
        if descriptor.nonblocking {
            return fails(libc::EAGAIN);
        }
        // Those that a signal has interrupted are made again.
        listening.waiting.retain(|call| self.calls.waits(call));
        listening.waiting.push_back(*call);
        Ok(Answer::Later)
    }

    /// Gives the program a connection that waits.
    pub fn give(&mut self, call: &Call, key: usize, descriptor: &Descriptor) -> io::Result<()> {
        let socket = &mut self.sockets.all[key];
        let family = socket.family;
        let Kind::Listening(listening) = &mut socket.kind else {
            return fails(libc::EINVAL);
        };
        if socket.inode != descriptor.inode {
            return fails(libc::EBADF);
        }
        let flags = match call.number {
            libc::SYS_accept4 => call.args[3] as i32,
            _ => 0,
        };
        let (theirs, ours) = pair(SocketType::STREAM, flags & libc::SOCK_NONBLOCK != 0)?;
        copy_timeouts(&descriptor.fd, &theirs)?;
        let Some((_, peer)) = listening.made.front() else {
            return fails(libc::EAGAIN);
        };
        let (peer, close_on_exec) = (*peer, flags & libc::SOCK_CLOEXEC != 0);
        write_address(
            &self.calls,
            call,
            [call.args[1], call.args[2]],
            peer,
            family,
        )?;
        let given = self.calls.give(call, theirs.as_fd(), close_on_exec)?;
        let (flow, _) = listening.made.pop_front().expect("it was just looked at");
        if listening.made.is_empty() {
            // The program's socket is not readable any more.
            let _ = recv(&descriptor.fd, &mut [0][..], RecvFlags::DONTWAIT);
        }
        self.trace(call, &Ok(i64::from(given)));
        let local = flow.stream.local_addr()?;
        let flow = Kind::Flowing(flow);
        let made = self.add(&theirs, ours, family, local, Some(peer), flow)?;
        self.turn(made);
        self.take_made(key);
        Ok(())
    }

    fn name(&mut self, call: &Call, peer: bool) -> io::Result<Answer> {
        let (descriptor, key) = self.descriptor(call)?;
        let (address, family) = match key.map(|key| &self.sockets.all[key]) {
            Some(socket) if peer => {
                let stands = matches!(socket.kind, Kind::Flowing(_) | Kind::Datagrams(_));
                let peer = socket.peer.filter(|_| stands);
                (peer.ok_or(ErrorKind::NotConnected)?, socket.family)
            }
            Some(socket) => (socket.local, socket.family),
            None => match (
                self.sockets.bound(descriptor.inode),
                descriptor.tcp_family(),
            ) {
                (Some(bound), Some(family)) if !peer => (bound, family),
                _ => return Ok(Answer::Pass),
            },
        };
        write_address(
            &self.calls,
            call,
            [call.args[1], call.args[2]],
            address,
            family,
        )?;
        Ok(Answer::Value(0))
    }

    /// Puts the program's end in the place of the kernel's socket, also in epoll sets: some programs wait for a socket before they
    /// connect it.
    pub fn put_in_place(
        &self,
        call: &Call,
        descriptor: &Descriptor,
        theirs: &OwnedFd,
    ) -> io::Result<()> {
        let number = call.args[0] as i32;
        let close_on_exec = intercept::closes_on_exec(call.thread, number)?;
        let places = intercept::registrations(call.thread, number, descriptor.inode)?;
        copy_timeouts(&descriptor.fd, theirs)?;
        self.calls
            .replace(call, number, theirs.as_fd(), close_on_exec)?;
        places
            .iter()
            .try_for_each(|place| place.renew(number, theirs.as_fd()))
    }

    pub fn add(
        &mut self,
        theirs: &OwnedFd,
        end: OwnedFd,
        family: AddressFamily,
        local: SocketAddr,
        peer: Option<SocketAddr>,
        kind: Kind,
    ) -> io::Result<usize> {
        let key = self.sockets.insert(Socket {
            inode: inode(theirs)?,
            family,
            local,
            peer,
            end,
            kind,
            error: None,
        });
        self.wait_for(key)?;
        Ok(key)
    }
}

/// Fills a socket, so that it cannot be written to.
fn fill(theirs: &OwnedFd) -> io::Result<usize> {
    let mut filled = 0;
    loop {
        match send(theirs, &[0; PIECE], SendFlags::DONTWAIT) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::AGAIN) => return Ok(filled),
            Err(error) => return Err(error.into()),
        }
    }
}
