use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::applications::{Address, Application};
use crate::message::request::{FieldStore, parse};

/// Variables by name, of which none is there twice.
fn variables(
    head: &str,
    script: &str,
    info: &str,
    length: Option<u64>,
) -> BTreeMap<String, String> {
    let mut store = FieldStore::new();
    let request = parse(head.as_bytes(), &mut store).unwrap().unwrap();
    let mut parameters = Vec::new();
    pair(&mut parameters, b"APP_ENV", &[b"test"]);
    let application = Application {
        root: b"/srv/www".to_vec(),
        parameters,
        ..Application::at(Address::parse("/run/app").unwrap())
    };
    let asked = Asked {
        application: Arc::new(application),
        script: script.into(),
        info: info.into(),
        is_front: false,
    };
    let ends: Ends = (
        "10.0.0.1:80".parse().unwrap(),
        "10.0.0.2:4711".parse().unwrap(),
    );
    let mut out = Vec::new();
    let is_named = push(
        &mut out,
        &request,
        &About {
            asked: &asked,
            length,
            server_name: (script == "/named").then_some(&b"own.test"[..]),
            user: (script == "/for/a").then_some(&b"a"[..]),
            is_encrypted: false,
            is_early: script == "/early",
            tls: None,
        },
    );
    if !is_named {
        push_address_as_name(&mut out, ends.0.ip());
    }
    push_ends(&mut out, ends);
    let (mut all, mut rest) = (BTreeMap::new(), &out[..]);
    let len = |rest: &mut &[u8]| match rest[0] {
        short @ 0..0x80 => {
            *rest = &rest[1..];
            usize::from(short)
        }
        _ => {
            let (len, behind) = rest.split_first_chunk::<4>().unwrap();
            *rest = behind;
            (u32::from_be_bytes(*len) & 0x7fff_ffff) as usize
        }
    };
    while !rest.is_empty() {
        let (name_len, value_len) = (len(&mut rest), len(&mut rest));
        let (name, behind) = rest.split_at(name_len);
        let (value, behind) = behind.split_at(value_len);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let is_parameter = name == b"APP_ENV";
        assert_ne!(
            tells_of_requests(&text(name)),
            is_parameter,
            "{}",
            text(name)
        );
        assert_eq!(all.insert(text(name), text(value)), None, "twice");
        rest = behind;
    }
    all
}

#[test]
fn a_request_is_variables() {
    let head = "POST /a%20b.php/i?q=1&r=%20 HTTP/1.1\r\nHost: example.org:8080\r\nContent-Type: text/x\r\n\
                Content-Length: 3\r\nCookie: a=1\r\nX-Y: 1\r\ncookie: b=2\r\nx-y: 2\r\nAuthorization: Basic YTpi\r\n\r\n";
    let all = variables(head, "/a b.php", "/i", Some(3));
    for (name, value) in [
        ("APP_ENV", Some("test")),
        ("AUTHORIZATION", None),
        ("CONTENT_LENGTH", Some("3")),
        ("CONTENT_TYPE", Some("text/x")),
        ("DOCUMENT_ROOT", Some("/srv/www")),
        ("DOCUMENT_URI", Some("/a b.php/i")),
        ("GATEWAY_INTERFACE", Some("CGI/1.1")),
        ("REDIRECT_STATUS", Some("200")),
        ("SERVER_SOFTWARE", Some("exos")),
        ("HTTPS", None),
        ("HTTP_AUTHORIZATION", Some("Basic YTpi")),
        ("HTTP_CONTENT_LENGTH", None),
        ("HTTP_COOKIE", Some("a=1; b=2")),
        ("HTTP_HOST", Some("example.org:8080")),
        ("HTTP_X_Y", Some("1, 2")),
        ("PATH_INFO", Some("/i")),
        ("PATH_TRANSLATED", Some("/srv/www/i")),
        ("QUERY_STRING", Some("q=1&r=%20")),
        ("REMOTE_ADDR", Some("10.0.0.2")),
        ("REMOTE_PORT", Some("4711")),
        ("REQUEST_METHOD", Some("POST")),
        ("REQUEST_URI", Some("/a%20b.php/i?q=1&r=%20")),
        ("SCRIPT_FILENAME", Some("/srv/www/a b.php")),
        ("SCRIPT_NAME", Some("/a b.php")),
        ("SERVER_ADDR", Some("10.0.0.1")),
        ("SERVER_NAME", Some("example.org")),
        ("SERVER_PORT", Some("80")),
        ("SERVER_PROTOCOL", Some("HTTP/1.1")),
    ] {
        assert_eq!(all.get(name).map(String::as_str), value, "{name}");
    }
}

