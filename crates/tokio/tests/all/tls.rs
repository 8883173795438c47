//! WebSockets and TLS on our sockets: the example's server with clients of the kernel's, and rustls as a client of `openssl
//! s_server` on the kernel's.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use exos_tokio::{TcpListener, TcpStream, block_on};
use futures_util::{SinkExt as _, StreamExt as _};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

use crate::common::{ANY, PATIENCE, attach};

#[path = "../../examples/websocket_echo.rs"]
#[allow(dead_code)] // Its `main`.
mod websocket_echo;

/// The name that certificates here are for.
const NAME: &str = "server.test";

/// A certificate that openssl(1) made, in a folder that goes with it.
struct Certificate {
    folder: PathBuf,
}

impl Certificate {
    /// None where there is no openssl, or none that makes one.
    fn make(test: &str) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("exos-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let certificate = Self { folder };
        let name = format!("subjectAltName=DNS:{NAME}");
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"])
            .args(["-pkeyopt", "ec_paramgen_curve:P-256"])
            .args(["-subj", "/CN=test", "-addext", &name])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-keyout")
            .arg(certificate.key())
            .arg("-out")
            .arg(certificate.chain())
            .output();
        match made {
            Ok(made) if made.status.success() => Some(certificate),
            other => {
                println!("SKIPPED {test}: openssl makes no certificate: {other:?}");
                None
            }
        }
    }

    fn chain(&self) -> PathBuf {
        self.folder.join("chain.pem")
    }

    fn key(&self) -> PathBuf {
        self.folder.join("key.pem")
    }

    /// A client that trusts this certificate alone.
    fn client(&self) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        let own = CertificateDer::from_pem_file(self.chain()).unwrap();
        roots.add(own).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots);
        TlsConnector::from(Arc::new(config.with_no_client_auth()))
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn name() -> ServerName<'static> {
    ServerName::try_from(NAME).unwrap()
}

/// Says messages of many lengths over a WebSocket, all before the first answer is read, and reads them back in order.
async fn say_and_hear(io: impl AsyncRead + AsyncWrite + Unpin) {
    let (socket, _) = client_async(format!("ws://{NAME}/"), io).await.unwrap();
    let (mut tx, mut rx) = socket.split();
    let long = "0123456789".repeat(50_000);
    let messages = ["", "a", &long[..70_000], &long]
        .map(Message::text)
        .into_iter()
        .chain([Message::binary(vec![7; 200_000])]);
    let saying = async {
        for message in messages.clone() {
            tx.send(message).await.unwrap();
        }
        tx.close().await.unwrap();
    };
    let hearing = async {
        for message in messages.clone() {
            assert!(rx.next().await.unwrap().unwrap() == message);
        }
        while let Some(Ok(message)) = rx.next().await {
            assert!(message.is_close(), "{message}");
        }
    };
    tokio::join!(saying, hearing);
}

/// The example serves what a client of the kernel's asks, which runs on a thread of its own.
fn served<C, F>(test: &str, tls: Option<&Certificate>, client: C)
where
    C: FnOnce(tokio::net::TcpStream) -> F + Send + 'static,
    F: Future<Output = ()>,
{
    let Some((net, ours, _)) = attach(test) else {
        return;
    };
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    let tls = tls.map(|own| websocket_echo::tls(&text(own.chain()), &text(own.key())).unwrap());
    let listener = TcpListener::bind(&net, ANY).unwrap();
    let at = SocketAddr::new(ours, listener.local_addr().unwrap().port());
    let (ended, end) = tokio::sync::oneshot::channel();
    let asking = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let io = tokio::net::TcpStream::connect(at).await.unwrap();
            tokio::time::timeout(PATIENCE, client(io)).await.unwrap();
        });
        ended.send(()).unwrap();
    });
    block_on(&net, async {
        tokio::select! {
            ended = websocket_echo::run(listener, tls) => ended.unwrap(),
            // Where the client fails, it has said why.
            _ = end => (),
        }
    })
    .unwrap();
    asking.join().unwrap();
}

#[test]
fn a_websocket_server_serves_the_kernels_clients() {
    served(
        "a_websocket_server_serves_the_kernels_clients",
        None,
        say_and_hear,
    );
}

#[test]
fn a_websocket_server_serves_the_kernels_clients_over_tls() {
    let test = "a_websocket_server_serves_the_kernels_clients_over_tls";
    let Some(certificate) = Certificate::make(test) else {
        return;
    };
    let client = certificate.client();
    served(test, Some(&certificate), |io| async move {
        say_and_hear(client.connect(name(), io).await.unwrap()).await;
    });
}

/// openssl's server on the kernel's sockets, at this address and some port; it takes one connection and says every line backwards.
fn openssl_server(
    certificate: &Certificate,
    at: std::net::IpAddr,
) -> (std::process::Child, SocketAddr) {
    let port_of = |line: &str| {
        // "ACCEPT 192.0.2.1:40000": the address as it was bound.
        line.strip_prefix("ACCEPT ")
            .and_then(|rest| rest.trim().rsplit(':').next()?.parse().ok())
    };
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let mut server = Command::new("openssl")
        .args(["s_server", "-rev", "-naccept", "1", "-accept"])
        .arg(format!("{at}:0"))
        .args([
            "-cert",
            &path(&certificate.chain()),
            "-key",
            &path(&certificate.key()),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let said = BufReader::new(server.stdout.take().unwrap()).lines();
    let port: Option<u16> = said.map_while(Result::ok).find_map(|line| port_of(&line));
    (server, SocketAddr::new(at, port.expect("it accepts")))
}

#[test]
fn rustls_asks_openssl_on_the_kernels_sockets() {
    let test = "rustls_asks_openssl_on_the_kernels_sockets";
    let Some(certificate) = Certificate::make(test) else {
        return;
    };
    let Some((net, _, theirs)) = attach(test) else {
        return;
    };
    let (mut server, at) = openssl_server(&certificate, theirs);
    let line = "0123456789".repeat(900);
    let heard = block_on(&net, async {
        let stream = TcpStream::connect(&net, at).await.unwrap();
        let mut stream = certificate.client().connect(name(), stream).await.unwrap();
        stream
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
        stream.flush().await.unwrap();
        let mut heard = vec![0; line.len() + 1];
        let reading = stream.read_exact(&mut heard);
        tokio::time::timeout(PATIENCE, reading)
            .await
            .unwrap()
            .unwrap();
        // It ends its own direction, too, behind a word of TLS.
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        let reading = stream.read_to_end(&mut rest);
        let count = tokio::time::timeout(PATIENCE, reading).await.unwrap();
        assert_eq!(count.unwrap(), 0);
        heard
    });
    let backwards: String = line.chars().rev().chain(['\n']).collect();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(heard.unwrap() == backwards.as_bytes());
}

/// A certificate of a stranger's ends the connection with an error, and nothing was said.
#[test]
fn rustls_refuses_a_strangers_certificate() {
    let test = "rustls_refuses_a_strangers_certificate";
    let (Some(strangers), Some(own)) = (
        Certificate::make("a-strangers-certificate"),
        Certificate::make(test),
    ) else {
        return;
    };
    let client = own.client();
    served(test, Some(&strangers), |io| async move {
        let error = client.connect(name(), io).await.unwrap_err();
        assert!(error.to_string().contains("certificate"), "{error}");
    });
}
