//! Connections of this host with itself, to a program that listens at all addresses: a listener of the kernel's beside the stack's, at the
//! loopback interface alone. They wait in the kernel's queue, but for a few that are a descriptor of ours each until the program has
//! them, and are the kernel's from the first. So it is with datagrams ([`datagrams`]).

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;

use exos_host::intercept::{network_namespace, option, set_option};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, SocketType, acceptfrom_with, bind, listen, shutdown,
    socket_with, sockopt,
};

use crate::limits::LOOPBACK_WAITING;
use crate::listener::Accepted;
use crate::target::{Descriptor, buffers_set, copy_options};
use crate::trace::say;

mod datagrams;

pub(crate) use datagrams::{LoopbackSocket, is_here, loopback_of};

/// The interface by which this host reaches itself (`LOOPBACK_IFINDEX`).
const LOOPBACK: i32 = 1;

/// Options of the program's socket that its connections have, besides those that every socket has.
const OPTIONS: [(i32, i32); 14] = [
    (libc::SOL_SOCKET, libc::SO_PRIORITY),
    (libc::SOL_SOCKET, libc::SO_MARK),
    (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
    (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT),
    (libc::IPPROTO_IP, libc::IP_TTL),
    (libc::IPPROTO_IP, libc::IP_TOS),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT),
];

/// A listener of the kernel's.
pub(crate) struct Loopback {
    listener: OwnedFd,
    is_stopped: Cell<bool>,
    /// One more for each connection that [waits](Waiting).
    places: Rc<()>,
}

/// A connection that no program has had.
pub(crate) struct Waiting {
    pub connection: OwnedFd,
    _place: Rc<()>,
}

impl Loopback {
    /// One beside a program's socket that listens at all addresses and all interfaces. Where the kernel refuses it, that is said.
    pub fn of(
        of: &Descriptor,
        family: AddressFamily,
        at: SocketAddr,
        backlog: usize,
    ) -> Option<Self> {
        if !at.ip().is_unspecified() || !is_at_all_interfaces(of) {
            return None;
        }
        let opened = match is_elsewhere(of) {
            true => Err(io::Error::other(ELSEWHERE)),
            false => Self::open(of, family, at, backlog),
        };
        let refused = opened.as_ref().err();
        if let Some(error) = refused {
            let port = at.port();
            say(format_args!(
                "exos run: port {port} is not reached by loopback: {error}"
            ));
        }
        opened.ok()
    }

    /// A socket of our own: the program's is to leave its epoll sets with the program's last descriptor of it.
    fn open(
        of: &Descriptor,
        family: AddressFamily,
        at: SocketAddr,
        backlog: usize,
    ) -> io::Result<Self> {
        let listener = socket_of(family)?;
        copy_options(&of.fd, &listener)?;
        for (level, name) in OPTIONS {
            // Those of IPv6 an IPv4 socket has not, and one of Multipath TCP does not say all.
            if let Ok(value) = option(&of.fd, level, name) {
                let _ = set_option(&listener, level, name, value);
            }
        }
        for (option, size) in buffers_set(&of.fd) {
            // The kernel doubles what it is told.
            set_option(&listener, libc::SOL_SOCKET, option, size / 2)?;
        }
        if family == AddressFamily::INET6 {
            sockopt::set_ipv6_v6only(&listener, sockopt::ipv6_v6only(&of.fd)?)?;
        }
        // As of the stack's, no connection that is over keeps a listener from its port.
        sockopt::set_socket_reuseaddr(&listener, true)?;
        let ip = match at.ip() {
            IpAddr::V4(ip) if family == AddressFamily::INET6 => ip.to_ipv6_mapped().into(),
            ip => ip,
        };
        bind(&listener, &SocketAddr::new(ip, at.port()))?;
        listen(&listener, queue(backlog))?;
        Ok(Self {
            listener,
            is_stopped: Cell::new(false),
            places: Rc::new(()),
        })
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// # Errors
    ///
    /// `WouldBlock`: there is none, or there is no place for one.
    pub fn accept(&self) -> io::Result<(Accepted, SocketAddr)> {
        if self.is_stopped.get() || Rc::strong_count(&self.places) > LOOPBACK_WAITING {
            return Err(ErrorKind::WouldBlock.into());
        }
        let (connection, peer) = acceptfrom_with(&self.listener, SocketFlags::CLOEXEC)?;
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        let peer = peer.ok_or(ErrorKind::ConnectionAborted)?;
        let waiting = Waiting {
            connection,
            _place: Rc::clone(&self.places),
        };
        Ok((Accepted::Kernels(waiting), peer))
    }

    /// Refuses connections, or takes them again.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn set_stopped(&self, stopped: bool, backlog: usize) -> io::Result<()> {
        match (self.is_stopped.get(), stopped) {
            (false, true) => shutdown(&self.listener, Shutdown::Read)?,
            (true, false) => listen(&self.listener, queue(backlog))?,
            _ => {}
        }
        self.is_stopped.set(stopped);
        Ok(())
    }
}

/// Whether a program's socket is not kept from loopback by its interface (`SO_BINDTODEVICE`).
pub(crate) fn is_at_all_interfaces(of: &Descriptor) -> bool {
    let interface = option(&of.fd, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX);
    matches!(interface, Ok(0 | LOOPBACK))
}

/// Why a program's socket has none of this host's connections.
pub(crate) const ELSEWHERE: &str = "it is in a network namespace of its own";

/// Whether a program's socket is in another network namespace than we, where other addresses are loopback.
pub(crate) fn is_elsewhere(of: &Descriptor) -> bool {
    let ours = socket_of(AddressFamily::INET).and_then(|ours| network_namespace(&ours));
    // Older kernels do not tell.
    matches!((ours, network_namespace(&of.fd)), (Ok(ours), Ok(its)) if ours != its)
}

/// Whether another socket of the kernel's keeps a listener from a port.
pub(crate) fn is_taken(port: u16) -> bool {
    let addresses: [(_, IpAddr); 2] = [
        (AddressFamily::INET, Ipv4Addr::UNSPECIFIED.into()),
        (AddressFamily::INET6, Ipv6Addr::UNSPECIFIED.into()),
    ];
    addresses.into_iter().any(|(family, ip)| {
        let socket = socket_of(family);
        socket
            .is_ok_and(|socket| bind(&socket, &SocketAddr::new(ip, port)) == Err(Errno::ADDRINUSE))
    })
}

/// A socket at the loopback interface.
fn socket_of(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, LOOPBACK)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    Ok(socket)
}

fn queue(backlog: usize) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn ports_of_this_hosts_listeners_are_taken() {
        for at in ["127.0.0.1:0", "0.0.0.0:0"] {
            let mut was_free = false;
            // Another may take one meanwhile.
            for _ in 0..10 {
                let listener = TcpListener::bind(at).expect("a port");
                let port = listener.local_addr().expect("its address").port();
                assert!(is_taken(port));
                drop(listener);
                was_free |= !is_taken(port);
            }
            assert!(was_free);
        }
    }
}
