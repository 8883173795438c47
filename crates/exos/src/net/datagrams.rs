//! [`UdpSocket`].

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use exos_buf::{Buffer, Slice};
use exos_inet::udp::{HeaderFields, Received, Sharing, UdpHandle};

use super::inner::Inner;
use super::stack::Net;
use super::stream::{hop_limit, some_time};
use super::table::{Datagrams, Waiters};
use super::{claims, errors};
use crate::clock;
use crate::via::Protocol;

/// How a socket for datagrams is bound.
#[derive(Copy, Clone, Debug, Default)]
pub struct BindOptions {
    /// Of all IPv6 addresses: not those of IPv4, too (`IPV6_V6ONLY`).
    pub v6_only: bool,
    /// Others may be bound to the same, if they share it in the same way.
    pub sharing: Option<Sharing>,
}

/// A socket for datagrams, shaped as `std::net::UdpSocket`.
pub struct UdpSocket(Rc<Socket>);

struct Socket {
    net: Net,
    key: usize,
    handle: UdpHandle,
    local: SocketAddr,
    peer: Cell<Option<SocketAddr>>,
    nonblocking: Cell<bool>,
    read_timeout: Cell<Option<Duration>>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.net.run(|inner| {
            let socket = inner.datagrams.remove(self.key);
            // Not dropped here: its last owner may own sockets.
            inner.woken.extend(socket.waiters.reader);
            if let Some(watch) = socket.waiters.watch {
                inner.watches.remove(watch);
            }
            inner.by_handle.remove(&self.handle);
            // It is open as long as we are.
            let _ = inner.exos.stack.udp.close(self.handle);
            claims::give_back(&mut inner.exos, &socket.grants);
        });
    }
}

impl UdpSocket {
    /// Binds to the first of the addresses that can be had. `0.0.0.0` is all IPv4 addresses of the stack, `[::]` all addresses
    /// of both families; port 0 asks for one that is free.
    ///
    /// # Errors
    ///
    /// `AddrInUse`, `AddrNotAvailable` for an address that is not the stack's, `PermissionDenied` where a daemon's policy does not
    /// allow it.
    pub fn bind(net: &Net, at: impl ToSocketAddrs) -> io::Result<Self> {
        let options = BindOptions::default();
        errors::first_of(at, "bind to", |at| Self::bind_with(net, at, &options))
    }

    /// Binds with these options.
    ///
    /// # Errors
    ///
    /// Those of [`bind`](Self::bind).
    pub fn bind_with(net: &Net, at: SocketAddr, options: &BindOptions) -> io::Result<Self> {
        let (key, handle, local) = net.borrow().bind(at, options)?;
        Ok(Self(Rc::new(Socket {
            net: net.clone(),
            key,
            handle,
            local,
            peer: Cell::new(None),
            nonblocking: Cell::new(false),
            read_timeout: Cell::new(None),
        })))
    }

    pub(super) fn key(&self) -> usize {
        self.0.key
    }

    /// The stack that it is on.
    pub fn net(&self) -> &Net {
        &self.0.net
    }

    /// Hears `to` alone, and sends to it, from now on.
    ///
    /// # Errors
    ///
    /// There is no such address.
    pub fn connect(&self, to: impl ToSocketAddrs) -> io::Result<()> {
        self.set_peer(Some(one(to)?))
    }

    /// Hears everybody again, after [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// None; there to go with `connect`.
    pub fn disconnect(&self) -> io::Result<()> {
        self.set_peer(None)
    }

    fn set_peer(&self, peer: Option<SocketAddr>) -> io::Result<()> {
        let inner = &mut *self.0.net.borrow();
        let connected = inner.exos.stack.udp.connect(self.0.handle, peer);
        connected.map_err(errors::of_udp)?;
        inner.datagrams[self.0.key].connected = peer.is_some();
        self.0.peer.set(peer);
        Ok(())
    }

    /// Sends a datagram, copied. Gives how many bytes, which is all.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for one that is too long, or an address that cannot be sent to; what ICMP has said of an earlier one.
    pub fn send_to(&self, bytes: &[u8], to: impl ToSocketAddrs) -> io::Result<usize> {
        self.send_slice(Buffer::from(bytes).into(), one(to)?, None)?;
        Ok(bytes.len())
    }

