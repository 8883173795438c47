//! [`TcpListener`].

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::task::{Context, Poll};

use exos_inet::limits::HOP_LIMIT;
use exos_inet::tcp::{ListenOptions, ListenerId, OpenError};

use super::inner::Inner;
use super::stack::Net;
use super::stream::{TcpStream, hop_limit};
use super::table::{Listener, Made, Place, Waiters};
use super::{claims, errors};
use crate::limits::{ACCEPT_QUEUE, PORT_TRIES};
use crate::via::Protocol;

/// Takes connections to a port, shaped as `std::net::TcpListener`. Dropped, it takes no further ones; those that were not accepted are
/// reset.
pub struct TcpListener(Rc<Socket>);

struct Socket {
    net: Net,
    key: usize,
    local: SocketAddr,
    nonblocking: Cell<bool>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.net.run(|inner| inner.close_listener(self.key));
    }
}

impl TcpListener {
    /// Listens at the first of the addresses that can be had. `0.0.0.0` is all IPv4 addresses of the stack, `[::]` all addresses
    /// of both families; port 0 asks for one that is free.
    ///
    /// # Errors
    ///
    /// `AddrInUse`, `AddrNotAvailable` for an address that is not the stack's, `PermissionDenied` where a daemon's policy does not
    /// allow it.
    pub fn bind(net: &Net, at: impl ToSocketAddrs) -> io::Result<Self> {
        let options = ListenOptions::default();
        errors::first_of(at, "listen at", |at| Self::bind_with(net, at, &options))
    }

    /// Listens as [`bind`](Self::bind) does, at an address and port that other listeners of this stack may listen at, too, if all of
    /// them are bound by this (`SO_REUSEPORT`). A connection is one listener's, by a keyed hash of its four-tuple. What waits for one
    /// that is dropped goes to the others; what waits for another stays there.
    ///
    /// ```no_run
    /// # use exos::net::{Net, TcpListener};
    /// # fn run(net: &Net) -> std::io::Result<()> {
    /// let workers = [(); 4].map(|()| TcpListener::bind_shared(net, "0.0.0.0:80"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`bind`](Self::bind); `AddrInUse` where the other does not share.
    pub fn bind_shared(net: &Net, at: impl ToSocketAddrs) -> io::Result<Self> {
        let options = ListenOptions::default();
        errors::first_of(at, "listen at", |at| {
            Self::bind_shared_with(net, at, &options)
        })
    }

    /// Listens with these options. At most `backlog` connections wait to be accepted, and as many are half open.
    ///
    /// # Errors
    ///
    /// As those of [`bind`](Self::bind).
    pub fn bind_with(net: &Net, at: SocketAddr, options: &ListenOptions) -> io::Result<Self> {
        let made = net.borrow().listen(at, options, false)?;
        Ok(Self::of(net, made))
    }

    /// Listens with these options at what others may listen at ([`bind_shared`](Self::bind_shared)). What connections are, and how many
    /// may be half open, the first of them says.
    ///
    /// # Errors
    ///
    /// As those of [`bind_shared`](Self::bind_shared).
    pub fn bind_shared_with(
        net: &Net,
        at: SocketAddr,
        options: &ListenOptions,
    ) -> io::Result<Self> {
        let made = net.borrow().listen(at, options, true)?;
        Ok(Self::of(net, made))
    }

    fn of(net: &Net, (key, local): (usize, SocketAddr)) -> Self {
        Self(Rc::new(Socket {
            net: net.clone(),
            key,
            local,
            nonblocking: Cell::new(false),
        }))
    }

    pub(super) fn key(&self) -> usize {
        self.0.key
    }

    /// The stack that it is on.
    pub fn net(&self) -> &Net {
        &self.0.net
    }

    /// The next connection, and who opened it.
    ///
    /// # Errors
    ///
    /// `WouldBlock` on a non-blocking socket where there is none; the interface has gone.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let take = |inner: &mut Inner| self.take(inner).map(Ok);
        let there = take(&mut self.0.net.borrow());
        let made = match there {
            Some(made) => made,
            None if self.0.nonblocking.get() => Err(errors::would_block()),
            None => self.0.net.wait_until(None, take),
        }?;
        self.stream_of(&made)
    }

    /// For a task: the next connection, or it is woken when there is one. One task accepts at a time.
    ///
    /// # Errors
    ///
    /// None; there to go with other listeners'.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let mut inner = self.0.net.borrow();
        if let Some(made) = self.take(&mut inner) {
            drop(inner);
            return Poll::Ready(self.stream_of(&made));
        }
        let waiters = &mut inner.listeners[self.0.key].waiters;
        let old = waiters.reader.replace(cx.waker().clone());
        drop(inner);
        drop(old);
        Poll::Pending
    }

    fn take(&self, inner: &mut Inner) -> Option<Made> {
        inner.listeners[self.0.key].made.pop_front()
    }

    fn stream_of(&self, made: &Made) -> io::Result<(TcpStream, SocketAddr)> {
        let stream = TcpStream::of(&self.0.net, made.key, &made.flow);
        if made.hop_limit != HOP_LIMIT {
            stream.set_ttl(made.hop_limit.into())?;
        }
        Ok((stream, made.flow.remote()))
    }

    /// How many hops packets of connections that are made from now on may take, from their first data on (`IP_TTL`,
    /// `IPV6_UNICAST_HOPS`): 64 from the beginning.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for what is not 1 to 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let hop_limit = hop_limit(ttl)?;
        self.0.net.borrow().listeners[self.0.key].hop_limit = hop_limit;
        Ok(())
    }

    /// How many hops packets of its connections may take.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn ttl(&self) -> io::Result<u32> {
        let listener = &self.0.net.borrow().listeners[self.0.key];
        Ok(listener.hop_limit.into())
    }

    /// Nothing: a listener has no error to tell.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(None)
    }

    /// One connection after the other; never `None`.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming(self)
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.local)
    }

    /// Another handle of the same socket.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(Rc::clone(&self.0)))
    }

    /// `accept` gives `WouldBlock` instead of waiting. Accepted connections are blocking, as in `std`.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.nonblocking.set(nonblocking);
        Ok(())
    }
}

