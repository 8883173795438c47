//! All sockets of a stack (see the folder).

use crate::icmp::{ErrorKind, IcmpError};
use crate::limits::{EPHEMERAL_FIRST, UDP_SOCKETS_MAX};
use crate::route::Delivery;
use crate::siphash::Random;
use crate::tcp::Share;
use crate::udp::error::UdpError;
use crate::udp::fields::HeaderFields;
use crate::udp::socket::{Received, Sharing, Socket};
use exos_buf::Slice;
use exos_wire::checksum::Sum;
use exos_wire::protocol;
use exos_wire::udp::UdpView;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// A bound socket. Names of closed sockets do not come back to life when their slot is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpHandle {
    slot: u32,
    life: u32,
}

/// A datagram to be sent.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Our address, when the socket is bound to one or the answer shall come from one; else the
    /// stack chooses by route.
    pub src: Option<IpAddr>,
    /// Our port.
    pub src_port: u16,
    /// Where it goes.
    pub dst: SocketAddr,
    /// What its IP header says besides.
    pub fields: HeaderFields,
    /// The payload; its checksum is cached by its buffer.
    pub payload: Slice,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// It waits in this socket (the first, when a group datagram went to several).
    Queued(UdpHandle),
    /// Dropped and counted: the socket's queue is full.
    Full,
    /// Nobody listens: ICMP port unreachable is due if it was unicast (RFC 1122 §4.1.3.1).
    NoSocket,
}

/// Why an arrived segment is no datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpDrop {
    /// Shorter than its header or than its length field says.
    Malformed,
    /// The checksum is wrong.
    BadChecksum,
    /// The checksum is absent, which IPv6 does not allow (RFC 8200 §8.1).
    MissingChecksum,
}

/// Datagrams dropped, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Taken by a socket.
    pub delivered: u64,
    /// Nobody bound to the port.
    pub no_socket: u64,
    /// The socket's queue was full.
    pub queue_full: u64,
    /// Described by [`UdpTable::send`].
    pub sent: u64,
    /// ICMP errors about a socket's datagrams.
    pub errors: u64,
}

/// Read an arrived UDP segment. `verified`: the link has checked the checksum or says that the
/// bytes never crossed a wire.
pub fn parse(
    src: IpAddr,
    dst: IpAddr,
    segment: &[u8],
    verified: bool,
) -> Result<UdpView<'_>, UdpDrop> {
    let view = UdpView::parse(segment).map_err(|_| UdpDrop::Malformed)?;
    match (view.checksum(), src) {
        // RFC 768: all zero means that the sender made none.
        (0, IpAddr::V4(_)) => return Ok(view),
        (0, IpAddr::V6(_)) => return Err(UdpDrop::MissingChecksum),
        _ => {}
    }
    let pseudo = Sum::pseudo(src, dst, protocol::UDP, view.length() as u32);
    if verified || view.checksum_ok(pseudo) {
        Ok(view)
    } else {
        Err(UdpDrop::BadChecksum)
    }
}

#[derive(Debug, Default)]
struct Slot {
    life: u32,
    socket: Option<Socket>,
}

/// A socket, as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// `None` hears of every address of the stack.
    pub local: Option<IpAddr>,
    /// Its port.
    pub port: u16,
    /// The only one that it hears, if it is connected.
    pub remote: Option<SocketAddr>,
    /// Bytes that wait in it, with what each datagram takes beside its own.
    pub queued: usize,
}

/// The UDP sockets of one stack.
pub struct UdpTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
    ports: BTreeMap<u16, Vec<u32>>,
    /// Sockets with news for the program, each at most once.
    readable: VecDeque<UdpHandle>,
    /// Sockets that fit the datagram at hand, and how well; kept for the room.
    fits: Vec<(u8, u32)>,
    random: Random,
    /// Of the hash by which datagrams are spread.
    key: u64,
    counters: UdpCounters,
}

impl UdpTable {
    /// No sockets. The seed decides which dynamic ports are given out (RFC 6056).
    pub fn new(seed: u64) -> UdpTable {
        let mut random = Random::new(seed);
        UdpTable {
            key: random.next_u64(),
            slots: Vec::new(),
            free: Vec::new(),
            ports: BTreeMap::new(),
            readable: VecDeque::new(),
            fits: Vec::new(),
            random,
            counters: UdpCounters::default(),
        }
    }

    /// What was dropped and why, over all sockets.
    pub fn counters(&self) -> UdpCounters {
        self.counters
    }