    /// Sends a datagram to the peer that the socket is connected to.
    ///
    /// # Errors
    ///
    /// `NotConnected`, and those of [`send_to`](Self::send_to).
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let to = self.peer_addr()?;
        self.send_to(bytes, to)
    }

    /// Sends a part of an immutable buffer as a datagram; `from` says from which of our addresses ([`Received::to`]).
    ///
    /// # Errors
    ///
    /// Those of [`send_to`](Self::send_to).
    pub fn send_slice(&self, slice: Slice, to: SocketAddr, from: Option<IpAddr>) -> io::Result<()> {
        self.send_with(slice, to, from, self.fields())
    }

    /// Sends a part of an immutable buffer with these fields in its IP header, in place of the socket's.
    ///
    /// # Errors
    ///
    /// Those of [`send_to`](Self::send_to).
    pub fn send_with(
        &self,
        slice: Slice,
        to: SocketAddr,
        from: Option<IpAddr>,
        fields: HeaderFields,
    ) -> io::Result<()> {
        self.0.net.run(|inner| {
            let stack = &mut inner.exos.stack;
            if stack.udp.has_error(self.0.handle) {
                // What cannot be sent is told first, as by the kernel's sockets.
                let can = stack.udp.can_send(self.0.handle, from, to, slice.len());
                can.map_err(errors::of_udp)?;
                inner.datagram_error(self.0.key).map_or(Ok(()), Err)?;
            }
            let stack = &mut inner.exos.stack;
            let sent = stack.udp_send_with(clock::now(), self.0.handle, from, to, (slice, fields));
            inner.has_work();
            sent.map_err(errors::of_udp)
        })?;
        match self.0.nonblocking.get() {
            true => Ok(()),
            false => self.0.net.flush(),
        }
    }

    /// The next datagram, whole, with the address of ours that it was sent to.
    ///
    /// # Errors
    ///
    /// `WouldBlock` on a non-blocking socket where there is none, and after the read timeout; what ICMP has said of one that was
    /// sent (`ConnectionRefused`).
    pub fn receive(&self) -> io::Result<Received> {
        self.next(|inner| {
            let next = inner.exos.stack.udp.receive(self.0.handle);
            next.map_err(errors::of_udp)
        })
    }

    /// The next datagram; what does not fit is cut off. Gives how many bytes, and who sent it.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    pub fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let next = self.receive()?;
        Ok((cut(&next, into), next.from))
    }

    /// As [`recv_from`](Self::recv_from), without who sent it.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    pub fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.recv_from(into).map(|(count, _)| count)
    }

    /// As [`recv_from`](Self::recv_from), and leaves the datagram.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    pub fn peek_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.next(|inner| {
            let next = inner.exos.stack.udp.peek(self.0.handle);
            let cut = |next: &Received| (cut(next, into), next.from);
            next.map(|next| next.map(cut)).map_err(errors::of_udp)
        })
    }

    /// As [`peek_from`](Self::peek_from), without who sent it.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.peek_from(into).map(|(count, _)| count)
    }

    /// Waits until a datagram is there, and looks at it.
    fn next<T>(&self, look: impl FnOnce(&mut Inner) -> io::Result<Option<T>>) -> io::Result<T> {
        let (key, net) = (self.0.key, &self.0.net);
        let is_there = |inner: &mut Inner| inner.next_datagram(key);
        let there = is_there(&mut net.borrow());
        match there {
            Some(there) => there?,
            None if self.0.nonblocking.get() => return Err(errors::would_block()),
            None => {
                let until = self.0.read_timeout.get().map(|time| clock::now() + time);
                net.wait_until(until, is_there)?;
            }
        }
        look(&mut net.borrow())?.ok_or_else(errors::would_block)
    }

    /// For a task: the next datagram, or it is woken when there is one. One task receives at a time.
    ///
    /// # Errors
    ///
    /// What ICMP has said of one that was sent.
    pub fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<io::Result<Received>> {
        let mut inner = self.0.net.borrow();
        match inner.next_datagram(self.0.key) {
            Some(Ok(())) => {
                let next = inner.exos.stack.udp.receive(self.0.handle);
                Poll::Ready(next.map_err(errors::of_udp)?.map(Ok).expect("it is there"))
            }
            Some(Err(error)) => Poll::Ready(Err(error)),
            None => {
                let waiters = &mut inner.datagrams[self.0.key].waiters;
                let old = waiters.reader.replace(cx.waker().clone());
                drop(inner);
                drop(old);
                Poll::Pending
            }
        }
    }

    /// Where it is bound.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.local)
    }

    /// Whom it is connected to.
    ///
    /// # Errors
    ///
    /// `NotConnected`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0
            .peer
            .get()
            .ok_or_else(|| ErrorKind::NotConnected.into())
    }

    /// Another handle of the same socket.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(Rc::clone(&self.0)))
    }

    /// Calls that would wait give `WouldBlock` instead, and what is sent leaves with the next turn.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.nonblocking.set(nonblocking);
        Ok(())
    }

    /// How long a call that receives waits, after which it gives `WouldBlock`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no time at all.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.read_timeout.set(some_time(timeout)?);
        Ok(())
    }

    /// How long a call that receives waits.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.read_timeout.get())
    }

    /// How many hops what is sent may take (`IP_TTL`, `IPV6_UNICAST_HOPS`): 64 from the beginning. What a datagram that came had left
    /// is in [`Received::fields`].
    ///
    /// # Errors
    ///
    /// `InvalidInput` for what is not 1 to 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let hop_limit = hop_limit(ttl)?;
        self.set_fields(HeaderFields {
            hop_limit,
            ..self.fields()
        })
    }

    /// How many hops what is sent may take.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn ttl(&self) -> io::Result<u32> {
        Ok(self.fields().hop_limit.into())
    }

    /// The type-of-service byte, or traffic class, of what is sent, with its two bits of ECN (`IP_TOS`, `IPV6_TCLASS`).
    ///
    /// # Errors
    ///
    /// None; there to go with the others.
    pub fn set_tos(&self, tos: u8) -> io::Result<()> {
        self.set_fields(HeaderFields {
            traffic_class: tos,
            ..self.fields()
        })
    }

    /// The type-of-service byte, or traffic class, of what is sent.
    ///
    /// # Errors
    ///
    /// None; there to go with the others.
    pub fn tos(&self) -> io::Result<u8> {
        Ok(self.fields().traffic_class)
    }

    fn fields(&self) -> HeaderFields {
        let udp = &self.0.net.borrow().exos.stack.udp;
        udp.fields(self.0.handle).unwrap_or_default()
    }

    fn set_fields(&self, fields: HeaderFields) -> io::Result<()> {
        let udp = &mut self.0.net.borrow().exos.stack.udp;
        udp.set_fields(self.0.handle, fields)
            .map_err(errors::of_udp)
    }

    /// What ICMP has said of a datagram that was sent, once.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(self.0.net.borrow().datagram_error(self.0.key))
    }

    /// Datagrams for which there was no room.
    pub fn dropped(&self) -> u64 {
        let inner = self.0.net.borrow();
        inner.exos.stack.udp.dropped(self.0.handle).unwrap_or(0)
    }
}

