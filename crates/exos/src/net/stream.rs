//! [`TcpStream`].

use std::cell::Cell;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use exos_buf::Slice;
use exos_inet::tcp::{ConnectionId, Flow, Info, IpFields, Keepalive, Options};

use super::errors;
use super::stack::{Inner, Net};
use super::table::Waiters;
use crate::clock;

/// A connection, shaped as `std::net::TcpStream`. Dropped, it is finished in the background: what was written is delivered. If
/// something that came was not read, the peer is sent a reset, as by the kernel.
pub struct TcpStream(Rc<Socket>);

/// What all clones share.
struct Socket {
    net: Net,
    key: u32,
    local: SocketAddr,
    peer: SocketAddr,
    nonblocking: Cell<bool>,
    read_timeout: Cell<Option<Duration>>,
    write_timeout: Cell<Option<Duration>>,
    nodelay: Cell<bool>,
    ip: Cell<IpFields>,
    linger: Cell<Option<Duration>>,
}

impl Socket {
    /// Its number among the connections.
    fn key(&self) -> usize {
        self.key as usize
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let linger = self.linger.get();
        let abort = linger == Some(Duration::ZERO);
        self.net.run(|inner| inner.release(self.key(), abort));
        if let Some(linger) = linger.filter(|time| !time.is_zero()) {
            let _ = self.net.close(linger);
        }
    }
}

