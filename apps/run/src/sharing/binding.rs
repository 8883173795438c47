//! Shared sockets for datagrams: how they come to be, where they are bound, and whom they are connected to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;

use exos::inet::udp::Sharing as Shares;
use exos::net::BindOptions;
use exos_host::intercept::{self, Call};
use exos_preload::memory::{Socket, options, state};
use rustix::net::{AddressFamily, sockopt};

use super::addresses::address_of;
use super::datagrams::Datagrams;
use super::entry::{Entry, Kind};
use super::sockets::SharedSockets;
use crate::answer::fails;
use crate::context::Context;
use crate::datagram_socket::DatagramSocket;
use crate::target::{Descriptor, is_of_v6_alone};

/// All addresses of a family.
fn all_of(family: AddressFamily) -> IpAddr {
    match family {
        AddressFamily::INET6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// Whether what is bound to the one address would also be sent what is for the other.
fn overlap(one: (IpAddr, bool), other: (IpAddr, bool)) -> bool {
    let hears = |(all, only_v6): (IpAddr, bool), ip: IpAddr| {
        all.is_unspecified() && (all.is_ipv4() == ip.is_ipv4() || (all.is_ipv6() && !only_v6))
    };
    one.0 == other.0 || hears(one, other.0) || hears(other, one.0)
}

impl SharedSockets {
    /// One for datagrams.
    fn datagrams(&mut self, number: u32) -> io::Result<(&mut Entry, &Socket)> {
        match self.table.get_mut(number) {
            Some(entry) if matches!(entry.kind, Kind::Datagrams(_)) => {
                Ok((entry, self.memory.socket(number)))
            }
            _ => fails(libc::EINVAL),
        }
    }

    /// The number of what was this socket of the kernel's.
    fn was(&self, inode: u64) -> Option<u32> {
        let is_it =
            |entry: &Entry| matches!(&entry.kind, Kind::Datagrams(d) if d.before.inode == inode);
        let mut all = self.table.iter();
        all.find_map(|(number, entry)| is_it(entry).then_some(number))
    }

    fn user(&self, number: u32) -> Option<u32> {
        match &self.table.get(number)?.kind {
            Kind::Datagrams(datagrams) => Some(datagrams.before.user),
            _ => None,
        }
    }

    /// Whether other sockets keep this one from being bound there.
    fn is_taken(&self, this: u32, at: SocketAddr) -> bool {
        let has = |number, option| self.memory.socket(number).has(option);
        let only_v6 = |number| has(number, options::V6_ONLY);
        // Of the one user's.
        let spread = |number| has(number, options::REUSE_PORT).then(|| self.user(number));
        let reuse = |number| has(number, options::REUSE) && !has(number, options::REUSE_PORT);
        let share = |other| {
            (reuse(this) && reuse(other))
                || (spread(this).is_some() && spread(this) == spread(other))
        };
        let is_there = |other, entry: &Entry| {
            matches!(&entry.kind, Kind::Datagrams(d) if d.socket.is_some())
                && entry.local.port() == at.port()
                && overlap((at.ip(), only_v6(this)), (entry.local.ip(), only_v6(other)))
        };
        let mut others = self.table.iter().filter(|(other, _)| *other != this);
        others.any(|(other, entry)| is_there(other, entry) && !share(other))
    }

    /// Has a socket of the kernel's for datagrams be a shared one; gives its number.
    pub fn share_datagrams(
        &mut self,
        cx: &Context,
        by: (&Call, u32),
        descriptor: &Descriptor,
        family: AddressFamily,
    ) -> io::Result<u32> {
        if let Some(number) = self.was(descriptor.inode) {
            self.put_number(cx, by, number)?;
            return Ok(number);
        }
        let mut bits = state::DATAGRAMS | state::NO_IPV4 | state::NO_IPV6;
        for address in cx.net.with(|exos| exos.stack.addresses().to_vec()) {
            match address.addr {
                IpAddr::V4(_) => bits &= !state::NO_IPV4,
                // Those are for neighbours alone.
                IpAddr::V6(ip) if ip.is_unicast_link_local() => {}
                IpAddr::V6(_) => bits &= !state::NO_IPV6,
            }
        }
        let entry = Entry {
            family,
            local: SocketAddr::new(all_of(family), 0),
            peer: None,
            kind: Kind::Datagrams(Datagrams::new(descriptor.try_clone()?)),
        };
        let number = self.share(cx, by, descriptor, entry, bits)?;
        copy_options(descriptor, family, self.memory.socket(number))?;
        Ok(number)
    }

    /// Binds one (bind(2)), or gives it a port.
    pub fn bind_datagrams(
        &mut self,
        cx: &Context,
        number: u32,
        at: Option<SocketAddr>,
    ) -> io::Result<()> {
        let is_ours = at.is_none_or(|at| cx.is_ours(at.ip()));
        let is_taken = at.is_some_and(|at| at.port() != 0 && self.is_taken(number, at));
        let (entry, socket) = self.datagrams(number)?;
        // It may have an address by now, and no port any more.
        let wanted = at.unwrap_or(entry.local);
        let only_v6 = socket.has(options::V6_ONLY);
        let Kind::Datagrams(datagrams) = &mut entry.kind else {
            return fails(libc::EINVAL);
        };
        match &datagrams.socket {
            Some(_) if at.is_none() => return Ok(()),
            Some(_) => return fails(libc::EINVAL),
            None if !is_ours => return fails(libc::EADDRNOTAVAIL),
            None if is_taken => return fails(libc::EADDRINUSE),
            None if only_v6 && wanted.is_ipv4() => return fails(libc::EINVAL),
            None => {}
        }
        let wishes = BindOptions {
            v6_only: only_v6,
            sharing: match (socket.has(options::REUSE_PORT), socket.has(options::REUSE)) {
                (true, _) => Some(Shares::Spread),
                (false, true) => Some(Shares::Last),
                (false, false) => None,
            },
        };
        let bound = DatagramSocket::bind(cx, wanted, wishes, &datagrams.before)?;
        entry.local = bound.local_addr()?;
        datagrams.socket = Some(bound);
        datagrams.keeps_port = at.is_some_and(|at| at.port() != 0);
        socket.local.set(address_of(entry.local, entry.family));
        if at.is_some_and(|at| is_of_v6_alone(at.ip())) {
            socket.set_option(options::V6_ONLY, true);
        }
        socket.add(state::HAS_PORT);
        self.wait_for(cx, number)
    }

    /// Connects one to a peer, or to nobody (connect(2)).
    pub fn connect_datagrams(
        &mut self,
        cx: &Context,
        number: u32,
        to: Option<SocketAddr>,
    ) -> io::Result<()> {
        // What was written before goes as it was meant.
        self.turn(cx, number);
        let Some(to) = to else {
            return self.disconnect(cx, number);
        };
        self.bind_for_use(cx, number)?;
        let (entry, socket) = self.datagrams(number)?;
        let Kind::Datagrams(Datagrams {
            socket: Some(ours), ..
        }) = &mut entry.kind
        else {
            return fails(libc::EINVAL);
        };
        let other_family = entry.local.is_ipv4() != to.is_ipv4();
        let both =
            entry.local.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && !socket.has(options::V6_ONLY);
        if other_family && !both {
            return match entry.local.is_ipv4() {
                true => fails(libc::EAFNOSUPPORT),
                false => fails(libc::ENETUNREACH),
            };
        }
        let (local, to) = ours.connect(cx, to)?;
        entry.peer = Some(to);
        socket.local.set(address_of(local, entry.family));
        socket.peer.set(address_of(to, entry.family));
        socket.add(state::STANDS);
        Ok(())
    }

    fn disconnect(&mut self, cx: &Context, number: u32) -> io::Result<()> {
        let (entry, socket) = self.datagrams(number)?;
        let Kind::Datagrams(datagrams) = &mut entry.kind else {
            return fails(libc::EINVAL);
        };
        entry.peer = None;
        socket.clear(state::STANDS);
        match &mut datagrams.socket {
            Some(ours) if datagrams.keeps_port => ours.disconnect(cx)?,
            _ => {
                datagrams.socket = None;
                entry.local.set_port(0);
                socket.clear(state::HAS_PORT);
            }
        }
        socket.local.set(address_of(entry.local, entry.family));
        Ok(())
    }

    /// Something has come by loopback for one.
    pub fn hear_loopback(&mut self, number: u32) {
        if let Some(Kind::Datagrams(datagrams)) = self.table.get_mut(number).map(|e| &mut e.kind)
            && let Some(socket) = &mut datagrams.socket
        {
            socket.hear_kernels();
        }
    }

    /// Has one have a port, as one has from its first use on.
    pub fn bind_for_use(&mut self, cx: &Context, number: u32) -> io::Result<()> {
        self.bind_datagrams(cx, number, None)
    }
}

/// The options that a socket of the kernel's for datagrams was given, for the one in its place.
fn copy_options(from: &Descriptor, family: AddressFamily, to: &Socket) -> io::Result<()> {
    let fd = &from.fd;
    let is_on = |level, option| intercept::option(fd, level, option).map(|value| value != 0);
    to.set_option(options::BROADCAST, sockopt::socket_broadcast(fd)?);
    for (bit, option) in [
        (options::PKTINFO, libc::IP_PKTINFO),
        (options::RECEIVE_TTL, libc::IP_RECVTTL),
        (options::RECEIVE_TOS, libc::IP_RECVTOS),
    ] {
        to.set_option(bit, is_on(libc::IPPROTO_IP, option)?);
    }
    if family == AddressFamily::INET6 {
        to.set_option(options::V6_ONLY, sockopt::ipv6_v6only(fd)?);
        for (bit, option) in [
            (options::PKTINFO_V6, libc::IPV6_RECVPKTINFO),
            (options::RECEIVE_HOPS, libc::IPV6_RECVHOPLIMIT),
            (options::RECEIVE_CLASS, libc::IPV6_RECVTCLASS),
        ] {
            to.set_option(bit, is_on(libc::IPPROTO_IPV6, option)?);
        }
    }
    let segment = intercept::option(fd, libc::IPPROTO_UDP, libc::UDP_SEGMENT)?;
    to.segment.store(segment as u32, Ordering::Relaxed);
    to.set_option(options::CORK, is_on(libc::IPPROTO_UDP, libc::UDP_CORK)?);
    // Older kernels do not tell of this one.
    to.set_option(
        options::GRO,
        is_on(libc::IPPROTO_UDP, libc::UDP_GRO).unwrap_or(false),
    );
    let size = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
    let receive = size(sockopt::socket_recv_buffer_size(fd)?);
    to.receive_buffer.store(receive, Ordering::Relaxed);
    let send = size(sockopt::socket_send_buffer_size(fd)?);
    to.send_buffer.store(send, Ordering::Relaxed);
    Ok(())
}
