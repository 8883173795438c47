use std::sync::Arc;

use super::super::setting::{SetField, Value};
use super::*;
use crate::applications::Application;
use crate::message::Version;
use crate::message::request::{FieldStore, parse};

/// The head that an upstream gets for one of a client's, for a rule about `/api`.
fn head_with(text: &str, change: impl FnOnce(&mut Proxy)) -> String {
    head_when(text, false, change)
}

fn head_when(text: &str, is_early: bool, change: impl FnOnce(&mut Proxy)) -> String {
    let mut store = FieldStore::new();
    let request = parse(text.as_bytes(), &mut store).unwrap().unwrap();
    let to = Address::Http(Place::Tcp("10.0.0.5:8080".parse().unwrap()));
    let mut proxy = Proxy::default();
    change(&mut proxy);
    let asked = Asked {
        application: Arc::new(Application::at(to.clone())),
        script: b"/api".to_vec(),
        info: b"/a b".to_vec(),
        is_front: false,
    };
    let length = match request.body {
        Body::Length(length) => Some(length).filter(|length| *length > 0),
        _ => Some(5),
    };
    let about = About {
        asked: &asked,
        proxy: &proxy,
        to: &to,
        peer: "192.0.2.7".parse().unwrap(),
        length,
        is_chunked: false,
        is_encrypted: false,
        is_early,
        tls: None,
        keeps: true,
        websocket_key: None,
        validators: None,
    };
    let mut out = Vec::new();
    push(&mut out, &request, &about);
    // What is sent is a request that we would understand ourselves.
    let mut store = FieldStore::new();
    let again = parse(&out, &mut store).unwrap().expect("a whole head");
    assert_eq!(
        (again.head_len, again.version),
        (out.len(), Version::Http11)
    );
    assert_eq!(again.body, Body::Length(length.unwrap_or(0)));
    String::from_utf8(out).unwrap()
}

fn head(text: &str) -> String {
    head_with(text, |_| {})
}

const TOLD: &str = "Forwarded: for=192.0.2.7;host=\"a.test\";proto=http\r\nX-Forwarded-For: 192.0.2.7\r\n\
                    X-Forwarded-Proto: http\r\nX-Forwarded-Host: a.test\r\nVia: 1.1 exos\r\n";

#[test]
fn a_request_is_written_again() {
    let text = "GET /api/a%20b?c=d%2F HTTP/1.1\r\nhost: a.test\r\nAccept: x\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n\
                Keep-Alive: 5\r\nTE: trailers\r\nProxy-Connection: y\r\nExpect: 100-continue\r\nX_Forwarded_For: 9.9.9.9\r\n\
                X-Forwarded-For: 9.9.9.9\r\nX-Real-IP: 9.9.9.9\r\nVia: 1.0 other\r\nCookie: a\r\n\r\n";
    assert_eq!(
        head(text),
        format!(
            "GET /api/a%20b?c=d%2F HTTP/1.1\r\nHost: a.test\r\nConnection: TE\r\nTE: trailers\r\nAccept: x\r\nVia: 1.0 other\r\nCookie: a\r\n{TOLD}\r\n"
        )
    );
}

#[test]
fn a_target_is_kept_or_its_beginning_replaced() {
    let line = |target: &str, base: Option<&str>| {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let head = head_with(&text, |proxy| proxy.base = base.map(str::to_owned));
        head.lines().next().unwrap().to_owned()
    };
    for (target, base, wanted) in [
        ("/api/a%20b?q", None, "/api/a%20b?q"),
        ("http://a.test/api/x", None, "/api/x"),
        ("http://a.test", None, "/"),
        ("http://a.test?q", None, "/?q"),
        ("/api/./a%20b?q%20", Some(""), "/a%20b?q%20"),
        ("/api//a%20b", Some("/base"), "/base/a%20b"),
    ] {
        let wanted = format!("GET {wanted} HTTP/1.1");
        assert_eq!(line(target, base), wanted, "{target}");
    }
}

