//! Shared sockets for datagrams: between their rings and the stack, where they are bound, and whom they are connected to.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{Ordering, fence};

use exos::inet::udp::{Received, Sharing as Shares};
use exos::net::{BindOptions, Net, UdpSocket};
use exos::{Buffer, Exos};
use exos_host::intercept::{self, Call};
use exos_preload::memory::{
    Address, DATAGRAM_HEAD, DATAGRAM_ROOM, DatagramHead, MARKED_DATAGRAMS, Shared, Socket, options,
    state,
};
use rustix::net::{AddressFamily, sockopt};

use super::Sharing;
use super::socket::{Entry, Kind, address_of};
use crate::calls::{fails, number as errno};
use crate::limits::DATAGRAMS_AT_ONCE;
use crate::supervise::Supervisor;
use crate::target::{Descriptor, decode};

/// A shared socket for datagrams, on our side.
pub(crate) struct Datagrams {
    /// None: it has no port.
    pub socket: Option<UdpSocket>,
    /// The program has chosen its port: it keeps that when it is connected no more.
    keeps_port: bool,
    /// Has come, and has no room in the ring.
    rest: Option<Received>,
    /// What it was. Other processes may have that still, and come with it: as long as we have it, its number is no other's.
    pub before: Descriptor,
}

/// What a turn of one that sends comes to.
pub(crate) struct Sent {
    /// The program is to hear of room.
    pub is_news: bool,
    /// It is to hear of an error.
    pub has_failed: bool,
    /// The link has no room for what is left, or others are to have their turn.
    pub has_more: bool,
}

impl Datagrams {
    /// Moves what has come into the ring; gives whether there is news.
    pub fn fill(&mut self, memory: &Shared, number: u32, family: AddressFamily) -> bool {
        let (ring, socket) = (memory.inward(number), memory.socket(number));
        let mut news = false;
        while let Some(from) = &self.socket {
            let next = self.rest.take().map_or_else(|| from.receive(), Ok);
            let received = match next {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    socket.error.store(errno(&error) as u32, Ordering::Release);
                    news = true;
                    continue;
                }
            };
            let head = DatagramHead {
                len: received.payload.len() as u32,
                peer: address_of(received.from, family),
                local: address_of(SocketAddr::new(received.to, 0), family),
            };
            if ring.push_datagram(&head, &received.payload) {
                news = true;
                continue;
            }
            let wanted = DATAGRAM_HEAD + received.payload.len();
            self.rest = Some(received);
            // The stack's queue holds what comes further, as far as that has room.
            socket.add(state::HAS_MORE);
            fence(Ordering::SeqCst);
            if ring.free() < wanted {
                break;
            }
        }
        news
    }

    /// Sends what the program has written.
    pub fn drain(&mut self, net: &Net, memory: &Shared, number: u32) -> Sent {
        let (ring, socket) = (memory.outward(number), memory.socket(number));
        let (mut has_more, mut has_failed) = (false, false);
        for sent in 0.. {
            let Some(head) = ring.next_datagram() else {
                break;
            };
            has_more = sent == DATAGRAMS_AT_ONCE || !has_room(net, head.len as usize);
            if has_more {
                break;
            }
            let Some((head, payload)) = ring.take_datagram() else {
                break;
            };
            if let Err(error) = self.send(net, &head, payload) {
                socket.error.store(errno(&error) as u32, Ordering::Release);
                has_failed = true;
            }
        }
        let is_news = ring.free() >= DATAGRAM_ROOM && socket.clear(state::WANTS_ROOM);
        Sent {
            is_news,
            has_failed,
            has_more,
        }
    }

    /// Sends one, of whose head nothing is sure.
    fn send(&self, net: &Net, head: &DatagramHead, payload: Vec<u8>) -> io::Result<()> {
        let (Some(socket), Some(to)) = (&self.socket, address(&head.peer)) else {
            return fails(libc::EINVAL);
        };
        let ours = |exos: &mut Exos, ip| exos.stack.addresses().iter().any(|a| a.addr == ip);
        let from = address(&head.local).map(|from| from.ip());
        // From an address of the stack's alone, and by a route.
        let from = from.filter(|from| net.with(|exos| ours(exos, *from)));
        let bound = socket.local_addr()?.ip();
        let is_elsewhere = !bound.is_unspecified() && bound.is_ipv4() != to.is_ipv4();
        if is_elsewhere || source_for(net, to.ip()).is_none() {
            return fails(libc::ENETUNREACH);
        }
        // What was said of an earlier one does not keep this one back.
        let error = socket.take_error()?;
        socket.send_slice(Buffer::from(payload).into(), to, from)?;
        error.map_or(Ok(()), Err)
    }

    /// What has come and was not read, of one that is to be shared no more, with who sent it.
    pub fn unread(&mut self, memory: &Shared, number: u32) -> Vec<(Option<SocketAddr>, Vec<u8>)> {
        let ring = memory.inward(number);
        let waiting = std::iter::from_fn(|| ring.take_datagram());
        let mut unread: Vec<_> = waiting
            .map(|(head, payload)| (address(&head.peer), payload))
            .collect();
        let rest = self.rest.take();
        unread.extend(rest.map(|rest| (Some(rest.from), rest.payload)));
        unread
    }
}

