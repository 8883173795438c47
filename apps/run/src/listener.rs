//! What a listening socket of a program's is on our side: a listener of the stack's and, where it is one at all addresses, the kernel's
//! for connections of this host with itself ([`Loopback`]).

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use exos::ListenOptions;
use exos::net::{Interest, TcpListener, TcpStream, Token, Trigger};
use rustix::net::{AddressFamily, sockopt};

use crate::context::Context;
use crate::loopback::{Loopback, Waiting};
use crate::target::Descriptor;

pub(crate) struct Listener {
    ours: TcpListener,
    loopback: Option<Loopback>,
    /// The kernel's is asked first, as every second time.
    kernels_first: Cell<bool>,
    /// How many connections may wait for the program to accept them; more wait in the listener.
    pub backlog: usize,
    /// Whose socket it is.
    pub user: u32,
}

/// A connection that was made.
pub(crate) enum Accepted {
    Ours(TcpStream),
    Kernels(Waiting),
}

impl Listener {
    /// Has a socket of the kernel's listen, together with others of its user's at the address where it `shares` that.
    ///
    /// # Errors
    ///
    /// The stack's: the address is taken. Where the kernel's port is taken, or needs privilege, this host has no connections with it,
    /// and that is said.
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
        Ok(Self {
            ours,
            loopback: Loopback::of(of, family, at, backlog),
            kernels_first: Cell::new(false),
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
        self.loopback.iter().try_for_each(|loopback| {
            cx.poll
                .register_fd(loopback.as_fd(), token, Interest::READABLE, edge)
        })
    }

    /// # Errors
    ///
    /// They do not come as events.
    pub fn deregister(&self, cx: &Context) -> io::Result<()> {
        cx.poll.deregister(&self.ours)?;
        let mut kernels = self.loopback.iter();
        kernels.try_for_each(|loopback| cx.poll.deregister_fd(loopback.as_fd()))
    }

    /// The next connection, with its peer: the stack's and the kernel's by turns.
    ///
    /// # Errors
    ///
    /// `WouldBlock`: there is none, or as many of the kernel's wait as may. Others: there may be one, and it is to be asked again later.
    pub fn accept(&self) -> io::Result<(Accepted, SocketAddr)> {
        let Some(loopback) = &self.loopback else {
            return self.accept_ours();
        };
        let kernels_first = self.kernels_first.get();
        self.kernels_first.set(!kernels_first);
        let [one, other]: [&dyn Fn() -> _; 2] = match kernels_first {
            true => [&|| loopback.accept(), &|| self.accept_ours()],
            false => [&|| self.accept_ours(), &|| loopback.accept()],
        };
        one().or_else(|first| match other() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(first),
            accepted => accepted,
        })
    }

    fn accept_ours(&self) -> io::Result<(Accepted, SocketAddr)> {
        let (stream, peer) = self.ours.accept()?;
        stream.set_nonblocking(true)?;
        Ok((Accepted::Ours(stream), peer))
    }

    /// Takes no connections of the kernel's, or takes them again.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn set_stopped(&self, stopped: bool) -> io::Result<()> {
        let mut kernels = self.loopback.iter();
        kernels.try_for_each(|loopback| loopback.set_stopped(stopped, self.backlog))
    }
}
