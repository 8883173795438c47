//! [`TcpStream`].

mod settings;

use std::cell::Cell;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use exos_buf::Slice;
use exos_inet::tcp::{Flow, IpFields, Options};

pub(super) use settings::{hop_limit, some_time};

use super::errors;
use super::inner::Inner;
use super::stack::Net;
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
        let options = Options::default();
        let connect = |to| Self::connect_with(net, to, None, &options, None);
        errors::first_of(to, "connect to", connect)
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