/// A path that an upstream could take for another one is sent as it was judged, unless it is to be raw.
#[test]
fn a_path_is_sent_that_was_judged() {
    let line = |target: &str, raw: bool| {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let head = head_with(&text, |proxy| proxy.raw = raw);
        head.lines().next().unwrap().to_owned()
    };
    for target in [
        "/inner/../api/a%20b?q",
        "/inner/%2e%2E/api/a%20b?q",
        "/inner/.%2e/api/a%20b?q",
        "//api/a%20b?q",
        "/api//a%20b?q",
        "/api/./a%20b?q",
        "/api/x/..?q",
        "/api%2fa%20b?q",
        "/api/%5Ca%20b?q",
        "/inner/..;/api/a%20b?q",
        "/api/.;x=y/a%20b?q",
    ] {
        assert_eq!(line(target, false), "GET /api/a%20b?q HTTP/1.1", "{target}");
        assert_eq!(line(target, true), format!("GET {target} HTTP/1.1"));
    }
    for target in [
        "/api/a%20b?../x//%2f",
        "/api/",
        "/api/%61;b/..a/.b/c..?",
        "/api/%252e%252e/x",
    ] {
        assert_eq!(line(target, false), format!("GET {target} HTTP/1.1"));
    }
    assert_eq!(
        encode_alone(b"/a;b/..;/c", Some(b"d;")),
        "/a%3Bb/..%3B/c?d;"
    );
}