impl TcpStream {
    /// Opens a connection to the first of the addresses that answers.
    ///
    /// # Errors
    ///
    /// None does: the last one's error.
    pub fn connect(net: &Net, to: impl ToSocketAddrs) -> io::Result<Self> {
        let mut last = None;
        for to in to.to_socket_addrs()? {
            match Self::connect_with(net, to, None, &Options::default(), None) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| {
            io::Error::new(ErrorKind::InvalidInput, "there is no address to connect to")
        }))
    }

    /// Opens a connection, and gives up after the time.
    ///
    /// # Errors
    ///
    /// `TimedOut`, and those of the peer or the network.
    pub fn connect_timeout(net: &Net, to: &SocketAddr, timeout: Duration) -> io::Result<Self> {
        Self::connect_with(net, *to, None, &Options::default(), Some(timeout))
    }

    /// Opens a connection from an address of ours (port 0: any), with these options.
    ///
    /// # Errors
    ///
    /// `TimedOut`, and those of the peer or the network.
    pub fn connect_with(
        net: &Net,
        to: SocketAddr,
        from: Option<SocketAddr>,
        options: &Options,
        timeout: Option<Duration>,
    ) -> io::Result<Self> {
        let stream = Self::open(net, to, from, options)?;
        let until = timeout.map(|time| clock::now() + time);
        let opened = net.wait_until(until, |inner| inner.connections[stream.0.key()].opened());
        stream.0.nonblocking.set(false);
        match opened {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::TimedOut.into()),
            opened => opened.map(|()| stream),
        }
    }

    /// Begins to open a connection: it is writable when that has succeeded or failed, which [`take_error`](Self::take_error)
    /// tells. The socket is non-blocking.
    ///
    /// # Errors
    ///
    /// There is no way to the peer, no port or no room.
    pub fn open(
        net: &Net,
        to: SocketAddr,
        from: Option<SocketAddr>,
        options: &Options,
    ) -> io::Result<Self> {
        let stream = net.run(|inner| {
            let (key, flow) = inner.open(to, from, options)?;
            Ok::<_, io::Error>(Self::of(net, key, &flow))
        })?;
        stream.0.nodelay.set(!options.nagle);
        stream.0.ip.set(options.ip);
        stream.0.nonblocking.set(true);
        Ok(stream)
    }

    /// The socket of a connection that is in the table.
    pub(super) fn of(net: &Net, key: usize, flow: &Flow) -> Self {
        Self(Rc::new(Socket {
            net: net.clone(),
            key: u32::try_from(key).expect("fewer connections than the stack holds"),
            local: flow.local(),
            peer: flow.remote(),
            nonblocking: Cell::new(false),
            read_timeout: Cell::new(None),
            write_timeout: Cell::new(None),
            nodelay: Cell::new(true),
            ip: Cell::new(IpFields::default()),
            linger: Cell::new(None),
        }))
    }

    pub(super) fn key(&self) -> usize {
        self.0.key()
    }

    /// There are no clones.
    pub(super) fn is_only_handle(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }

    /// The stack that it is on.
    pub fn net(&self) -> &Net {
        &self.0.net
    }

    // Reading.

    /// Gives `read` what has come, where it lies; as much as `read` says is taken. Empty: the peer has finished.
    ///
    /// # Errors
    ///
    /// `WouldBlock` on a non-blocking socket where nothing has come, and after the read timeout; the unhappy end of the
    /// connection, once.
    ///
    /// # Panics
    ///
    /// When `read` takes more than it was given, or uses a socket of the same [`Net`].
    pub fn read_with<R>(&self, read: impl FnOnce(&[u8]) -> (usize, R)) -> io::Result<R> {
        let mut read = Some(read);
        self.wait(self.0.read_timeout.get(), |inner| {
            inner.read_with(self.0.key(), &mut read)
        })
    }

    /// As [`read_with`](Self::read_with), once this many bytes have come, or all that come.
    pub(super) fn read_least<R>(
        &self,
        least: usize,
        read: impl FnOnce(&[u8]) -> (usize, R),
    ) -> io::Result<R> {
        let mut read = Some(read);
        self.wait(self.0.read_timeout.get(), |inner| {
            inner.read_least(self.0.key(), least, &mut read)
        })
    }

    /// As `read`, and leaves the bytes.
    ///
    /// # Errors
    ///
    /// As `read`.
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.read_with(|bytes| (0, copy(bytes, into)))
    }

    fn read_into(&self, into: &mut [u8]) -> io::Result<usize> {
        self.read_with(|bytes| {
            let count = copy(bytes, into);
            (count, count)
        })
    }

    fn read_into_many(&self, many: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.read_with(|bytes| {
            let mut count = 0;
            for into in many {
                count += copy(&bytes[count..], into);
            }
            (count, count)
        })
    }

    // Writing.

    /// Sends a part of an immutable buffer, without a copy, once there is room for anything. All of it is taken.
    ///
    /// # Errors
    ///
    /// `WouldBlock` on a non-blocking socket without room, and after the write timeout; `BrokenPipe`, and the unhappy end of
    /// the connection, once.
    pub fn send(&self, slice: Slice) -> io::Result<()> {
        let mut slice = Some(slice);
        self.wait(self.0.write_timeout.get(), |inner| {
            inner.send(self.0.key(), || slice.take().expect("it is sent once"))
        })?;
        self.let_leave()
    }

    /// Sends it as the last thing: the end rides on its last segment.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn send_and_finish(&self, slice: Slice) -> io::Result<()> {
        let mut slice = Some(slice);
        self.wait(self.0.write_timeout.get(), |inner| {
            let sent = inner.send(self.0.key(), || slice.take().expect("it is sent once"));
            if matches!(sent, Some(Ok(()))) {
                inner.finish(self.0.key());
            }
            sent
        })?;
        self.let_leave()
    }

    fn write_from(&self, many: &[&[u8]]) -> io::Result<usize> {
        let wanted: usize = many.iter().map(|bytes| bytes.len()).sum();
        let written = self.wait(self.0.write_timeout.get(), |inner| {
            inner.write(self.0.key(), many, wanted)
        })?;
        self.let_leave()?;
        Ok(written)
    }

    /// What a blocking socket writes leaves at once.
    fn let_leave(&self) -> io::Result<()> {
        match self.0.nonblocking.get() {
            true => Ok(()),
            false => self.0.net.flush(),
        }
    }

    /// Waits for an answer of `ready`, unless the socket is non-blocking.
    fn wait<T>(
        &self,
        timeout: Option<Duration>,
        mut ready: impl FnMut(&mut Inner) -> Option<io::Result<T>>,
    ) -> io::Result<T> {
        let net = &self.0.net;
        if let Some(answer) = net.run(&mut ready) {
            return answer;
        }
        if self.0.nonblocking.get() {
            return Err(errors::would_block());
        }
        let until = timeout.map(|time| clock::now() + time);
        net.wait_until(until, ready)
    }

    /// Nothing more will be read, or written: then the peer sees the end behind what was written. What has come can be read
    /// still, before the end.
    ///
    /// # Errors
    ///
    /// `NotConnected`: it is over.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.net.run(|inner| {
            if inner.connections[self.0.key()].is_over() {
                return Err(io::Error::from(ErrorKind::NotConnected));
            }
            if matches!(how, Shutdown::Read | Shutdown::Both) {
                inner.connections[self.0.key()].reads = false;
            }
            if matches!(how, Shutdown::Write | Shutdown::Both) {
                inner.finish(self.0.key());
            }
            Ok(())
        })?;
        self.let_leave()
    }

    // Tasks.

    /// For a task: as [`read_with`](Self::read_with), or the task is woken when to ask again. One task reads at a time.
    ///
    /// # Errors
    ///
    /// As `read_with`, `WouldBlock` apart.
    pub fn poll_read_with<R>(
        &self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&[u8]) -> (usize, R),
    ) -> Poll<io::Result<R>> {
        let mut read = Some(read);
        self.poll(
            cx,
            |waiters| &mut waiters.reader,
            |inner| inner.read_with(self.0.key(), &mut read),
        )
    }

    /// For a task: as a vectored write, or the task is woken when there is room. One task writes at a time. It leaves with the next turn.
    ///
    /// # Errors
    ///
    /// `BrokenPipe`, and the unhappy end of the connection, once.
    pub fn poll_write(&self, cx: &mut Context<'_>, many: &[&[u8]]) -> Poll<io::Result<usize>> {
        let wanted: usize = many.iter().map(|bytes| bytes.len()).sum();
        self.poll(
            cx,
            |waiters| &mut waiters.writer,
            |inner| inner.write(self.0.key(), many, wanted),
        )
    }

    /// For a task: as [`send`](Self::send), or the task is woken when there is room. `slice` is asked once there is.
    ///
    /// # Errors
    ///
    /// `BrokenPipe`, and the unhappy end of the connection, once.
    pub fn poll_send(
        &self,
        cx: &mut Context<'_>,
        slice: impl FnOnce() -> Slice,
    ) -> Poll<io::Result<()>> {
        self.poll(
            cx,
            |waiters| &mut waiters.writer,
            |inner| inner.send(self.0.key(), slice),
        )
    }

    /// For a task: until a connection that is being opened stands.
    ///
    /// # Errors
    ///
    /// It does not come to stand.
    pub fn poll_opened(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(
            cx,
            |waiters| &mut waiters.writer,
            |inner| inner.connections[self.0.key()].opened(),
        )
    }

    fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        waker: impl FnOnce(&mut Waiters) -> &mut Option<Waker>,
        ready: impl FnOnce(&mut Inner) -> Option<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let net = &self.0.net;
        if let Some(answer) = net.run(ready) {
            return Poll::Ready(answer);
        }
        let old = {
            let mut inner = net.borrow();
            let waker = waker(&mut inner.connections[self.0.key()].waiters);
            waker.replace(cx.waker().clone())
        };
        // Its last owner may own sockets.
        drop(old);
        Poll::Pending
    }

    // Settings.

    /// The peer's address and port.
    ///
    /// # Errors
    ///
    /// `NotConnected`: the connection is over.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self.0.net.borrow().connections[self.0.key()].is_over() {
            true => Err(ErrorKind::NotConnected.into()),
            false => Ok(self.0.peer),
        }
    }

    /// Ours.
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

    /// Calls that would wait give `WouldBlock` instead.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.nonblocking.set(nonblocking);
        Ok(())
    }

    /// How long a read waits, after which it gives `WouldBlock`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no time at all.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.read_timeout.set(some_time(timeout)?);
        Ok(())
    }

    /// How long a write waits, after which it gives `WouldBlock`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no time at all.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.write_timeout.set(some_time(timeout)?);
        Ok(())
    }

    /// How long a read waits.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.read_timeout.get())
    }

    /// How long a write waits.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.write_timeout.get())
    }

    /// Off: less than a full segment waits while data is in flight (Nagle). On, the default here: it does not.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.nodelay.set(nodelay);
        self.command(|inner, id| {
            inner.exos.stack.tcp.set_nagle(id, !nodelay);
            inner.has_work();
        });
        Ok(())
    }

    /// Whether Nagle's algorithm is off.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(self.0.nodelay.get())
    }

    /// How many hops its packets may take (`IP_TTL`, `IPV6_UNICAST_HOPS`): 64 from the beginning.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for what is not 1 to 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let hop_limit = hop_limit(ttl)?;
        self.set_ip_fields(IpFields {
            hop_limit,
            ..self.0.ip.get()
        });
        Ok(())
    }

    /// How many hops its packets may take.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn ttl(&self) -> io::Result<u32> {
        Ok(self.0.ip.get().hop_limit.into())
    }

    /// The type-of-service byte, or traffic class, of its packets (`IP_TOS`, `IPV6_TCLASS`). The lower two bits, which are ECN's, are the stack's
    /// and change nothing.
    ///
    /// # Errors
    ///
    /// None; there to go with the others.
    pub fn set_tos(&self, tos: u8) -> io::Result<()> {
        self.set_ip_fields(IpFields {
            dscp: tos >> 2,
            ..self.0.ip.get()
        });
        Ok(())
    }

    /// The type-of-service byte, or traffic class, of its packets, without the bits of ECN.
    ///
    /// # Errors
    ///
    /// None; there to go with the others.
    pub fn tos(&self) -> io::Result<u8> {
        Ok(self.0.ip.get().dscp << 2)
    }

    fn set_ip_fields(&self, ip: IpFields) {
        self.0.ip.set(ip);
        self.command(|inner, id| inner.exos.stack.tcp.set_ip_fields(id, ip));
    }

    /// What its packets say by now: another process may have set it.
    pub(super) fn learn_ip_fields(&self) {
        self.command(|inner, id| {
            let connection = inner.exos.stack.tcp.connection(id);
            self.0
                .ip
                .set(connection.map_or_else(IpFields::default, |c| c.ip_fields()));
        });
    }

    /// How long dropping the socket waits for what was written to be acknowledged. With no time at all the connection is reset.
    /// `None`, the default: it does not wait, and the stack delivers in the background.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.0.linger.set(linger);
        Ok(())
    }

    /// How long dropping the socket waits.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.linger.get())
    }

    /// Ask a silent peer whether it is still there, or do not.
    pub fn set_keepalive(&self, keepalive: Option<Keepalive>) {
        self.command(|inner, id| inner.exos.stack.tcp.set_keepalive(id, keepalive));
    }

    /// Give the connection up when what was written stays unacknowledged for so long.
    pub fn set_user_timeout(&self, time: Option<Duration>) {
        self.command(|inner, id| inner.exos.stack.tcp.set_user_timeout(id, time));
    }

    /// Let this many bytes be received and not read, in place of as many as the path makes good use of.
    pub fn set_receive_buffer(&self, bytes: u32) {
        self.command(|inner, id| inner.exos.stack.tcp.set_receive_buffer(id, bytes));
    }

    fn command(&self, command: impl FnOnce(&mut Inner, ConnectionId)) {
        self.0.net.run(|inner| {
            let connection = &inner.connections[self.0.key()];
            if !connection.is_over() {
                let id = connection.id;
                command(inner, id);
            }
        });
    }

    /// What the stack knows of the connection, as Linux's `tcp_info`; `None` when it is over.
    pub fn info(&self) -> Option<Info> {
        let inner = self.0.net.borrow();
        let connection = &inner.connections[self.0.key()];
        let of_stack = inner.exos.stack.tcp.connection(connection.id);
        of_stack
            .filter(|_| !connection.is_over())
            .map(exos_inet::tcp::Connection::info)
    }

    /// The unhappy end of the connection, which is told once.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(self.0.net.borrow().connections[self.0.key()].take_error())
    }
}