    /// Bind a socket to `local`, which is an address, every address of a family (`0.0.0.0`, `::`), or
    /// every address (`None`); port 0 asks for a dynamic one.
    pub fn bind(&mut self, local: Option<IpAddr>, port: u16) -> Result<UdpHandle, UdpError> {
        self.bind_shared(local, port, None)
    }

    /// Bind a socket as [`bind`](Self::bind) does, beside others that are bound to the same and share it
    /// in the same way.
    pub fn bind_shared(
        &mut self,
        local: Option<IpAddr>,
        port: u16,
        sharing: Option<Sharing>,
    ) -> Result<UdpHandle, UdpError> {
        let port = if port == 0 { self.free_port()? } else { port };
        if self.is_taken(local, port, sharing) {
            return Err(UdpError::PortTaken(port));
        }
        let slot = self.free_slot()?;
        let entry = &mut self.slots[slot as usize];
        entry.socket = Some(Socket::new(local, port, sharing));
        self.ports.entry(port).or_default().push(slot);
        Ok(UdpHandle {
            slot,
            life: entry.life,
        })
    }

    /// Hear `remote` alone from now on; `None` takes that back. What waits from others is dropped.
    pub fn connect(
        &mut self,
        handle: UdpHandle,
        remote: Option<SocketAddr>,
    ) -> Result<(), UdpError> {
        self.socket_mut(handle)?.connect(remote);
        Ok(())
    }

    /// Close a socket; what waits in it is gone.
    pub fn close(&mut self, handle: UdpHandle) -> Result<(), UdpError> {
        let port = self.socket(handle)?.port;
        self.readable.retain(|other| *other != handle);
        let entry = &mut self.slots[handle.slot as usize];
        entry.socket = None;
        entry.life = entry.life.wrapping_add(1);
        self.free.push(handle.slot);
        let bound = self.ports.get_mut(&port).expect("bound ports are listed");
        bound.retain(|&slot| slot != handle.slot);
        if bound.is_empty() {
            self.ports.remove(&port);
        }
        Ok(())
    }

    /// The address ([`bind`](Self::bind)) and port that a socket is bound to.
    pub fn local(&self, handle: UdpHandle) -> Result<(Option<IpAddr>, u16), UdpError> {
        self.socket(handle).map(|s| (s.local, s.port))
    }

    /// All sockets.
    pub fn sockets(&self) -> impl Iterator<Item = Bound> {
        let sockets = self.slots.iter().filter_map(|slot| slot.socket.as_ref());
        sockets.map(|socket| Bound {
            local: socket.local,
            port: socket.port,
            remote: socket.remote,
            queued: socket.queued(),
        })
    }

    /// What the IP headers of what a socket sends say besides addresses.
    pub fn fields(&self, handle: UdpHandle) -> Result<HeaderFields, UdpError> {
        self.socket(handle).map(|s| s.fields)
    }

    /// Other fields in what a socket sends from now on.
    pub fn set_fields(&mut self, handle: UdpHandle, fields: HeaderFields) -> Result<(), UdpError> {
        self.socket_mut(handle)?.fields = fields;
        Ok(())
    }

    /// So many bytes may wait in a socket from now on, payloads and what each datagram takes beside
    /// ([`UDP_DATAGRAM_OVERHEAD`](crate::limits::UDP_DATAGRAM_OVERHEAD)).
    pub fn set_queue_len(&mut self, handle: UdpHandle, len: usize) -> Result<(), UdpError> {
        self.socket_mut(handle)?.queue_max = len;
        Ok(())
    }

    /// Datagrams dropped because this socket's queue was full.
    pub fn dropped(&self, handle: UdpHandle) -> Result<u64, UdpError> {
        self.socket(handle).map(|s| s.dropped)
    }

    /// An arrived datagram, already checked by [`parse`].
    pub fn deliver(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        how: Delivery,
        (fields, payload): (HeaderFields, &[u8]),
    ) -> Delivered {
        let mut fits = std::mem::take(&mut self.fits);
        fits.clear();
        for &slot in self.ports.get(&to.port()).into_iter().flatten() {
            let socket = self.slots[slot as usize]
                .socket
                .as_ref()
                .expect("listed sockets are open");
            // Group datagrams reach a socket whatever address of ours it is bound to.
            let local = socket.local.filter(|ip| ip.is_ipv4() == to.is_ipv4());
            let to = match how {
                Delivery::Unicast => to.ip(),
                Delivery::Broadcast | Delivery::Multicast => local.unwrap_or(to.ip()),
            };
            fits.extend(socket.fit(from, to).map(|fit| (fit, slot)));
        }
        let taker;
        let takers = match how {
            Delivery::Unicast => {
                taker = self.taker(&mut fits, from, to);
                taker.as_slice()
            }
            Delivery::Broadcast | Delivery::Multicast => &fits[..],
        };
        let delivered = self.push_to(takers, from, to.ip(), (fields, payload));
        self.fits = fits;
        delivered
    }

