use std::io::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use exos_tls::policy::provider;
use rustls::ServerConfig;

use super::*;

/// An upstream of this name, and the file with its certificate.
fn upstream(name: &str) -> (Session, tempfile::NamedTempFile) {
    let (certificate, key) = exos_tls::self_signed::certificate(&[name.to_owned()]).unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let text = STANDARD.encode(&certificate);
    writeln!(
        file,
        "-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----"
    )
    .unwrap();
    let builder = ServerConfig::builder_with_provider(provider(&[]));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let config = builder.with_no_client_auth();
    let mut config = config.with_single_cert(vec![certificate], key).unwrap();
    config.enable_secret_extraction = true;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    (Session::server(Arc::new(config)).unwrap(), file)
}

/// Has both say what they have to, until they are silent. The bytes go in parts of this length.
fn talk(ours: &mut Secured, theirs: &mut Session, mut to_theirs: Vec<u8>, step: usize) {
    loop {
        let mut to_ours = Vec::new();
        let (mut at, mut end) = (0, 0);
        while at < to_theirs.len() {
            end = (end + step).min(to_theirs.len());
            match theirs.receive(&to_theirs[at..end], &mut to_ours) {
                Ok(taken) => at += taken,
                // It has been told that it is over.
                Err(_) => return,
            }
        }
        to_theirs = Vec::new();
        let (mut at, mut end) = (0, 0);
        while at < to_ours.len() {
            end = (end + step).min(to_ours.len());
            at += ours.receive(&to_ours[at..end], &mut to_theirs);
        }
        if to_theirs.is_empty() {
            return;
        }
    }
}

#[test]
fn what_is_sent_before_the_session_stands_waits_for_it() {
    for step in [1, 100, 100_000] {
        let (mut theirs, file) = upstream("app.test");
        let encryption = Encryption::with("app.test", Some(file.path())).unwrap();
        let (mut ours, mut hello) = Secured::begin(&encryption).unwrap();
        ours.send(b"request", &mut hello);
        assert_eq!((ours.waiting(), ours.stands()), (7, false));
        talk(&mut ours, &mut theirs, hello, step);
        assert!(ours.stands() && ours.waiting() == 0, "{:?}", ours.failure());
        assert_eq!(theirs.readable(), b"request");
        let mut records = Vec::new();
        theirs.seal(&[b"answer"], &mut records).unwrap();
        let mut out = Vec::new();
        assert_eq!(ours.receive(&records, &mut out), records.len());
        assert_eq!(ours.readable(), b"answer");
        ours.consume(6);
        // The connection may end now, but nobody has said so.
        assert!(ours.readable().is_empty() && !ours.is_peer_closed());
        records.clear();
        theirs.close(&mut records);
        ours.receive(&records, &mut out);
        assert!(ours.is_peer_closed() && !ours.has_failed());
    }
}

#[test]
fn who_is_not_whom_it_has_to_be_is_told_apart() {
    let (_, other) = upstream("app.test");
    for (name, is_known, wanted) in [
        (
            "other.test",
            true,
            "name what its certificate names as `tls_name`",
        ),
        (
            "app.test",
            false,
            "no authority that is trusted here has signed its certificate",
        ),
    ] {
        let (mut theirs, file) = upstream("app.test");
        let trusted = if is_known { file.path() } else { other.path() };
        let encryption = Encryption::with(name, Some(trusted)).unwrap();
        let (mut ours, mut hello) = Secured::begin(&encryption).unwrap();
        ours.send(b"secret", &mut hello);
        talk(&mut ours, &mut theirs, hello, 100_000);
        let why = ours.failure().expect("there is no session");
        assert!(why.contains(wanted), "{why}");
        assert!(theirs.readable().is_empty(), "nothing was said to it");
    }
}

#[test]
fn what_speaks_no_tls_is_said_to() {
    let (_, file) = upstream("app.test");
    let encryption = Encryption::with("app.test", Some(file.path())).unwrap();
    let (mut ours, _) = Secured::begin(&encryption).unwrap();
    let said = b"HTTP/1.1 400 Bad Request\r\n\r\n";
    let taken = ours.receive(said, &mut Vec::new());
    assert!(taken <= said.len() && ours.has_failed());
    let why = ours.failure().unwrap();
    assert!(
        why.contains("write http:// if it speaks no TLS there"),
        "{why}"
    );
    // A file that is none is told when the configuration is read.
    let none = Encryption::with("app.test", Some(std::path::Path::new("/nowhere.pem")));
    assert!(none.unwrap_err().contains("/nowhere.pem"));
    assert!(Encryption::with("", Some(file.path())).is_err());
}