fn address(address: &Address) -> Option<SocketAddr> {
    decode(address.bytes.get(..address.len as usize)?)
}

/// Whether the link takes a datagram of this length, in fragments.
pub(crate) fn has_room(net: &Net, len: usize) -> bool {
    /// More than the longest has on a link of 576 bytes. With a smaller MTU some are dropped and counted.
    const MOST: usize = 128;
    let has = |exos: &mut Exos| {
        let each = exos.stack.config().mtu.saturating_sub(68).max(8);
        exos.stack.datagram_room() >= (len / each + 1).min(MOST)
    };
    // An interface that has gone ends the loop.
    net.with(has) || (net.flush().is_ok() && net.with(has))
}

/// From which address packets to another host go, where there is a route.
fn source_for(net: &Net, to: IpAddr) -> Option<IpAddr> {
    let is_this_host = to.is_loopback() || to.is_unspecified();
    let source = |exos: &mut Exos| {
        let (_, routes) = exos.stack.routes();
        routes.next_hop(to).and_then(|_| routes.source_for(to))
    };
    net.with(source).filter(|_| !is_this_host)
}

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

impl Sharing {
    fn datagrams(&mut self, number: u32) -> Option<(&mut Entry, &Socket)> {
        let entry = self.entries.get_mut(number as usize)?.as_mut()?;
        let is_it = matches!(entry.kind, Kind::Datagrams(_));
        is_it.then(|| (entry, self.memory.socket(number)))
    }

    /// The number of what was this socket of the kernel's.
    fn was(&self, inode: u64) -> Option<u32> {
        let is_it = |entry: &Option<Entry>| match entry.as_ref().map(|entry| &entry.kind) {
            Some(Kind::Datagrams(datagrams)) => datagrams.before.inode == inode,
            _ => false,
        };
        Some(self.entries.iter().position(is_it)? as u32)
    }

    fn user(&self, number: usize) -> Option<u32> {
        match &self.entries.get(number)?.as_ref()?.kind {
            Kind::Datagrams(datagrams) => Some(datagrams.before.user),
            _ => None,
        }
    }

    /// Whether other sockets keep this one from being bound there.
    fn is_taken(&self, number: u32, at: SocketAddr) -> bool {
        let has = |number: usize, option| self.memory.socket(number as u32).has(option);
        let only_v6 = |number| has(number, options::V6_ONLY);
        // Of the one user's.
        let spread = |number| has(number, options::REUSE_PORT).then(|| self.user(number));
        let reuse = |number| has(number, options::REUSE) && !has(number, options::REUSE_PORT);
        let this = number as usize;
        let share = |other| {
            (reuse(this) && reuse(other))
                || (spread(this).is_some() && spread(this) == spread(other))
        };
        let others = self.entries.iter().enumerate();
        others
            .filter(|(other, _)| *other != this)
            .any(|(other, entry)| {
                let is_there = |entry: &Entry| {
                    matches!(&entry.kind, Kind::Datagrams(d) if d.socket.is_some())
                        && entry.local.port() == at.port()
                        && overlap((at.ip(), only_v6(this)), (entry.local.ip(), only_v6(other)))
                };
                entry.as_ref().is_some_and(is_there) && !share(other)
            })
    }
}

impl Supervisor {
    /// The shared socket for datagrams that a call is of, which the library makes.
    pub fn shared_datagrams(&self, call: &Call) -> Option<u32> {
        let sharing = self
            .sharing
            .as_ref()
            .filter(|_| call.args[3] == MARKED_DATAGRAMS)?;
        let pid = intercept::process_of(call.thread).ok()?;
        let (part, _) = sharing.parts.get(&pid)?;
        let number = sharing.memory.assigned(*part, call.args[0] as i32)?;
        let entry = sharing.entries.get(number as usize)?.as_ref()?;
        matches!(entry.kind, Kind::Datagrams(_)).then_some(number)
    }

    /// Has a socket of the kernel's for datagrams be a shared one; gives its number.
    pub fn share_datagrams(
        &mut self,
        by: (&Call, u32),
        descriptor: Descriptor,
        family: AddressFamily,
    ) -> io::Result<u32> {
        let known = self
            .sharing
            .as_ref()
            .and_then(|sharing| sharing.was(descriptor.inode));
        if let Some(number) = known {
            self.put_number(by, number)?;
            return Ok(number);
        }
        let mut bits = state::DATAGRAMS | state::NO_IPV4 | state::NO_IPV6;
        for address in self.net.with(|exos| exos.stack.addresses().to_vec()) {
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
            kind: Kind::Datagrams(Datagrams {
                socket: None,
                keeps_port: false,
                rest: None,
                before: descriptor.try_clone()?,
            }),
        };
        let number = self.share_socket(by, &descriptor, entry, bits)?;
        if let Some(sharing) = &self.sharing {
            copy_options(&descriptor, family, sharing.memory.socket(number))?;
        }
        Ok(number)
    }