    /// A socket into which datagrams, or an error, have come since it was last told; take them with [`Self::receive`] until there is none.
    pub fn poll_readable(&mut self) -> Option<UdpHandle> {
        let handle = self.readable.pop_front()?;
        if let Ok(socket) = self.socket_mut(handle) {
            socket.is_told = false;
        }
        Some(handle)
    }

    /// The oldest waiting datagram.
    pub fn receive(&mut self, handle: UdpHandle) -> Result<Option<Received>, UdpError> {
        Ok(self.socket_mut(handle)?.take())
    }

    /// The oldest waiting datagram, which goes on waiting.
    pub fn peek(&self, handle: UdpHandle) -> Result<Option<&Received>, UdpError> {
        Ok(self.socket(handle)?.oldest())
    }

    /// Describe a datagram for the stack to send. `from` answers from the address that a datagram
    /// was sent to ([`Received::to`]).
    pub fn send(
        &mut self,
        handle: UdpHandle,
        from: Option<IpAddr>,
        dst: SocketAddr,
        payload: Slice,
    ) -> Result<Outgoing, UdpError> {
        let src = self.can_send(handle, from, dst, payload.len())?;
        let socket = self.socket(handle)?;
        let (src_port, fields) = (socket.port, socket.fields);
        self.counters.sent += 1;
        Ok(Outgoing {
            src,
            src_port,
            dst,
            fields,
            payload,
        })
    }

    /// So many datagrams are sent from a socket, at this port, by the stack.
    pub(crate) fn note_sent(&mut self, handle: UdpHandle, count: u64) -> Result<u16, UdpError> {
        let port = self.socket(handle)?.port;
        self.counters.sent += count;
        Ok(port)
    }

    /// Whether a datagram of this length can be sent; from which address, where it is not the stack's to choose.
    ///
    /// # Errors
    ///
    /// Those of [`send`](Self::send).
    pub fn can_send(
        &self,
        handle: UdpHandle,
        from: Option<IpAddr>,
        dst: SocketAddr,
        len: usize,
    ) -> Result<Option<IpAddr>, UdpError> {
        let socket = self.socket(handle)?;
        let other_family = |ip: IpAddr| ip.is_ipv4() != dst.is_ipv4();
        let one = socket.local.filter(|local| !local.is_unspecified());
        let src = one.or(from.filter(|ip| !ip.is_multicast()));
        let is_other = src.or(socket.local).is_some_and(other_family);
        if dst.port() == 0 || dst.ip().is_unspecified() || is_other {
            return Err(UdpError::BadDestination(dst));
        }
        // The 16-bit lengths of UDP, and in IPv4 of the packet with its header too.
        let max = 65_535 - 8 - if dst.is_ipv4() { 20 } else { 0 };
        match len > max {
            true => Err(UdpError::TooLong { len, max }),
            false => Ok(src),
        }
    }

    /// An ICMP error about a datagram of ours. RFC 1122 §4.1.3.3: the program is told; the latest
    /// one counts.
    pub fn handle_error(&mut self, error: &IcmpError) -> Option<UdpHandle> {
        let remote = SocketAddr::new(error.remote, error.remote_port);
        let fits = |slot: &&u32| {
            let socket = self.slots[**slot as usize]
                .socket
                .as_ref()
                .expect("listed sockets are open");
            socket.fit(remote, error.local).is_some()
        };
        let slot = *self.ports.get(&error.local_port)?.iter().find(fits)?;
        self.counters.errors += 1;
        let entry = &mut self.slots[slot as usize];
        let handle = UdpHandle {
            slot,
            life: entry.life,
        };
        let socket = entry.socket.as_mut().expect("listed sockets are open");
        socket.error = Some((remote, error.kind));
        if !std::mem::replace(&mut socket.is_told, true) {
            self.readable.push_back(handle);
        }
        Some(handle)
    }

