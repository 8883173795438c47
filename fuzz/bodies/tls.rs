//! TLS from outside: what comes to a server in place of a hello, what a peer with a session's keys sends, and certificates.

use std::sync::{Arc, OnceLock};

use exos_tls::keylog::KeyLog;
use exos_tls::observer::{Observer, Seen, Side};
use exos_tls::tickets::accept_early_data;
use exos_tls::{Session, certificate, limits, policy, self_signed};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};
use rustls_pki_types::{CertificateDer, ServerName};

#[path = "tls/forger.rs"]
pub mod forger;

use forger::{DATA, Forger};

/// One server for all inputs, which takes early data of those that have a ticket: it remembers nothing of them.
fn config() -> Arc<ServerConfig> {
    static CONFIG: OnceLock<Arc<ServerConfig>> = OnceLock::new();
    let make = || {
        let (certificate, key) =
            self_signed::certificate(&["localhost".to_owned()]).expect("a name");
        let builder = ServerConfig::builder_with_provider(policy::provider(&[]));
        let builder = builder.with_safe_default_protocol_versions().expect("both");
        let mut config = builder
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("its own key");
        config.enable_secret_extraction = true;
        accept_early_data(&mut config, Arc::default());
        Arc::new(config)
    };
    CONFIG.get_or_init(make).clone()
}

/// What a client sends first, cut into pieces of a length that the first byte says: nobody comes to stand by bytes that were
/// made before our hello, nothing is read, and what is taken is no more than was given.
pub fn hello(data: &[u8]) {
    let Some((&cut, bytes)) = data.split_first() else {
        return;
    };
    let mut session = Session::server(config()).expect("a configuration that works");
    let (mut waiting, mut out) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(usize::from(cut) + 1) {
        waiting.extend_from_slice(piece);
        match session.receive(&waiting, &mut out) {
            Ok(taken) => drop(waiting.drain(..taken)),
            Err(_) => {
                assert!(session.is_over());
                break;
            }
        }
    }
    assert!(!session.is_established() && session.readable().is_empty());
}

/// A certificate, or what is none: only one with both moments has a validity. A public key of RSA is no longer than what it is read in.
pub fn validity(data: &[u8]) {
    if let Some(key) = certificate::rsa_public_key(data) {
        assert!(key.bits <= data.len() as u64 * 8);
    }
    if let Some(holder) = certificate::holder(&CertificateDer::from(data)) {
        for text in [&holder.subject, &holder.issuer, &holder.serial] {
            assert!(text.len() <= limits::NAME_LEN_MAX);
            assert!(
                text.bytes().all(|byte| matches!(byte, b' '..=b'~')),
                "{text:?}"
            );
        }
    }
    if let Some(validity) = certificate::validity(&CertificateDer::from(data)) {
        // Years have four digits.
        let years = -80_000_000_000..300_000_000_000;
        assert!(years.contains(&validity.from) && years.contains(&validity.until));
    }
}

/// Both ends of sessions of a version, with the suite of it that the forger knows.
fn ends(is_13: bool) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    static ENDS: OnceLock<[(Arc<ServerConfig>, Arc<ClientConfig>); 2]> = OnceLock::new();
    let ends = ENDS.get_or_init(|| {
        let (tls12, tls13) = (&rustls::version::TLS12, &rustls::version::TLS13);
        [
            make_ends("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", tls12),
            make_ends("TLS_AES_128_GCM_SHA256", tls13),
        ]
    });
    ends[usize::from(is_13)].clone()
}

fn make_ends(
    suite: &str,
    version: &'static SupportedProtocolVersion,
) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let provider = policy::provider(&[policy::suite(suite).expect("it is known")]);
    let (certificate, key) = self_signed::certificate(&["localhost".to_owned()]).expect("a name");
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("a certificate");
    let server = ServerConfig::builder_with_provider(provider.clone());
    let server = server
        .with_protocol_versions(&[version])
        .expect("a version");
    let server = server.with_no_client_auth();
    let server = server.with_single_cert(vec![certificate], key);
    let mut server = server.expect("its own key");
    server.enable_secret_extraction = true;
    let client = ClientConfig::builder_with_provider(provider);
    let client = client
        .with_protocol_versions(&[version])
        .expect("a version");
    let mut client = client.with_root_certificates(roots).with_no_client_auth();
    client.enable_secret_extraction = true;
    (Arc::new(server), Arc::new(client))
}

