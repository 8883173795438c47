//! Datagrams of this host with itself, to a program's socket at all addresses: a socket of the kernel's beside the stack's, at the loopback
//! address of one family.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd};

use exos::inet::udp::{HeaderFields, Received, Sharing};
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with, sockopt,
};

/// Whether an address is one by which this host reaches itself, as the kernel takes it: none stands for loopback.
pub(crate) fn is_here(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified()
}

/// The loopback address of an address's family.
pub(crate) fn loopback_of(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    }
}

/// A socket of the kernel's at a loopback address.
pub(crate) struct LoopbackSocket {
    socket: UdpSocket,
    address: IpAddr,
    /// What packets of it say.
    fields: Cell<HeaderFields>,
}

impl LoopbackSocket {
    /// # Errors
    ///
    /// The kernel's: the port is taken, needs privilege, or there is no such address.
    pub fn open(at: SocketAddr, sharing: Option<Sharing>) -> io::Result<Self> {
        let family = match at {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
        match sharing {
            Some(Sharing::Last) => sockopt::set_socket_reuseaddr(&socket, true)?,
            Some(Sharing::Spread) => sockopt::set_socket_reuseport(&socket, true)?,
            None => {}
        }
        bind(&socket, &at)?;
        Ok(Self {
            socket: socket.into(),
            address: at.ip(),
            fields: Cell::default(),
        })
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// The next datagram. Hops and class are not looked at: they are those of one of which nothing was said.
    ///
    /// # Errors
    ///
    /// `WouldBlock`: there is none; what ICMP has said of one that was sent.
    pub fn receive(&self) -> io::Result<Received> {
        let look = RecvFlags::PEEK | RecvFlags::TRUNC;
        let (_, len) = recv(&self.socket, &mut [0_u8; 0][..], look)?;
        let mut payload = vec![0; len];
        let (_, from) = self.socket.recv_from(&mut payload)?;
        Ok(Received {
            from,
            to: self.address,
            fields: HeaderFields::default(),
            payload,
        })
    }

    /// Sends a datagram; one that the kernel has no room for is dropped.
    ///
    /// # Errors
    ///
    /// The kernel's; what ICMP has said of an earlier one, which does not keep this one back.
    pub fn send(&self, payload: &[u8], to: SocketAddr, fields: HeaderFields) -> io::Result<()> {
        if self.fields.replace(fields) != fields {
            self.say(fields)?;
        }
        match self.socket.send_to(payload, to) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                self.socket.send_to(payload, to)?;
                Err(error)
            }
            sent => sent.map(drop),
        }
    }

    fn say(&self, fields: HeaderFields) -> io::Result<()> {
        let (hops, class) = (fields.hop_limit, fields.traffic_class);
        match self.is_ipv4() {
            true => {
                sockopt::set_ip_ttl(&self.socket, u32::from(hops.max(1)))?;
                sockopt::set_ip_tos(&self.socket, class)?;
            }
            false => {
                sockopt::set_ipv6_unicast_hops(&self.socket, Some(hops))?;
                sockopt::set_ipv6_tclass(&self.socket, class.into())?;
            }
        }
        Ok(())
    }

    /// Hears `to` alone from now on.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn connect(&self, to: SocketAddr) -> io::Result<IpAddr> {
        self.socket.connect(to)?;
        Ok(self.address)
    }
}