    /// Binds one (bind(2)), or gives it a port.
    pub fn bind_datagrams(&mut self, number: u32, at: Option<SocketAddr>) -> io::Result<()> {
        let net = self.net.clone();
        let is_ours = at.is_none_or(|at| self.is_ours(at.ip()));
        let sharing = self.sharing.as_mut().expect("a socket of it");
        let is_taken = at.is_some_and(|at| at.port() != 0 && sharing.is_taken(number, at));
        let Some((entry, socket)) = sharing.datagrams(number) else {
            return fails(libc::EINVAL);
        };
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
        let sharing = match (socket.has(options::REUSE_PORT), socket.has(options::REUSE)) {
            (true, _) => Some(Shares::Spread),
            (false, true) => Some(Shares::Last),
            (false, false) => None,
        };
        let wishes = BindOptions {
            v6_only: only_v6,
            sharing,
        };
        let bound = UdpSocket::bind_with(&net, wanted, &wishes)?;
        bound.set_nonblocking(true)?;
        entry.local = bound.local_addr()?;
        datagrams.socket = Some(bound);
        datagrams.keeps_port = at.is_some_and(|at| at.port() != 0);
        socket.local.set(address_of(entry.local, entry.family));
        socket.add(state::HAS_PORT);
        self.wait_for_shared(number)
    }

    /// Connects one to a peer, or to nobody (connect(2)).
    pub fn connect_datagrams(&mut self, number: u32, to: Option<SocketAddr>) -> io::Result<()> {
        // What was written before goes as it was meant.
        self.turn_of_shared(number);
        let source = to.and_then(|to| self.source_for(to.ip()));
        if to.is_some() && source.is_none() {
            return fails(libc::ENETUNREACH);
        }
        if to.is_some() {
            self.bind_for_use(number)?;
        }
        let sharing = self.sharing.as_mut().expect("a socket of it");
        let Some((entry, socket)) = sharing.datagrams(number) else {
            return fails(libc::EINVAL);
        };
        let Kind::Datagrams(datagrams) = &mut entry.kind else {
            return fails(libc::EINVAL);
        };
        let (Some(to), Some(source), Some(ours)) = (to, source, &datagrams.socket) else {
            entry.peer = None;
            socket.clear(state::STANDS);
            match &datagrams.socket {
                Some(ours) if datagrams.keeps_port => ours.disconnect()?,
                _ => {
                    datagrams.socket = None;
                    entry.local.set_port(0);
                    socket.clear(state::HAS_PORT);
                }
            }
            socket.local.set(address_of(entry.local, entry.family));
            return Ok(());
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
        ours.connect(to)?;
        entry.peer = Some(to);
        let mut local = entry.local;
        if local.ip().is_unspecified() {
            local.set_ip(source);
        }
        socket.local.set(address_of(local, entry.family));
        socket.peer.set(address_of(to, entry.family));
        socket.add(state::STANDS);
        Ok(())
    }

    /// Has one have a port, as one has from its first use on.
    pub fn bind_for_use(&mut self, number: u32) -> io::Result<()> {
        self.bind_datagrams(number, None)
    }

    /// From which address packets to another host go, where there is a route.
    pub fn source_for(&self, to: IpAddr) -> Option<IpAddr> {
        source_for(&self.net, to)
    }
}

/// The options that a socket of the kernel's was given, for the one in its place.
fn copy_options(from: &Descriptor, family: AddressFamily, to: &Socket) -> io::Result<()> {
    const RECVPKTINFO: i32 = libc::IPV6_RECVPKTINFO;
    let fd = &from.fd;
    let is_on = |level, option| intercept::option(fd, level, option).map(|value| value != 0);
    to.set_option(options::BROADCAST, sockopt::socket_broadcast(fd)?);
    to.set_option(options::REUSE, sockopt::socket_reuseaddr(fd)?);
    to.set_option(options::REUSE_PORT, sockopt::socket_reuseport(fd)?);
    to.set_option(options::PKTINFO, is_on(libc::IPPROTO_IP, libc::IP_PKTINFO)?);
    if family == AddressFamily::INET6 {
        to.set_option(options::V6_ONLY, sockopt::ipv6_v6only(fd)?);
        to.set_option(options::PKTINFO_V6, is_on(libc::IPPROTO_IPV6, RECVPKTINFO)?);
    }
    let size = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
    let receive = size(sockopt::socket_recv_buffer_size(fd)?);
    to.receive_buffer.store(receive, Ordering::Relaxed);
    let send = size(sockopt::socket_send_buffer_size(fd)?);
    to.send_buffer.store(send, Ordering::Relaxed);
    Ok(())
}