#[test]
fn the_host_is_the_clients_the_upstreams_or_another() {
    for (host, wanted) in [
        (HostField::Client, "Host: a.test\r\n"),
        (HostField::Upstream, "Host: 10.0.0.5:8080\r\n"),
        (HostField::Named("b.test".to_owned()), "Host: b.test\r\n"),
    ] {
        let text = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
        let head = head_with(text, |proxy| proxy.host = host);
        assert!(head.contains(wanted), "{head}");
        assert!(head.contains("X-Forwarded-Host: a.test\r\n"), "{head}");
        assert_eq!(head.matches("\r\nHost:").count(), 1);
    }
    // A whole address as target comes before the field (RFC 9112 §3.2.2).
    let absolute = head("GET http://b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert!(absolute.contains("\r\nHost: b.test\r\n"), "{absolute}");
    let old = head("GET / HTTP/1.0\r\n\r\n");
    assert!(old.contains("\r\nHost: 10.0.0.5:8080\r\n"), "{old}");
    assert!(old.contains("\r\nVia: 1.0 exos\r\n"), "{old}");
}

/// However the client says it, an upstream is told the length once.
#[test]
fn a_body_has_a_length() {
    for (method, framing, wanted) in [
        ("POST", "Content-Length: 5\r\n", Some("5")),
        ("POST", "Transfer-Encoding: chunked\r\n", Some("5")),
        ("POST", "", Some("0")),
        ("GET", "", None),
        ("DELETE", "", None),
        ("DELETE", "Content-Length: 5\r\n", Some("5")),
    ] {
        let head = head(&format!("{method} / HTTP/1.1\r\nHost: h\r\n{framing}\r\n"));
        let lengths: Vec<&str> = head
            .lines()
            .filter_map(|line| line.strip_prefix("Content-Length: "))
            .collect();
        assert_eq!(lengths, wanted.into_iter().collect::<Vec<_>>(), "{head}");
        assert!(!head.contains("Transfer-Encoding"), "{head}");
    }
}

/// RFC 9110 §7.8: one who upgrades names it in Connection, too; HTTP/2 would carry requests that nobody has judged.
#[test]
fn another_protocol_is_asked_for() {
    let ask = |fields: &str| head(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    let both =
        ask("Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n");
    assert!(
        both.contains("\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"),
        "{both}"
    );
    assert!(both.contains("\r\nSec-WebSocket-Key: x\r\n"), "{both}");
    for fields in [
        "Upgrade: websocket\r\n",
        "Connection: upgrade\r\n",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n",
        "Connection: Upgrade\r\nUpgrade: TLS/1.0, HTTP/2.0\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n",
    ] {
        let head = ask(fields);
        assert!(
            !head.contains("Upgrade") && !head.contains("Connection"),
            "{head}"
        );
        assert!(!head.contains("HTTP2"), "{head}");
    }
    let some = ask("Connection: Upgrade\r\nUpgrade: h2c, other/1\r\n");
    assert!(some.contains("\r\nUpgrade: other/1\r\n"), "{some}");
    let text = "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let none = head_with(text, |proxy| proxy.upgrades = false);
    assert!(!none.contains("Upgrade"), "{none}");
}

/// A proxy that is trusted says for whom it asks; fields of others that say so are gone.
#[test]
fn claims_are_believed_of_proxies_that_are_trusted() {
    let text = "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Port: 1\r\nX-Real-IP: 9.9.9.9\r\n\r\n";
    let plain = head(text);
    assert!(
        !plain.contains("9.9.9.9") && !plain.contains("Port"),
        "{plain}"
    );
    let trusted = head_with(text, |proxy| {
        proxy.trusted = vec!["192.0.2.0/24".parse().unwrap()];
    });
    assert!(
        trusted.contains("X-Forwarded-For: 9.9.9.9, 192.0.2.7\r\n"),
        "{trusted}"
    );
    assert!(trusted.contains("X-Real-IP: 9.9.9.9\r\n"), "{trusted}");
    assert!(trusted.contains("X-Forwarded-Port: 1\r\n"), "{trusted}");
}

#[test]
fn a_request_says_how_often_it_may_be_passed_on() {
    for (method, said, wanted) in [
        ("OPTIONS", "3", Some("2")),
        ("OPTIONS", "x", None),
        ("GET", "3", None),
    ] {
        let text = format!("{method} / HTTP/1.1\r\nHost: h\r\nMax-Forwards: {said}\r\n\r\n");
        let head = head(&text);
        let left = head
            .lines()
            .find_map(|line| line.strip_prefix("Max-Forwards: "));
        assert_eq!(left, wanted, "{head}");
    }
}

/// In a field of any rule that tells of TLS no client says anything, whatever its spelling, and though it is trusted; such names are free.
#[test]
fn no_client_speaks_in_a_field_that_is_told() {
    let text = "GET /api HTTP/1.1\r\nHost: a.test\r\nX-Subject: CN=a\r\nx-SUBJECT: CN=b\r\nX-Other: CN=c\r\nX-Kept: d\r\n\r\n";
    let head = head_with(text, |proxy| {
        proxy.trusted = vec!["192.0.2.0/24".parse().unwrap()];
        proxy.tls_fields = vec![("X-Subject".to_owned(), crate::secure::Fact::ClientSubject)];
        proxy.told = vec!["x-other".to_owned()];
    });
    assert!(!head.contains("CN="), "{head}");
    assert!(head.contains("X-Kept: d\r\n"), "{head}");
    for name in ["X-Subject", "X-TLS-Version", "ssl-client"] {
        assert!(is_free(name), "{name}");
    }
    for name in [
        "",
        "Host",
        "content-length",
        "Via",
        "X-Forwarded-For",
        "X_A",
        "Upgrade",
        "If-None-Match",
        "Sec-WebSocket-Key",
    ] {
        assert!(!is_free(name), "{name}");
    }
}

fn set(name: &str, values: &[&str]) -> SetField {
    SetField {
        name: name.to_owned(),
        values: values.iter().map(|it| Value::parse(it).unwrap()).collect(),
    }
}

/// What a rule sets is there once, whatever the client says and whether it is trusted; a field without values is taken away.
#[test]
fn a_rule_sets_fields_in_the_place_of_the_clients() {
    let text = "GET /api HTTP/1.1\r\nHost: a.test:81\r\nConnection: X-Real-IP\r\nX-Real-IP: 9.9.9.9\r\nx-real-ip: 8.8.8.8\r\n\
                authorization: Basic x\r\nCookie: a\r\ncookie: b\r\nX-Kept: c\r\n\r\n";
    for is_trusted in [false, true] {
        let head = head_with(text, |proxy| {
            let trusted = is_trusted.then(|| "192.0.2.0/24".parse().unwrap());
            proxy.trusted = trusted.into_iter().collect();
            proxy.set = vec![
                set("X-Real-IP", &["{client_address}"]),
                set("Authorization", &["Basic YTpi"]),
                set("Cookie", &[]),
                set("X-Of", &["{scheme}://{host}", "{port}"]),
            ];
        });
        let fields: Vec<&str> = head
            .lines()
            .skip(1)
            .filter(|it| !it.contains("orwarded"))
            .collect();
        assert_eq!(
            fields,
            [
                "Host: a.test:81",
                "X-Kept: c",
                "X-Real-IP: 192.0.2.7",
                "Authorization: Basic YTpi",
                "X-Of: http://a.test",
                "X-Of: 81",
                "Via: 1.1 exos",
                ""
            ]
        );
    }
    let proxy = Proxy {
        set: vec![set("X-Own", &[])],
        ..Proxy::default()
    };
    assert!(!goes_on_behind("x-own", &proxy) && goes_on_behind("X-Other", &proxy));
}

/// What came before the handshake was over may have been sent by somebody else, and the upstream hears so: from us, or from a proxy before
/// us (RFC 8470 §5.1).
#[test]
fn an_early_request_says_so_once() {
    let said = |text: &str, is_early| {
        let head = head_when(text, is_early, |_| {});
        let lines = head.lines().map(str::to_ascii_lowercase);
        let named: Vec<String> = lines.filter(|it| it.starts_with("early-data:")).collect();
        named
    };
    let plain = "GET /api HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let of_proxy = "GET /api HTTP/1.1\r\nHost: a.test\r\nearly-data: 1\r\n\r\n";
    assert!(said(plain, false).is_empty());
    for (text, is_early) in [(plain, true), (of_proxy, true), (of_proxy, false)] {
        assert_eq!(said(text, is_early), ["early-data: 1"]);
    }
}