#[test]
fn whose_password_it_was_is_said_where_one_is_wanted() {
    let head = "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Basic YTpi\r\n\r\n";
    for (script, user, kind) in [("/for/a", Some("a"), Some("Basic")), ("/x", None, None)] {
        let all = variables(head, script, "", None);
        let said = ["REMOTE_USER", "AUTH_TYPE"].map(|name| all.get(name).map(String::as_str));
        assert_eq!(said, [user, kind]);
    }
}

#[test]
fn the_host_of_a_whole_address_decides_and_hosts_lose_their_port() {
    for (line, host, name, uri) in [
        (
            "GET http://[::1]:80/x HTTP/1.1\r\nHost: other\r\n\r\n",
            "[::1]:80",
            "[::1]",
            "/x",
        ),
        (
            "GET http://a.test?b HTTP/1.1\r\nHost: other\r\n\r\n",
            "a.test",
            "a.test",
            "/?b",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a.test:81\r\n\r\n",
            "a.test:81",
            "a.test",
            "/",
        ),
    ] {
        let all = variables(line, "/x", "", None);
        assert_eq!(
            (
                &*all["HTTP_HOST"],
                &*all["SERVER_NAME"],
                &*all["REQUEST_URI"]
            ),
            (host, name, uri)
        );
    }
    let all = variables("GET / HTTP/1.0\r\n\r\n", "/x", "", None);
    assert_eq!(
        (all.get("HTTP_HOST"), &*all["SERVER_NAME"]),
        (None, "10.0.0.1")
    );
}

#[test]
fn a_site_that_has_a_name_says_it_whatever_the_client_does() {
    let head = "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    for (script, name) in [("/named", "own.test"), ("/x", "evil.test")] {
        let all = variables(head, script, "", None);
        assert_eq!(
            (&*all["SERVER_NAME"], &*all["HTTP_HOST"]),
            (name, "evil.test")
        );
    }
}

/// What a client could set that is somebody else's to say.
#[test]
fn no_field_becomes_a_variable_of_another_meaning() {
    let head = "GET / HTTP/1.1\r\nHost: h\r\nProxy: evil\r\nPROXY: evil\r\nX_Forwarded_For: evil\r\nX.Y: evil\r\n\
                Connection: close\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\nTE: trailers\r\n\r\n";
    let all = variables(head, "/x", "", None);
    let http: Vec<&str> = all
        .keys()
        .filter(|name| name.starts_with("HTTP_"))
        .map(|s| &**s)
        .collect();
    assert_eq!(http, ["HTTP_HOST"]);
    assert!(all.values().all(|value| value != "evil"));
    assert_eq!(all["CONTENT_LENGTH"], "");
}

#[test]
fn an_early_request_says_so_once() {
    let plain = "GET /early HTTP/1.1\r\nHost: a\r\n\r\n";
    let of_proxy = "GET /early HTTP/1.1\r\nHost: a\r\nEarly-Data: 1\r\n\r\n";
    // Nobody takes it away.
    let others = "GET /early HTTP/1.1\r\nHost: a\r\nearly-data: 0\r\nEarly-Data: \r\n\r\n";
    for head in [plain, of_proxy, others] {
        let all = variables(head, "/early", "", None);
        assert_eq!(all["HTTP_EARLY_DATA"], "1");
    }
    assert!(!variables(plain, "/late", "", None).contains_key("HTTP_EARLY_DATA"));
}
