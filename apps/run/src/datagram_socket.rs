//! What a program's socket for datagrams is on our side: one of the stack's and, where it is one at all addresses, the kernel's for
//! datagrams of this host with itself ([`LoopbackSocket`]), one for each family. One that is connected has the stack's or the kernel's
//! alone.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use exos::Buffer;
use exos::inet::udp::{HeaderFields, Received};
use exos::net::{BindOptions, Interest, Token, Trigger, UdpSocket};

use crate::answer::fails;
use crate::context::Context;
use crate::limits::PORT_TRIES;
use crate::loopback::{
    ELSEWHERE, LoopbackSocket, is_at_all_interfaces, is_elsewhere, is_here, loopback_of,
};
use crate::target::Descriptor;
use crate::trace::say;

pub(crate) struct DatagramSocket {
    ours: UdpSocket,
    options: BindOptions,
    /// It may have sockets of the kernel's.
    hears_loopback: bool,
    loopback: Vec<LoopbackSocket>,
    /// By what events are told: of the stack's, and of the kernel's.
    tokens: Option<[Token; 2]>,
    /// Something may have come by loopback.
    has_news: bool,
    /// The kernel's are asked first, as every second time.
    kernels_first: bool,
}

impl DatagramSocket {
    /// Binds in place of a socket of the kernel's. A port that is not asked for is free by loopback, too. Where the kernel refuses one
    /// that is, this host has no datagrams with it, and that is said.
    ///
    /// # Errors
    ///
    /// The stack's: the address is taken.
    pub fn bind(
        cx: &Context,
        at: SocketAddr,
        options: BindOptions,
        before: &Descriptor,
    ) -> io::Result<Self> {
        let is_asked = at.ip().is_unspecified() && is_at_all_interfaces(before);
        let hears_loopback = is_asked && !is_elsewhere(before);
        let mut tries = match at.port() {
            0 => PORT_TRIES,
            _ => 1,
        };
        loop {
            let mut socket = Self::of(UdpSocket::bind_with(&cx.net, at, &options)?)?;
            (socket.options, socket.hears_loopback) = (options, hears_loopback);
            let mut refused = socket.open_loopback();
            if is_asked && !hears_loopback && at.port() != 0 {
                refused.push((loopback_of(at.ip()), io::Error::other(ELSEWHERE)));
            }
            tries -= 1;
            let is_taken = |(_, error): &(_, io::Error)| error.kind() == ErrorKind::AddrInUse;
            if tries == 0 || !refused.iter().any(is_taken) {
                socket.say(&refused);
                return Ok(socket);
            }
        }
    }

