//! Sessions with OpenSSL's programs over a socket: both versions, RSA and ECDSA, changes of keys from either side, renegotiation.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use exos_tls::policy::provider;
use exos_tls::{Session, TlsError, files};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;

use crate::sessions::name;

/// Longer than any machine takes for what is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a certificate for `localhost` is asked for: one that signs no others.
const REQUEST: &str = "[req]\ndistinguished_name=d\nx509_extensions=e\n[d]\n[e]\n\
    subjectAltName=DNS:localhost\nbasicConstraints=critical,CA:FALSE\n";

/// Keys, as OpenSSL is asked for them.
const KEYS: [&[&str]; 2] = [
    &["rsa:2048"],
    &["ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
];

/// A certificate and its key in files of their own, made by OpenSSL.
struct Certificate {
    folder: PathBuf,
}

impl Certificate {
    fn new(key: &[&str], test: &str) -> Certificate {
        let name = format!("exos-tls-{test}-{}-{}", &key[0][..2], std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let request = folder.join("request");
        std::fs::write(&request, REQUEST).unwrap();
        let certificate = Certificate { folder };
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
            ])
            .args(["-config".as_ref(), request.as_os_str()])
            .arg("-newkey")
            .args(key)
            .args(["-keyout".as_ref(), certificate.key().as_os_str()])
            .args(["-out".as_ref(), certificate.file().as_os_str()])
            .output();
        let made = made.unwrap();
        assert!(made.status.success(), "{made:?}");
        certificate
    }

    fn file(&self) -> PathBuf {
        self.folder.join("certificate")
    }

    fn key(&self) -> PathBuf {
        self.folder.join("key")
    }

    fn server(&self) -> Arc<ServerConfig> {
        let config = ServerConfig::builder_with_provider(provider(&[]));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let chain = files::certificates(&self.file()).unwrap();
        let key = PrivateKeyDer::from_pem_file(self.key()).unwrap();
        let config = config.with_no_client_auth().with_single_cert(chain, key);
        let mut config = config.unwrap();
        config.enable_secret_extraction = true;
        Arc::new(config)
    }

    fn client(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(files::certificates(&self.file()).unwrap());
        let config = ClientConfig::builder_with_provider(provider(&[]));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.enable_secret_extraction = true;
        Arc::new(config)
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// One of OpenSSL's programs.
struct OpenSsl {
    child: Child,
    stdin: ChildStdin,
    /// What it says, as it comes.
    said: Receiver<Vec<u8>>,
    heard: Vec<u8>,
}

impl OpenSsl {
    fn start(arguments: &[&str], file: &Path, key: Option<&Path>) -> OpenSsl {
        let mut command = Command::new("openssl");
        command.args(arguments);
        match key {
            Some(key) => command.arg("-cert").arg(file).arg("-key").arg(key),
            None => command.arg("-CAfile").arg(file),
        };
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (says, said) = channel();
        let follow = |mut from: Box<dyn Read + Send>| {
            let says = says.clone();
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    if says.send(bytes[..count].to_vec()).is_err() {
                        return;
                    }
                }
            });
        };
        follow(Box::new(child.stdout.take().unwrap()));
        follow(Box::new(child.stderr.take().unwrap()));
        OpenSsl {
            stdin: child.stdin.take().unwrap(),
            child,
            said,
            heard: Vec::new(),
        }
    }

    /// In one write: what it reads at once is a command if it begins with one.
    fn type_in(&mut self, line: &str) {
        self.stdin
            .write_all(format!("{line}\n").as_bytes())
            .unwrap();
    }

    /// Waits until it has said this.
    fn hears(&mut self, what: &str) -> String {
        loop {
            let heard = String::from_utf8_lossy(&self.heard).into_owned();
            if heard.contains(what) {
                self.heard.clear();
                return heard;
            }
            match self.said.recv_timeout(PATIENCE) {
                Ok(bytes) => self.heard.extend(bytes),
                Err(_) => panic!("no {what:?} in {heard}"),
            }
        }
    }
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A session on a socket.
struct Ours {
    session: Session,
    socket: TcpStream,
    waiting: Vec<u8>,
}

impl Ours {
    fn new(session: Session, socket: TcpStream) -> Ours {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Ours {
            session,
            socket,
            waiting: Vec::new(),
        }
    }

    fn take_in(&mut self) -> Result<(), TlsError> {
        let mut out = Vec::new();
        let received = self.session.receive(&self.waiting, &mut out);
        let _ = self.socket.write_all(&out); // A peer that has gone hears nothing.
        self.waiting.drain(..received?);
        Ok(())
    }

