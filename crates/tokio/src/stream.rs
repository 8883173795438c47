//! [`TcpStream`].

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use exos::net::{self, Net};
use exos::{Options, Slice};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection, shaped as `tokio::net::TcpStream`. Dropped, it is finished in the background, while the stack is driven or at its
/// end.
#[derive(Debug)]
pub struct TcpStream(net::TcpStream);

impl TcpStream {
    /// Opens a connection. Several addresses are tried by the caller, one after the other or together.
    ///
    /// # Errors
    ///
    /// Those of the peer or the network.
    pub async fn connect(net: &Net, to: SocketAddr) -> io::Result<Self> {
        Self::connect_with(net, to, None, &Options::default()).await
    }

    /// Opens a connection from an address of ours (port 0: any), with these options.
    ///
    /// # Errors
    ///
    /// Those of the peer or the network.
    pub async fn connect_with(
        net: &Net,
        to: SocketAddr,
        from: Option<SocketAddr>,
        options: &Options,
    ) -> io::Result<Self> {
        let stream = Self::from_net(net::TcpStream::open(net, to, from, options)?);
        poll_fn(|cx| stream.0.poll_opened(cx)).await?;
        Ok(stream)
    }

    /// A socket that was opened or accepted elsewhere.
    pub fn from_net(stream: net::TcpStream) -> Self {
        // It cannot fail.
        let _ = stream.set_nonblocking(true);
        Self(stream)
    }

    /// The socket beneath: its addresses, settings, `tcp_info`.
    pub fn get_ref(&self) -> &net::TcpStream {
        &self.0
    }

    /// The peer's address and port.
    ///
    /// # Errors
    ///
    /// None; as in tokio.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// Ours.
    ///
    /// # Errors
    ///
    /// None; as in tokio.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Gives `read` what has come, where it lies; as much as `read` says is taken. Empty: the peer has finished.
    ///
    /// # Errors
    ///
    /// The unhappy end of the connection, once.
    pub async fn read_with<R>(&self, read: impl FnOnce(&[u8]) -> (usize, R)) -> io::Result<R> {
        let mut read = Some(read);
        poll_fn(|cx| {
            self.0
                .poll_read_with(cx, |bytes| read.take().expect("it is read once")(bytes))
        })
        .await
    }

    /// Sends a part of an immutable buffer, without a copy, once there is room for anything.
    ///
    /// # Errors
    ///
    /// `BrokenPipe`, and the unhappy end of the connection, once.
    pub async fn send(&self, slice: Slice) -> io::Result<()> {
        let mut slice = Some(slice);
        poll_fn(|cx| {
            self.0
                .poll_send(cx, || slice.take().expect("it is sent once"))
        })
        .await
    }

    pub(crate) fn poll_finish(&self) -> Poll<io::Result<()>> {
        match self.0.shutdown(Shutdown::Write) {
            // It is over: there is nothing left to finish.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            finished => Poll::Ready(finished),
        }
    }

    pub(crate) fn poll_write_many(
        &self,
        cx: &mut Context<'_>,
        many: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        /// More are written with the next call.
        const PARTS_MAX: usize = 16;
        let mut parts: [&[u8]; PARTS_MAX] = [&[]; PARTS_MAX];
        let count = many.len().min(PARTS_MAX);
        for (part, bytes) in parts.iter_mut().zip(many) {
            *part = bytes;
        }
        self.0.poll_write(cx, &parts[..count])
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        self.0.poll_read_with(cx, |bytes| {
            let count = bytes.len().min(into.remaining());
            into.put_slice(&bytes[..count]);
            (count, ())
        })
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, &[bytes])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        many: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_many(cx, many)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_finish()
    }
}
