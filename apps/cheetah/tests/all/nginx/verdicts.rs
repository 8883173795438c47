//! The verdicts of nginx on the same requests, and why ours differ where they do.
//!
//! Runs where nginx is installed, on a port of the loopback interface with a configuration of its
//! own in a temporary folder; elsewhere it says that it did nothing. nginx gets each request on a
//! connection of its own, and what counts is the sequence of status codes until it closes or
//! falls silent.

use crate::common;
use crate::common::nginx;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use common::exchange;
use nginx::{Nginx, differs, same};

type Case = nginx::Case<str>;

const CASES: &[Case] = &[
    same("GET / HTTP/1.1\r\nHost: h\r\n\r\n", &[200]),
    same("GET / HTTP/1.0\r\n\r\n", &[200]),
    same("GET / HTTP/1.1\nHost: h\n\n", &[200]),
    same("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", &[200]),
    same("HEAD /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200]),
    same("GET /dir HTTP/1.1\r\nHost: h\r\n\r\n", &[301]),
    same("GET /bare/ HTTP/1.1\r\nHost: h\r\n\r\n", &[403]),
    same("GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n", &[404]),
    same("GET //dir///./ HTTP/1.1\r\nHost: h\r\n\r\n", &[200]),
    same("GET /dir/../a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200]),
    same("GET /%61.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200]),
    same("GET /dir%2F HTTP/1.1\r\nHost: h\r\n\r\n", &[200]),
    same("GET /.. HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same("GET /../etc/passwd HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same("GET /%2e%2e/etc/passwd HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same("GET /..%2fetc HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same("GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same("GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same("GET /a%2 HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same("GET http://h/a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200]),
    same("GET http://h HTTP/1.1\r\nHost: h\r\n\r\n", &[200]),
    same("GET a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same("GET * HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\n\r\n",
        &[206],
    ),
    same(
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1,-1\r\n\r\n",
        &[206],
    ),
    same(
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=1000-\r\n\r\n",
        &[416],
    ),
    same(
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nRange: lines=0-1\r\n\r\n",
        &[200],
    ),
    same(
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\nIf-Range: \"other\"\r\n\r\n",
        &[200],
    ),
    differs(
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=3-2\r\n\r\n",
        &[200],
        &[416],
        "RFC 9110 §14.2: an invalid ranges-specifier is ignored",
    ),
    differs(
        "OPTIONS /a.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        &[200],
        &[405],
        "nginx does not offer OPTIONS for files",
    ),
    same("GET / HTTP/1.1\r\n\r\n", &[400]),
    same("GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", &[400]),
    same("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", &[400]),
    same("GET / HTTP/1.1\r\nHost: h\r\nA: b\0c\r\n\r\n", &[400]),
    same("GET / HTTP/1.1\r\nHost: h\r\nA : b\r\n\r\n", &[400]),
    same("GET / HTTP/1.1\r\nHost: h\r\nA: b\rc\r\n\r\n", &[400]),
    same(
        "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n folded\r\n\r\n",
        &[400],
    ),
    same("GET / HTTP/2.0\r\nHost: h\r\n\r\n", &[505]),
    same("GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same("GET / HTTX/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(
        "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhelloGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        &[200, 200],
    ),
    same(
        "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n",
        &[400],
    ),
    same(
        "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        &[400],
    ),
    same(
        "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        &[400],
    ),
    same(
        "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        &[400],
    ),
    same(
        "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        &[400],
    ),
    same(
        "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n",
        &[501],
    ),
    same(
        "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        &[501],
    ),
    same(
        "POST /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
        &[405],
    ),
    same(
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:00:00 GMT\r\n\r\n",
        &[304],
    ),
    same(
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\n\r\n",
        &[304],
    ),
    same(
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nIf-Match: \"x\"\r\n\r\n",
        &[412],
    ),
    same(
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nIf-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n",
        &[412],
    ),
    same(
        "GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        &[200, 200],
    ),
    differs(
        "GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
        &[400],
        &[200],
        "RFC 9112 §3 has exactly one space; being lenient is how parsers come to disagree",
    ),
    differs(
        "GET / HTTP/1.1 \r\nHost: h\r\n\r\n",
        &[400],
        &[200],
        "the same, after the version",
    ),
    differs(
        "GET /a.txt#b HTTP/1.1\r\nHost: h\r\n\r\n",
        &[400],
        &[200],
        "RFC 9112 §3.2: a target has no fragment; nginx cuts it off",
    ),
    differs(
        "GET /a.txt?b#c HTTP/1.1\r\nHost: h\r\n\r\n",
        &[400],
        &[200],
        "the same, after a query",
    ),
    differs(
        "GET /\r\n\r\n",
        &[400],
        &[200],
        "HTTP/0.9, which nginx still answers, here without a status line",
    ),
    same("GET / HTTP/1.2\r\nHost: h\r\n\r\n", &[200]),
    differs(
        "GET / HTTP/1.1\r\nHost:\r\n\r\n",
        &[200],
        &[400],
        "RFC 9112 §3.2 has clients send an empty Host when there is no authority",
    ),
    differs(
        "GET / HTTP/1.1\r\nHost: user@h\r\n\r\n",
        &[400],
        &[200],
        "RFC 9110 §7.2: Host is a host and perhaps a port",
    ),
    differs(
        "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        &[411],
        &[200],
        "chunked bodies are not read, as there is nothing here that takes a body",
    ),
    differs(
        "BREW / HTTP/1.1\r\nHost: h\r\n\r\n",
        &[501],
        &[405],
        "RFC 9110 §9.1: 501 for methods that are not known at all",
    ),
    differs(
        "get / HTTP/1.1\r\nHost: h\r\n\r\n",
        &[501],
        &[400],
        "a lower-case method is a valid token, and methods are case-sensitive (RFC 9110 §9.1)",
    ),
    differs(
        "GET / HTTP/1.1\r\nHost: h\r\nExpect: miracles\r\n\r\n",
        &[417],
        &[200],
        "RFC 9110 §10.1.1 MAY; nginx ignores expectations that it does not know",
    ),
];

#[test]
fn nginx_agrees_or_the_difference_is_explained() {
    let Some(nginx) = Nginx::start(prepare) else {
        eprintln!("SKIPPED: nginx_agrees_or_the_difference_is_explained needs nginx");
        return;
    };
    let mut surprises = Vec::new();
    for Case {
        request,
        ours,
        nginx: theirs,
    } in CASES
    {
        assert_eq!(
            exchange(request.as_bytes()).statuses(),
            *ours,
            "{request:?}"
        );
        let (want, why) = theirs.unwrap_or((ours, "the same"));
        assert!(!why.is_empty());
        let got = nginx::statuses(&nginx.answer(request, |answer| nginx::statuses(answer) == want));
        if got != want {
            surprises.push(format!(
                "{request:?}: nginx {got:?}, expected {want:?} ({why})"
            ));
        }
    }
    nginx.assert_none(&surprises);
}

/// The documents of [`common::site`], and a configuration that serves them.
fn prepare(folder: &Path, port: u16) {
    for directory in ["root/dir", "root/bare/deep"] {
        fs::create_dir_all(folder.join(directory)).unwrap();
    }
    let modified = Duration::from_secs(common::MODIFIED_SECS);
    for name in ["index.html", "a.txt", "dir/index.html", "bare/deep/b.txt"] {
        let mut file = fs::File::create(folder.join("root").join(name)).unwrap();
        file.write_all(b"content").unwrap();
        file.set_modified(std::time::UNIX_EPOCH + modified).unwrap();
    }
    let servers = format!("server {{ listen 127.0.0.1:{port}; root root; }}");
    nginx::configure(folder, &servers);
}