    /// Waits for more, and takes it in; false when nothing more comes.
    fn turn(&mut self) -> Result<bool, TlsError> {
        let mut bytes = [0; 16 * 1024];
        let count = match self.socket.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("{error}"),
        };
        self.waiting.extend_from_slice(&bytes[..count]);
        self.take_in()?;
        Ok(count > 0)
    }

    fn shake_hands(&mut self) {
        self.take_in().unwrap();
        while !self.session.is_established() {
            assert!(self.turn().unwrap(), "it ends in the handshake");
        }
    }

    /// Waits for these bytes.
    fn reads(&mut self, what: &[u8]) {
        while self.session.readable().len() < what.len() {
            assert!(self.turn().unwrap(), "it ends");
        }
        assert_eq!(self.session.readable(), what);
        self.session.consume(what.len());
    }

    fn writes(&mut self, what: &str) {
        let mut out = Vec::new();
        self.session.seal(&[what.as_bytes()], &mut out).unwrap();
        self.socket.write_all(&out).unwrap();
    }
}

/// Some systems have no OpenSSL: nothing is compared there.
fn is_there() -> bool {
    Command::new("openssl").arg("version").output().is_ok()
}

/// All that comes until the peer ends: by an alert, or by the end of its connection.
fn last_words(ours: &mut Ours) -> Result<(), TlsError> {
    while ours.turn()? {}
    Ok(())
}

fn client_of_openssl(certificate: &Certificate, version: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let arguments = ["s_client", "-connect", &address, version];
    let more = ["-servername", "localhost", "-verify_return_error"];
    let arguments = [&arguments[..], &more].concat();
    let mut theirs = OpenSsl::start(&arguments, &certificate.file(), None);
    let session = Session::server(certificate.server()).unwrap();
    let mut ours = Ours::new(session, listener.accept().unwrap().0);
    ours.shake_hands();
    theirs.hears("Verify return code: 0 (ok)");
    theirs.type_in("hello");
    ours.reads(b"hello\n");
    ours.writes("answer\n");
    theirs.hears("answer");
    if version == "-tls1_2" {
        theirs.type_in("R");
        // It breaks off when that is refused.
        let ended = last_words(&mut ours);
        assert!(
            matches!(ended, Ok(()) | Err(TlsError::Alert(_))),
            "{ended:?}"
        );
        theirs.hears("no renegotiation");
        return;
    }
    for command in ["k", "K", "K"] {
        theirs.type_in(command);
        theirs.hears("KEYUPDATE");
        theirs.type_in("again");
        ours.reads(b"again\n");
        ours.writes("another answer\n");
        theirs.hears("another answer");
    }
    theirs.type_in("Q");
    last_words(&mut ours).unwrap();
    assert!(ours.session.is_peer_closed());
}

fn server_of_openssl(certificate: &Certificate, version: &str) {
    let arguments = [
        "s_server",
        "-accept",
        "127.0.0.1:0",
        version,
        "-naccept",
        "1",
    ];
    let key = certificate.key();
    let mut theirs = OpenSsl::start(&arguments, &certificate.file(), Some(&key));
    let said = theirs.hears("ACCEPT 127.0.0.1:");
    let (_, port) = said.split_once("ACCEPT 127.0.0.1:").unwrap();
    let port: u16 = port.trim().parse().unwrap();
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let session = Session::client(certificate.client(), name()).unwrap();
    let mut ours = Ours::new(session, socket);
    ours.shake_hands();
    ours.writes("hello\n");
    theirs.hears("hello");
    theirs.type_in("answer");
    ours.reads(b"answer\n");
    if version == "-tls1_2" {
        theirs.type_in("r");
        let ended = last_words(&mut ours);
        assert!(
            matches!(ended, Ok(()) | Err(TlsError::Alert(_))),
            "{ended:?}"
        );
        theirs.hears("no renegotiation");
        return;
    }
    for command in ["k", "K", "K"] {
        theirs.type_in(command);
        assert!(ours.turn().unwrap(), "the change comes alone");
        theirs.type_in("another answer");
        ours.reads(b"another answer\n");
        ours.writes("again\n");
        theirs.hears("again");
    }
    // It answers an end with its own.
    let mut out = Vec::new();
    ours.session.close(&mut out);
    ours.socket.write_all(&out).unwrap();
    last_words(&mut ours).unwrap();
    assert!(ours.session.is_peer_closed());
}

#[test]
fn a_client_of_openssl_talks_with_our_server() {
    for key in KEYS.iter().filter(|_| is_there()) {
        let certificate = Certificate::new(key, "client");
        for version in ["-tls1_2", "-tls1_3"] {
            client_of_openssl(&certificate, version);
        }
    }
}

#[test]
fn a_server_of_openssl_talks_with_our_client() {
    for key in KEYS.iter().filter(|_| is_there()) {
        let certificate = Certificate::new(key, "server");
        for version in ["-tls1_2", "-tls1_3"] {
            server_of_openssl(&certificate, version);
        }
    }
}