    /// The latest ICMP error about this socket's datagrams, and whom they went to. Taking it clears
    /// it.
    pub fn take_error(
        &mut self,
        handle: UdpHandle,
    ) -> Result<Option<(SocketAddr, ErrorKind)>, UdpError> {
        Ok(self.socket_mut(handle)?.error.take())
    }

    /// True when [`take_error`](Self::take_error) has something.
    pub fn has_error(&self, handle: UdpHandle) -> bool {
        self.socket(handle).is_ok_and(|s| s.error.is_some())
    }

    /// Of the sockets that fit best, in the order in which they were bound, the one that gets a datagram.
    fn taker(
        &self,
        fits: &mut Vec<(u8, u32)>,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Option<(u8, u32)> {
        let best = fits.iter().map(|(fit, _)| *fit).max();
        fits.retain(|(fit, _)| Some(*fit) == best);
        let (first, of) = (fits.first()?, fits.len() as u32);
        let socket = self.slots[first.1 as usize].socket.as_ref();
        let is_spread = socket.is_some_and(|socket| socket.sharing == Some(Sharing::Spread));
        let index = match is_spread && of > 1 {
            true => Share {
                index: 0,
                of,
                key: self.key,
            }
            .index_of(to, from),
            false => of - 1,
        };
        fits.get(index as usize).copied()
    }

    fn push_to(
        &mut self,
        fits: &[(u8, u32)],
        from: SocketAddr,
        to: IpAddr,
        datagram: (HeaderFields, &[u8]),
    ) -> Delivered {
        let mut first = None;
        for &(_, slot) in fits {
            let entry = &mut self.slots[slot as usize];
            let socket = entry.socket.as_mut().expect("listed sockets are open");
            if !socket.push(from, to, datagram) {
                self.counters.queue_full += 1;
                continue;
            }
            self.counters.delivered += 1;
            let life = entry.life;
            let handle = UdpHandle { slot, life };
            first = first.or(Some(handle));
            if !std::mem::replace(&mut socket.is_told, true) {
                self.readable.push_back(handle);
            }
        }
        match first {
            Some(handle) => Delivered::Queued(handle),
            None if fits.is_empty() => {
                self.counters.no_socket += 1;
                Delivered::NoSocket
            }
            None => Delivered::Full,
        }
    }

    fn socket(&self, handle: UdpHandle) -> Result<&Socket, UdpError> {
        let slot = self
            .slots
            .get(handle.slot as usize)
            .filter(|s| s.life == handle.life);
        slot.and_then(|s| s.socket.as_ref()).ok_or(UdpError::Closed)
    }

    fn socket_mut(&mut self, handle: UdpHandle) -> Result<&mut Socket, UdpError> {
        let slot = self
            .slots
            .get_mut(handle.slot as usize)
            .filter(|s| s.life == handle.life);
        slot.and_then(|s| s.socket.as_mut()).ok_or(UdpError::Closed)
    }

    fn is_taken(&self, local: Option<IpAddr>, port: u16, sharing: Option<Sharing>) -> bool {
        let bound = self.ports.get(&port).into_iter().flatten();
        let overlaps = |other: Option<IpAddr>| match (local, other) {
            (None, Some(all)) | (Some(all), None) => all.is_unspecified(),
            (local, other) => local == other,
        };
        bound
            .map(|&slot| &self.slots[slot as usize])
            .filter_map(|s| s.socket.as_ref())
            .filter(|s| sharing.is_none() || s.sharing != sharing)
            .any(|s| overlaps(s.local))
    }

    fn free_slot(&mut self) -> Result<u32, UdpError> {
        if let Some(slot) = self.free.pop() {
            return Ok(slot);
        }
        if self.slots.len() == UDP_SOCKETS_MAX {
            return Err(UdpError::TooManySockets(UDP_SOCKETS_MAX));
        }
        self.slots.push(Slot::default());
        Ok(self.slots.len() as u32 - 1)
    }

    /// RFC 6056 §3.3.1: begin anywhere, take the next that nobody has, at any address.
    fn free_port(&mut self) -> Result<u16, UdpError> {
        let span = u32::from(u16::MAX - EPHEMERAL_FIRST) + 1;
        let start = self.random.next_u64() as u32 % span;
        (0..span)
            .map(|i| EPHEMERAL_FIRST + ((start + i) % span) as u16)
            .find(|port| !self.ports.contains_key(port))
            .ok_or(UdpError::NoPortLeft)
    }
}

#[cfg(test)]
mod tests;