impl std::fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcpListener")
            .field("local", &self.0.local)
            .finish()
    }
}

/// The connections of a listener ([`TcpListener::incoming`]).
#[derive(Debug)]
pub struct Incoming<'a>(&'a TcpListener);

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.accept().map(|(stream, _)| stream))
    }
}

impl Inner {
    /// Begins to listen; gives the listener's number, and where it listens.
    fn listen(
        &mut self,
        at: SocketAddr,
        options: &ListenOptions,
        is_shared: bool,
    ) -> io::Result<(usize, SocketAddr)> {
        let mut places = self.places.iter().filter(|_| is_shared);
        let place = places.find(|(_, place)| place.is_shared && place.at == at);
        let place = match place.map(|(key, _)| key) {
            Some(place) => place,
            None => self.make_place(at, options, is_shared)?,
        };
        let key = self.listeners.insert(Listener {
            place,
            made: VecDeque::new(),
            backlog: options.backlog.min(ACCEPT_QUEUE),
            hop_limit: HOP_LIMIT,
            waiters: Waiters::default(),
        });
        self.places[place].members.push(key);
        Ok((key, self.places[place].at))
    }

    /// Has the stack listen.
    fn make_place(
        &mut self,
        at: SocketAddr,
        options: &ListenOptions,
        is_shared: bool,
    ) -> io::Result<usize> {
        let addresses = self.addresses_at(at.ip())?;
        let (lent, grants) = claims::port(&mut self.exos, Protocol::Tcp, at.ip(), at.port())?;
        let (ids, port) = match self.listen_at(&addresses, lent, options) {
            Ok(made) => made,
            Err(error) => {
                claims::give_back(&mut self.exos, &grants);
                return Err(errors::of_open(error));
            }
        };
        let place = self.places.insert(Place {
            at: SocketAddr::new(at.ip(), port),
            is_shared,
            ids: ids.clone(),
            grants,
            members: Vec::new(),
        });
        let of_place = ids.into_iter().map(|id| (id, place));
        self.by_listener.extend(of_place);
        Ok(place)
    }

    fn close_listener(&mut self, key: usize) {
        let listener = self.listeners.remove(key);
        // Not dropped here: its last owner may own sockets.
        self.woken.extend(listener.waiters.reader);
        if let Some(watch) = listener.waiters.watch {
            self.watches.remove(watch);
        }
        let place = listener.place;
        let members = &mut self.places[place].members;
        members.retain(|member| *member != key);
        let others_take = !members.is_empty();
        if !others_take {
            let place = self.places.remove(place);
            for id in place.ids {
                self.by_listener.remove(&id);
                self.exos.stack.tcp.close_listener(id);
            }
            claims::give_back(&mut self.exos, &place.grants);
        }
        for made in listener.made {
            if !others_take || !self.offer(place, made) {
                self.release(made.key, true);
            }
        }
    }

    /// Listens at all of the addresses; 0 tries one port after the other.
    fn listen_at(
        &mut self,
        addresses: &[Option<IpAddr>],
        port: u16,
        options: &ListenOptions,
    ) -> Result<(Vec<ListenerId>, u16), OpenError> {
        let tries = match port {
            0 => PORT_TRIES,
            _ => 1,
        };
        let mut refused = OpenError::NoPort;
        for _ in 0..tries {
            let port = match port {
                0 => self.random_port(),
                port => port,
            };
            let mut ids = Vec::new();
            for address in addresses {
                match self.exos.stack.tcp.listen(*address, port, options.clone()) {
                    Ok(id) => ids.push(id),
                    Err(error) => refused = error,
                }
            }
            if ids.len() == addresses.len() {
                return Ok((ids, port));
            }
            ids.into_iter()
                .for_each(|id| self.exos.stack.tcp.close_listener(id));
        }
        Err(refused)
    }

    /// What the stack is told to bind to for an address of a program's: `None` is all addresses.
    pub(super) fn addresses_at(&self, ip: IpAddr) -> io::Result<Vec<Option<IpAddr>>> {
        let ours = self.exos.stack.addresses().iter().map(|prefix| prefix.addr);
        let meant: Vec<_> = match ip {
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => vec![None],
            IpAddr::V4(any) if any.is_unspecified() => {
                ours.filter(IpAddr::is_ipv4).map(Some).collect()
            }
            one => ours.filter(|ip| *ip == one).map(Some).collect(),
        };
        if meant.is_empty() {
            let ours = self
                .exos
                .stack
                .addresses()
                .iter()
                .map(|prefix| prefix.addr.to_string());
            let ours: Vec<String> = ours.collect();
            let why = format!(
                "{ip} is no address of this stack, which has {}",
                ours.join(", ")
            );
            return Err(io::Error::new(ErrorKind::AddrNotAvailable, why));
        }
        Ok(meant)
    }
}
