use std::sync::Arc;

use exos_tls::client::Trust;
use exos_tls::policy::provider;
use rustls::ServerConfig;

use super::*;
use crate::acme::calls::proxy::Proxy;

/// An authority's end of a session.
fn authority(name: &str) -> Session {
    let (certificate, key) = exos_tls::self_signed::certificate(&[name.to_owned()]).unwrap();
    let builder = ServerConfig::builder_with_provider(provider(&[]));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let config = builder.with_no_client_auth();
    let mut config = config.with_single_cert(vec![certificate], key).unwrap();
    config.enable_secret_extraction = true;
    Session::server(Arc::new(config)).unwrap()
}

fn call(trust: &Trust, proxy: Option<&str>) -> Call {
    let proxy = proxy.map(|text| Arc::new(Proxy::parse(text).unwrap()));
    Call {
        proxy,
        ..super::super::tests::call(trust)
    }
}

/// Has both talk until the request has come, and then the authority say this: all that it says goes in parts of this length.
fn talk(
    exchange: &mut Exchange,
    theirs: &mut Session,
    mut to_theirs: Vec<u8>,
    answer: &[u8],
    step: usize,
) -> Result<(), CallError> {
    let (mut has_answered, mut unread) = (false, Vec::new());
    loop {
        let mut to_ours = Vec::new();
        let taken = theirs.receive(&to_theirs, &mut to_ours);
        assert_eq!(taken.unwrap_or(to_theirs.len()), to_theirs.len());
        to_theirs.clear();
        if !has_answered && theirs.readable() == b"GET / HTTP/1.1\r\n\r\n" {
            has_answered = true;
            theirs.seal(&[answer], &mut to_ours).unwrap();
        }
        if to_ours.is_empty() {
            return Ok(());
        }
        for part in to_ours.chunks(step) {
            let is_early = !exchange.is_whole() && exchange.take_answer().is_some();
            assert!(!is_early, "it is not there yet");
            unread.extend_from_slice(part);
            let taken = exchange.receive(&unread, &mut to_theirs)?;
            unread.drain(..taken);
        }
    }
}

const ANSWER: &[u8] =
    b"HTTP/1.1 201 Created\r\nReplay-Nonce: n\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";

#[test]
fn an_answer_comes_however_it_is_cut() {
    for step in [1, 7, 100_000] {
        let mut theirs = authority("ca.test");
        let mut out = Vec::new();
        let mut exchange = Exchange::begin(call(&Trust::Anybody, None), &mut out).unwrap();
        talk(&mut exchange, &mut theirs, out, ANSWER, step).unwrap();
        assert!(exchange.is_whole() && exchange.end("has ended").is_ok());
        let Answered { head, body } = exchange.take_answer().unwrap();
        assert_eq!((head.code, &*body), (201, &b"abc"[..]));
        assert_eq!(head.fields, b"Replay-Nonce: n\r\n");
    }
}

#[test]
fn what_is_cut_short_or_too_long_is_no_answer() {
    let huge = vec![b'x'; ACME_ANSWER_LEN_MAX as usize + 1];
    let endless = [&b"HTTP/1.1 200 OK\r\nX: "[..], &huge].concat();
    let huge = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &huge].concat();
    for (answer, wanted) in [
        (&ANSWER[..ANSWER.len() - 1], "before the answer was whole"),
        (b"HTTP/1.1 200 OK\r\n\r\nabc", "before the answer was whole"),
        (b"SSH-2.0\r\n", "does not begin with a status line"),
        (&huge, "its answer is longer than"),
        (&endless, "the header of its answer is longer than"),
    ] {
        let mut theirs = authority("ca.test");
        let mut out = Vec::new();
        let mut exchange = Exchange::begin(call(&Trust::Anybody, None), &mut out).unwrap();
        let made = talk(&mut exchange, &mut theirs, out, answer, 20_000);
        let error = made.and_then(|()| exchange.end("has ended")).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
        assert!(exchange.take_answer().is_none());
    }
    // The end inside the session is an end.
    let mut theirs = authority("ca.test");
    let mut out = Vec::new();
    let mut exchange = Exchange::begin(call(&Trust::Anybody, None), &mut out).unwrap();
    talk(
        &mut exchange,
        &mut theirs,
        out,
        b"HTTP/1.1 200 OK\r\n\r\nabc",
        20_000,
    )
    .unwrap();
    let mut records = Vec::new();
    theirs.close(&mut records);
    exchange.receive(&records, &mut Vec::new()).unwrap();
    assert_eq!(exchange.take_answer().unwrap().body, b"abc");
}

#[test]
fn nothing_is_said_to_who_is_not_trusted() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (other, _) = exos_tls::self_signed::certificate(&["ca.test".to_owned()]).unwrap();
    use base64::Engine as _;
    let text = base64::prelude::BASE64_STANDARD.encode(&other);
    let pem = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
    std::fs::write(file.path(), pem).unwrap();
    let trust = Trust::File(file.path().to_owned());
    let mut theirs = authority("ca.test");
    let mut out = Vec::new();
    let mut exchange = Exchange::begin(call(&trust, None), &mut out).unwrap();
    let error = talk(&mut exchange, &mut theirs, out, ANSWER, 100_000).unwrap_err();
    assert!(
        error.to_string().starts_with("no TLS with ca.test"),
        "{error}"
    );
    assert!(matches!(error, CallError::Failed(_)), "it was reached");
    assert!(theirs.readable().is_empty());
}

#[test]
fn a_proxy_leads_there_or_says_why_not() {
    for step in [1, 100_000] {
        let mut out = Vec::new();
        let call = call(&Trust::Anybody, Some("http://proxy.test:3128"));
        let mut exchange = Exchange::begin(call, &mut out).unwrap();
        assert_eq!(
            out,
            b"CONNECT ca.test:443 HTTP/1.1\r\nHost: ca.test:443\r\n\r\n"
        );
        let mut hello = Vec::new();
        for part in b"HTTP/1.1 200 Established\r\nVia: x\r\n\r\n".chunks(step) {
            assert!(hello.is_empty(), "not before it leads there");
            assert_eq!(exchange.receive(part, &mut hello).unwrap(), part.len());
        }
        let mut theirs = authority("ca.test");
        talk(&mut exchange, &mut theirs, hello, ANSWER, step).unwrap();
        assert_eq!(exchange.take_answer().unwrap().body, b"abc");
    }
    let call = call(&Trust::Anybody, Some("proxy.test"));
    let mut exchange = Exchange::begin(call, &mut Vec::new()).unwrap();
    let refused = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n";
    let error = exchange.receive(refused, &mut Vec::new()).unwrap_err();
    let wanted = "the proxy proxy.test (HTTPS_PROXY) does not lead to ca.test: it answers 407";
    assert!(error.to_string().starts_with(wanted), "{error}");
}
