//! A WebSocket server (RFC 6455) that says each message again: tokio-tungstenite on a stack of its own, over TLS by rustls where a
//! certificate is given.
//!
//! `cargo build -p exos-tokio --example websocket_echo`, then `sudo target/debug/examples/websocket_echo 80`: it serves on an
//! interface pair of its own, and says at which address. `websocket_echo 443 CHAIN.pem KEY.pem` serves `wss:`.

use std::env::args;
use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use exos::OwnPair;
use exos_tokio::{Net, TcpListener};
use futures_util::{SinkExt as _, StreamExt as _};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Result as WebSocketResult;

/// Says what a client says, until it closes. tungstenite answers its pings.
async fn echo(io: impl AsyncRead + AsyncWrite + Unpin) -> WebSocketResult<()> {
    let mut socket = accept_async(io).await?;
    while let Some(message) = socket.next().await {
        let message = message?;
        if message.is_text() || message.is_binary() {
            socket.send(message).await?;
        }
    }
    Ok(())
}

/// Serves all who connect, for ever. What goes wrong with a connection is its client's concern.
pub async fn run(listener: TcpListener, tls: Option<TlsAcceptor>) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let tls = tls.clone();
        tokio::task::spawn_local(async move {
            let _ = match tls {
                None => echo(stream).await,
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => echo(stream).await,
                    Err(error) => Err(error.into()),
                },
            };
        });
    }
}

/// TLS with the certificates and the key of these PEM files.
///
/// # Errors
///
/// A file cannot be read, holds no certificate or key, or they do not belong together.
pub fn tls(chain: &str, key: &str) -> Result<TlsAcceptor, Box<dyn Error>> {
    let chain = CertificateDer::pem_file_iter(chain)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let config = ServerConfig::builder().with_no_client_auth();
    Ok(TlsAcceptor::from(Arc::new(
        config.with_single_cert(chain, key)?,
    )))
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: websocket_echo PORT [CHAIN.pem KEY.pem]";
    let port: u16 = args().nth(1).ok_or(usage)?.parse()?;
    let tls = match (args().nth(2), args().nth(3)) {
        (Some(chain), Some(key)) => Some(tls(&chain, &key)?),
        (None, _) => None,
        (Some(_), None) => return Err(usage.into()),
    };
    let net = Net::attach(OwnPair::new())?;
    let listener = TcpListener::bind(&net, (Ipv4Addr::UNSPECIFIED, port))?;
    let ours: Option<IpAddr> = net.with(|exos| exos.stack.addresses().first().map(|a| a.addr));
    let scheme = if tls.is_some() { "wss" } else { "ws" };
    println!(
        "serving at {scheme}://{}/",
        SocketAddr::new(ours.ok_or("no address")?, port)
    );
    exos_tokio::block_on(&net, run(listener, tls))??;
    Ok(())
}
