//! What a listening socket of a program's is on our side: a listener of the stack's and, where it is one at all addresses, the kernel's
//! for connections of this host with itself. These are the kernel's from the first, and a program accepts them as they are.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};

use exos::ListenOptions;
use exos::net::{Interest, TcpListener, TcpStream, Token, Trigger};
use exos_host::intercept;
use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, acceptfrom_with, bind, listen, shutdown, sockopt,
};

use crate::context::Context;
use crate::target::Descriptor;

/// The interface by which this host reaches itself (`LOOPBACK_IFINDEX`).
const LOOPBACK: i32 = 1;

pub(crate) struct Listener {
    ours: TcpListener,
    loopback: Option<Loopback>,
    /// How many connections may wait for the program to accept them; more wait in the listener.
    pub backlog: usize,
    /// Whose socket it is.
    pub user: u32,
}

/// A connection that was made.
pub(crate) enum Accepted {
    Ours(TcpStream),
    Kernels(OwnedFd),
}

impl Listener {
    /// Has a socket of the kernel's listen, together with others of its user's at the address where it `shares` that.
    ///
    /// # Errors
    ///
    /// The stack's: the address is taken. Where the kernel's port is taken, or needs privilege, this host has no connections with it.
    pub fn open(
        cx: &Context,
        of: &Descriptor,
        family: AddressFamily,
        (at, backlog): (SocketAddr, usize),
        shares: bool,
    ) -> io::Result<Self> {
        let options = ListenOptions {
            backlog,
            v6_only: at.is_ipv6() && sockopt::ipv6_v6only(&of.fd)?,
            ..ListenOptions::default()
        };
        let ours = match shares {
            true => TcpListener::bind_shared_with(&cx.net, at, &options)?,
            false => TcpListener::bind_with(&cx.net, at, &options)?,
        };
        ours.set_nonblocking(true)?;
        let loopback = at.ip().is_unspecified();
        let loopback = loopback.then(|| Loopback::open(of, family, at, backlog).ok());
        Ok(Self {
            ours,
            loopback: loopback.flatten(),
            backlog,
            user: of.user,
        })
    }

    /// # Errors
    ///
    /// The stack's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.ours.local_addr()
    }

    /// Has connections come as events.
    ///
    /// # Errors
    ///
    /// It does so already, or the kernel's.
    pub fn register(&self, cx: &Context, token: Token) -> io::Result<()> {
        let edge = Trigger::Edge;
        cx.poll.register(&self.ours, token, Interest::BOTH, edge)?;
        self.loopback.iter().try_for_each(|Loopback(listener)| {
            let fd = listener.as_fd();
            cx.poll.register_fd(fd, token, Interest::READABLE, edge)
        })
    }

    /// # Errors
    ///
    /// They do not come as events.
    pub fn deregister(&self, cx: &Context) -> io::Result<()> {
        cx.poll.deregister(&self.ours)?;
        let mut kernels = self.loopback.iter();
        kernels.try_for_each(|Loopback(listener)| cx.poll.deregister_fd(listener.as_fd()))
    }

    /// The next connection, with its peer.
    ///
    /// # Errors
    ///
    /// `WouldBlock`: there is none.
    pub fn accept(&self) -> io::Result<(Accepted, SocketAddr)> {
        match (self.ours.accept(), &self.loopback) {
            (Ok((stream, peer)), _) => {
                stream.set_nonblocking(true)?;
                Ok((Accepted::Ours(stream), peer))
            }
            (Err(_), Some(loopback)) => loopback.accept(),
            (Err(error), None) => Err(error),
        }
    }
}

/// A listener of the kernel's.
struct Loopback(OwnedFd);

impl Loopback {
    /// Has the program's own socket listen, with the options that it was given, at the one interface alone.
    fn open(
        of: &Descriptor,
        family: AddressFamily,
        at: SocketAddr,
        backlog: usize,
    ) -> io::Result<Self> {
        let listener = of.fd.try_clone()?;
        let to_interface = libc::SO_BINDTOIFINDEX;
        intercept::set_option(&listener, libc::SOL_SOCKET, to_interface, LOOPBACK)?;
        let ip = match at.ip() {
            IpAddr::V4(ip) if family == AddressFamily::INET6 => ip.to_ipv6_mapped().into(),
            ip => ip,
        };
        bind(&listener, &SocketAddr::new(ip, at.port()))?;
        rustix::io::ioctl_fionbio(&listener, true)?;
        listen(&listener, i32::try_from(backlog).unwrap_or(i32::MAX))?;
        Ok(Self(listener))
    }

    fn accept(&self) -> io::Result<(Accepted, SocketAddr)> {
        let (connection, peer) = acceptfrom_with(&self.0, SocketFlags::CLOEXEC)?;
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        let peer = peer.ok_or(io::ErrorKind::ConnectionAborted)?;
        Ok((Accepted::Kernels(connection), peer))
    }
}

impl Drop for Loopback {
    /// A process that has forked before it listened has a descriptor of it too.
    fn drop(&mut self) {
        // What is not connected it says besides.
        let _ = shutdown(&self.0, Shutdown::Read);
    }
}