    /// One of the stack's alone.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn of(ours: UdpSocket) -> io::Result<Self> {
        ours.set_nonblocking(true)?;
        Ok(Self {
            ours,
            options: BindOptions::default(),
            hears_loopback: false,
            loopback: Vec::new(),
            tokens: None,
            has_news: false,
            kernels_first: false,
        })
    }

    /// Opens the kernel's in place of those that there were; gives which of them it refuses. Of a family that this host does not have
    /// there is none.
    fn open_loopback(&mut self) -> Vec<(IpAddr, io::Error)> {
        self.loopback.clear();
        let Some(bound) = self.local_addr().ok().filter(|_| self.hears_loopback) else {
            return Vec::new();
        };
        let all: &[IpAddr] = match bound.ip() {
            IpAddr::V4(_) => &[IpAddr::V4(Ipv4Addr::LOCALHOST)],
            IpAddr::V6(_) if self.options.v6_only => &[IpAddr::V6(Ipv6Addr::LOCALHOST)],
            IpAddr::V6(_) => &[
                IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(Ipv6Addr::LOCALHOST),
            ],
        };
        let mut refused = Vec::new();
        for ip in all {
            let at = SocketAddr::new(*ip, bound.port());
            match LoopbackSocket::open(at, self.options.sharing) {
                Ok(socket) => self.loopback.push(socket),
                Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {}
                Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => {}
                Err(error) => refused.push((*ip, error)),
            }
        }
        refused
    }

    fn say(&self, refused: &[(IpAddr, io::Error)]) {
        let port = self.local_addr().map_or(0, |at| at.port());
        for (ip, error) in refused {
            say(format_args!(
                "exos run: UDP port {port} is not reached by {ip}: {error}"
            ));
        }
    }

    /// # Errors
    ///
    /// The stack's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.ours.local_addr()
    }

    /// Has datagrams come as events: the stack's, and the kernel's, which are [told of](Self::hear_kernels).
    ///
    /// # Errors
    ///
    /// They do so already, or the kernel's.
    pub fn register(&mut self, cx: &Context, tokens: [Token; 2]) -> io::Result<()> {
        cx.poll
            .register(&self.ours, tokens[0], Interest::BOTH, Trigger::Edge)?;
        self.tokens = Some(tokens);
        self.register_loopback(cx)
    }

    fn register_loopback(&self, cx: &Context) -> io::Result<()> {
        let Some([_, token]) = self.tokens else {
            return Ok(());
        };
        self.loopback.iter().try_for_each(|socket| {
            cx.poll
                .register_fd(socket.as_fd(), token, Interest::READABLE, Trigger::Edge)
        })
    }

    /// # Errors
    ///
    /// They do not come as events.
    pub fn deregister(&mut self, cx: &Context) -> io::Result<()> {
        self.tokens = None;
        cx.poll.deregister(&self.ours)?;
        let mut kernels = self.loopback.iter();
        kernels.try_for_each(|socket| cx.poll.deregister_fd(socket.as_fd()))
    }

    /// Something may have come by loopback: the next call that receives looks there, too.
    pub fn hear_kernels(&mut self) {
        self.has_news = !self.loopback.is_empty();
    }

    /// The next datagram: the stack's and the kernel's by turns.
    ///
    /// # Errors
    ///
    /// `WouldBlock`: there is none; what ICMP has said of one that was sent.
    pub fn receive(&mut self) -> io::Result<Received> {
        self.kernels_first = !self.kernels_first && self.has_news;
        if self.kernels_first
            && let Some(received) = self.receive_here()
        {
            return received;
        }
        match self.ours.receive() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.receive_here().unwrap_or(Err(error))
            }
            received => received,
        }
    }

    /// The next by loopback; none where nothing has come.
    fn receive_here(&mut self) -> Option<io::Result<Received>> {
        for socket in self.loopback.iter().filter(|_| self.has_news) {
            match socket.receive() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                received => return Some(received),
            }
        }
        self.has_news = false;
        None
    }

    /// Sends a datagram, from an address of the stack's where one is wished.
    ///
    /// # Errors
    ///
    /// `NetworkUnreachable`: no route leads there, or the socket is not at an address of that family; what ICMP has said of an earlier
    /// one, which does not keep this one back.
    pub fn send(
        &self,
        cx: &Context,
        payload: Vec<u8>,
        (from, to): (Option<IpAddr>, SocketAddr),
        fields: HeaderFields,
    ) -> io::Result<()> {
        if is_here(to.ip()) {
            let to = meant(to);
            return self.of_family(to)?.send(&payload, to, fields);
        }
        let from = from.filter(|from| cx.has_address(*from));
        let bound = self.local_addr()?.ip();
        let is_elsewhere = !bound.is_unspecified() && bound.is_ipv4() != to.is_ipv4();
        if is_elsewhere || cx.source_for(to.ip()).is_none() {
            return Err(ErrorKind::NetworkUnreachable.into());
        }
        let error = self.ours.take_error()?;
        self.ours
            .send_with(Buffer::from(payload).into(), to, from, fields)?;
        error.map_or(Ok(()), Err)
    }

    /// The kernel's by which this host's address is reached.
    fn of_family(&self, to: SocketAddr) -> io::Result<&LoopbackSocket> {
        let mut all = self.loopback.iter();
        let socket = all.find(|socket| socket.is_ipv4() == to.is_ipv4());
        socket.ok_or_else(|| ErrorKind::NetworkUnreachable.into())
    }

    /// Hears `to` alone, from now on; gives from where it sends there, and what is meant by the address.
    ///
    /// # Errors
    ///
    /// `NetworkUnreachable`: no route leads there; EINVAL: it is another host, and the socket is connected by loopback.
    pub fn connect(
        &mut self,
        cx: &Context,
        to: SocketAddr,
    ) -> io::Result<(SocketAddr, SocketAddr)> {
        let mut local = self.local_addr()?;
        let to = meant(to);
        if is_here(to.ip()) {
            if self.of_family(to).is_err() {
                self.hear_loopback(cx)?;
            }
            local.set_ip(self.of_family(to)?.connect(to)?);
            self.loopback
                .retain(|socket| socket.is_ipv4() == to.is_ipv4());
        } else {
            // As by the kernel, whose socket has its loopback address still.
            if self.ours.peer_addr().is_ok_and(|peer| is_here(peer.ip())) {
                return fails(libc::EINVAL);
            }
            let source = cx.source_for(to.ip());
            let source = source.ok_or(ErrorKind::NetworkUnreachable)?;
            self.loopback.clear();
            if local.ip().is_unspecified() {
                local.set_ip(source);
            }
        }
        // Of one that is connected by loopback the stack's hears nobody.
        self.ours.connect(to)?;
        Ok((local, to))
    }

    /// Hears everybody again.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn disconnect(&mut self, cx: &Context) -> io::Result<()> {
        if self.ours.peer_addr().is_err() {
            return Ok(());
        }
        self.ours.disconnect()?;
        self.hear_loopback(cx)
    }

    fn hear_loopback(&mut self, cx: &Context) -> io::Result<()> {
        let refused = self.open_loopback();
        self.say(&refused);
        self.register_loopback(cx)
    }
}

/// What the kernel takes an address for: none for this host.
fn meant(mut to: SocketAddr) -> SocketAddr {
    if to.ip().is_unspecified() {
        to.set_ip(loopback_of(to.ip()));
    }
    to
}