/// A number of hops that a program gives.
pub(super) fn hop_limit(ttl: u32) -> io::Result<u8> {
    match u8::try_from(ttl) {
        Ok(hops @ 1..) => Ok(hops),
        _ => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "a packet takes 1 to 255 hops",
        )),
    }
}

/// A timeout that is none is a mistake, as in `std`.
pub(super) fn some_time(timeout: Option<Duration>) -> io::Result<Option<Duration>> {
    if timeout == Some(Duration::ZERO) {
        let why = "a timeout of no time at all; None waits for ever";
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    Ok(timeout)
}

fn copy(from: &[u8], into: &mut [u8]) -> usize {
    let count = from.len().min(into.len());
    into[..count].copy_from_slice(&from[..count]);
    count
}

impl Read for &TcpStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_into(into)
    }

    fn read_vectored(&mut self, many: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.read_into_many(many)
    }
}

impl Read for TcpStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_into(into)
    }

    fn read_vectored(&mut self, many: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.read_into_many(many)
    }
}

/// A write takes as much as there is room for; `flush` sends what a non-blocking socket has taken.
impl Write for &TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_from(&[bytes])
    }

    fn write_vectored(&mut self, many: &[IoSlice<'_>]) -> io::Result<usize> {
        let many: Vec<&[u8]> = many.iter().map(|bytes| &**bytes).collect();
        self.write_from(&many)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.net.flush()
    }
}

impl Write for TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn write_vectored(&mut self, many: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(many)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

impl std::fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (local, peer) = (self.0.local, self.0.peer);
        f.debug_struct("TcpStream")
            .field("local", &local)
            .field("peer", &peer)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::table::Connection;

    #[test]
    fn a_socket_takes_less_than_256_bytes_beyond_its_connection() {
        let (ours, shared) = (size_of::<Connection>(), size_of::<Socket>());
        let counts = 2 * size_of::<usize>();
        assert!(ours + shared + counts < 256, "{ours} + {shared} + {counts}");
    }
}