/// A session, whose version and end the first byte says, and its peer.
fn session(first: u8) -> (Session, Forger) {
    let (server, client) = ends(first & 1 == 1);
    let name = ServerName::try_from("localhost").expect("a name");
    let works = "a configuration that works";
    let (mut session, theirs) = match first & 2 == 2 {
        true => {
            let theirs = ServerConnection::new(server).expect(works);
            (Session::client(client, name).expect(works), theirs.into())
        }
        false => {
            let theirs = ClientConnection::new(client, name).expect(works);
            (Session::server(server).expect(works), theirs.into())
        }
    };
    let forger = Forger::new(&mut session, theirs);
    (session, forger)
}

/// Records by a peer that has the keys: of any kind, with any content, and bytes that are none. After the first two bytes (which
/// session, how long pieces are) each is its kind, its padding, the length of its content, and that. What is read is a part of what
/// was sent as data, from its beginning on; what leaves is two alerts at most; and nothing is left waiting that is whole.
pub fn records(data: &[u8]) {
    let Some((&[first, cut], mut rest)) = data.split_first_chunk() else {
        return;
    };
    let (mut session, mut forger) = session(first);
    let (mut bytes, mut sent) = (Vec::new(), Vec::new());
    while let Some((&[kind, padding, len], behind)) = rest.split_first_chunk() {
        let (content, behind) = behind.split_at(behind.len().min(usize::from(len)));
        rest = behind;
        match 20 + kind % 8 {
            kind @ 20..24 => {
                bytes.extend(forger.padded(kind, content, usize::from(padding)));
                sent.extend_from_slice(if kind == DATA { content } else { &[] });
            }
            24..26 => {
                // Data, much of it.
                let content = content.repeat(1 + usize::from(padding) / 4);
                bytes.extend(forger.record(DATA, &content));
                sent.extend(content);
            }
            _ => bytes.extend_from_slice(content),
        }
    }
    let (mut waiting, mut read, mut out) = (Vec::new(), Vec::new(), Vec::new());
    for piece in bytes.chunks(1 + usize::from(cut) * 16) {
        waiting.extend_from_slice(piece);
        let received = session.receive(&waiting, &mut out);
        let readable = session.readable().len();
        assert!(readable < limits::UNREAD_LEN + limits::PLAIN_LEN_MAX);
        read.extend_from_slice(session.readable());
        session.consume(readable);
        match received {
            Ok(taken) => drop(waiting.drain(..taken)),
            Err(_) => break,
        }
        assert!(session.is_peer_closed() || waiting.len() < limits::RECORD_LEN_MAX);
    }
    assert!(
        sent.starts_with(&read),
        "in its order, or not at all: {read:?} of {sent:?}"
    );
    assert!(out.len() < 100, "a warning and an alert");
}

/// Lines of a key log up to an empty one, then bytes of both sides in turns, each behind its length: an observer takes no more than
/// it is given, and says of data only where that is.
pub fn observed(data: &[u8]) {
    let end = data.windows(2).position(|pair| pair == b"\n\n");
    let (lines, mut rest) = match end {
        Some(at) => (&data[..at], &data[at + 2..]),
        None => (&b""[..], data),
    };
    let mut log = KeyLog::default();
    let count = log.add_lines(lines);
    assert!(log.len() <= count);
    let mut observer = Observer::default();
    let mut waiting = [Vec::new(), Vec::new()];
    while let Some((&[head, len], behind)) = rest.split_first_chunk() {
        let (side, at) = match head & 1 {
            0 => (Side::Client, 0),
            _ => (Side::Server, 1),
        };
        let len = usize::from(head >> 1) << 8 | usize::from(len);
        let (bytes, behind) = behind.split_at(len.min(behind.len()));
        rest = behind;
        waiting[at].extend_from_slice(bytes);
        let (mut plain, mut seen) = (Vec::new(), Vec::new());
        let Ok(taken) = observer.observe(side, &waiting[at], &log, &mut plain, &mut seen) else {
            return;
        };
        assert!(taken.bytes <= waiting[at].len() && plain.len() <= taken.bytes);
        waiting[at].drain(..taken.bytes);
        for seen in seen {
            if let Seen::Data(range) = seen {
                assert!(range.end <= plain.len());
            }
        }
    }
}
