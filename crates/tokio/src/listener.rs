//! [`TcpListener`].

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use exos::ListenOptions;
use exos::net::{self, Net};

use crate::stream::TcpStream;

/// Takes connections to a port, shaped as `tokio::net::TcpListener`.
#[derive(Debug)]
pub struct TcpListener(net::TcpListener);

impl TcpListener {
    /// Listens at the first of the addresses that can be had, as [`net::TcpListener::bind`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn bind(net: &Net, at: impl ToSocketAddrs) -> io::Result<Self> {
        net::TcpListener::bind(net, at).map(Self)
    }

    /// Listens with these options.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    pub fn bind_with(net: &Net, at: SocketAddr, options: &ListenOptions) -> io::Result<Self> {
        net::TcpListener::bind_with(net, at, options).map(Self)
    }

    /// The next connection, and who opened it. One task accepts at a time.
    ///
    /// # Errors
    ///
    /// None; as in tokio.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = poll_fn(|cx| self.0.poll_accept(cx)).await?;
        Ok((TcpStream::from_net(stream), peer))
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// None; as in tokio.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}