impl std::fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (local, peer) = (self.0.local, self.0.peer.get());
        f.debug_struct("UdpSocket")
            .field("local", &local)
            .field("peer", &peer)
            .finish()
    }
}

/// As much of the datagram as fits.
fn cut(datagram: &Received, into: &mut [u8]) -> usize {
    let count = datagram.payload.len().min(into.len());
    into[..count].copy_from_slice(&datagram.payload[..count]);
    count
}

fn one(to: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    errors::first_of(to, "send to", Ok)
}

impl Inner {
    /// Makes a socket; gives its number, the stack's, and where it is bound.
    fn bind(
        &mut self,
        at: SocketAddr,
        options: &BindOptions,
    ) -> io::Result<(usize, UdpHandle, SocketAddr)> {
        let is_both = at.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && !options.v6_only;
        self.addresses_at(at.ip())?;
        let (lent, grants) = claims::port(&mut self.exos, Protocol::Udp, at.ip(), at.port())?;
        let udp = &mut self.exos.stack.udp;
        let bound = udp.bind_shared((!is_both).then_some(at.ip()), lent, options.sharing);
        let bound = bound.and_then(|handle| udp.local(handle).map(|(_, port)| (handle, port)));
        let (handle, port) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                claims::give_back(&mut self.exos, &grants);
                return Err(errors::of_udp(error));
            }
        };
        let local = SocketAddr::new(at.ip(), port);
        let key = self.datagrams.insert(Datagrams {
            handle,
            connected: false,
            grants,
            waiters: Waiters::default(),
        });
        self.by_handle.insert(handle, key);
        Ok((key, handle, local))
    }

    /// Whether a datagram is there, or an error, which is told first, as by the kernel's sockets; `None` where neither is.
    pub(super) fn next_datagram(&mut self, key: usize) -> Option<io::Result<()>> {
        if let Some(error) = self.datagram_error(key) {
            return Some(Err(error));
        }
        let next = self.exos.stack.udp.peek(self.datagrams[key].handle);
        matches!(next, Ok(Some(_))).then_some(Ok(()))
    }

    /// What ICMP has said last, to a socket that is connected.
    fn datagram_error(&mut self, key: usize) -> Option<io::Error> {
        let socket = &self.datagrams[key];
        let (to, kind) = self.exos.stack.udp.take_error(socket.handle).ok()??;
        let kind = socket.connected.then(|| errors::of_icmp(kind))??;
        Some(io::Error::new(
            kind,
            format!("a datagram to {to} did not arrive"),
        ))
    }
}
