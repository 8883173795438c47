//! Requests made to be understood differently by two parsers, of which the second may then see another request than the
//! first (request smuggling): lengths and codings in conflict, folded and odd lines, odd targets and hosts, pipelines.
//!
//! Each request is answered the same however it is cut. Where nginx is installed its answers are compared; where they
//! differ, the reason is here. What follows a request on its connection is the probe: a parser that lost its place answers
//! it too often, too seldom, or with 400.

use crate::common;
use crate::common::nginx;

use std::fs;
use std::path::Path;

use common::{exchange, exchange_in_pieces};
use nginx::{Nginx, differs, same};

type Case = nginx::Case<[u8]>;

const LENGTHS: &[Case] = &[
    same(b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\nhelloGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5 \r\n\r\nhelloGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200, 200]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 05\r\n\r\nhelloGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200, 200]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x5\r\n\r\nhelloGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5, 5\r\n\r\nhelloGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5,6\r\n\r\nhelloGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551616\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\ncontent-length: 5\r\nCONTENT-LENGTH: 5\r\n\r\nhelloGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nContent_Length: 5\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200, 200]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length : 5\r\n\r\nhelloGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\n Content-Length: 5\r\n\r\nhelloGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\n: 5\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
];

const CODINGS: &[Case] = &[
    same(b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[501]),
    differs(b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[411], &[501], "RFC 9110 §5.5: white space before a value is not part of it, tabs too"),
    differs(b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[501], &[400], "either way the request is refused and the connection ends"),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[501]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \"chunked\"\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[501]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nTransfer_Encoding: chunked\r\n\r\n0\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200, 400]),
    differs(b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[411], &[400], "chunked bodies are not read, so what follows is never looked at"),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nTrailer: x\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200, 200]),
];

const LINES: &[Case] = &[
    same(b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\tfolded\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nA: b\n folded\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\n Host: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\n\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\rHost: h\r\r", &[400]),
    same(b"GET /\r HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    differs(b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\r\n\r\n", &[400], &[200], "RFC 9112 §2.2: a bare CR is not taken for white space"),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nA: b\n\r\n", &[200]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\n", &[200]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nA: b\n\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200, 200]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\n\rA: b\r\n\r\n", &[400]),
    differs(b"GET / HTTP/1.1\r\nHost: h\r\nA: \x01\r\n\r\n", &[400], &[200], "RFC 9110 §5.5: control characters in a value are invalid"),
    differs(b"GET / HTTP/1.1\r\nHost: h\r\nA: \x7f\r\n\r\n", &[400], &[200], "RFC 9110 §5.5: so is DEL"),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nA: \x80\xff\r\n\r\n", &[200]),
    differs(b"GET / HTTP/1.1\r\nHost: h\r\nA\x80: b\r\n\r\n", &[400], &[200], "RFC 9110 §5.1: a name is a token; nginx ignores fields with other names"),
    differs(b"GET / HTTP/1.1\r\nHost: h\r\nA(: b\r\n\r\n", &[400], &[200], "the same"),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nA b: c\r\n\r\n", &[400]),
    differs(b"GET / HTTP/1.1\r\nHost: h\r\nnonsense\r\n\r\n", &[400], &[200], "RFC 9112 §5: a field has a colon; nginx ignores the line"),
];

const REQUEST_LINES: &[Case] = &[
    same(b"GET\t/\tHTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET /\tHTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b" GET / HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\r\nHost: h\r\n\r\n", &[400]),
    differs(
        b"GET / HTTP/1.01\r\nHost: h\r\n\r\n",
        &[400],
        &[200],
        "RFC 9112 §2.3: a version has one digit on each side of the point",
    ),
    same(b"GET / HTTP/01.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / http/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\0\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/3.0\r\nHost: h\r\n\r\n", &[505]),
    differs(
        b"GET / HTTP/0.9\r\nHost: h\r\n\r\n",
        &[505],
        &[400],
        "a version that we do not speak; RFC 9110 §15.6.6",
    ),
    same(b"G\0T / HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"G@T / HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    differs(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[505],
        &[400],
        "the preface of HTTP/2, refused by its version",
    ),
    differs(
        b"CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n",
        &[405],
        &[400],
        "a known method that is not offered, whatever its target",
    ),
    same(b"TRACE / HTTP/1.1\r\nHost: h\r\n\r\n", &[405]),
    differs(
        b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
        &[200],
        &[400],
        "RFC 9110 §9.3.7 has `*` for the whole server",
    ),
];

const TARGETS: &[Case] = &[
    same(
        b"GET http://h:80/a.txt HTTP/1.1\r\nHost: other\r\n\r\n",
        &[200],
    ),
    same(b"GET HTTP://h/a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200]),
    same(b"GET https://h/a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200]),
    differs(
        b"GET ftp://h/a.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        &[400],
        &[200],
        "RFC 9112 §3.2.2: we are no proxy for ftp",
    ),
    same(b"GET http:///a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET http://u@h/a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET http://h:x/a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(
        b"GET http://[::1]/a.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        &[200],
    ),
    same(b"GET http://h?q HTTP/1.1\r\nHost: h\r\n\r\n", &[200]),
    same(b"GET h:80 HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET //h/a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[404]),
    same(b"GET /\\a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[404]),
    same(b"GET /a.txt\0 HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET /a.txt%00 HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET /a.txt\x7f HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    differs(
        b"GET /\xff HTTP/1.1\r\nHost: h\r\n\r\n",
        &[400],
        &[404],
        "RFC 3986 §2: a target is ASCII; here what is no UTF-8 either is refused",
    ),
    same(
        b"GET /%c0%ae%c0%ae/a.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        &[404],
    ),
    same(b"GET /a.txt%20 HTTP/1.1\r\nHost: h\r\n\r\n", &[404]),
    same(b"GET /./dir/..;/a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[404]),
    same(
        b"GET /dir/%2e%2e%2fa.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        &[200],
    ),
    same(b"GET /%252e%252e/a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[404]),
    same(b"GET ?q HTTP/1.1\r\nHost: h\r\n\r\n", &[400]),
    same(b"GET /?q=%zz HTTP/1.1\r\nHost: h\r\n\r\n", &[200]),
    same(b"GET /a.txt/ HTTP/1.1\r\nHost: h\r\n\r\n", &[404]),
    same(b"GET /a.txt/.. HTTP/1.1\r\nHost: h\r\n\r\n", &[200]),
];

const HOSTS: &[Case] = &[
    same(b"GET / HTTP/1.1\r\nHost: h, h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h h\r\n\r\n", &[400]),
    differs(
        b"GET / HTTP/1.1\r\nHost: h:x\r\n\r\n",
        &[400],
        &[200],
        "RFC 9110 §7.2: a port is a number",
    ),
    differs(
        b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
        &[400],
        &[200],
        "RFC 3986 §3.2.2: an address in brackets ends with one",
    ),
    same(b"GET / HTTP/1.1\r\nHost: h\0\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nhost: h\r\n\r\n", &[400]),
    same(b"GET / HTTP/1.0\r\nHost: h\r\nHost: i\r\n\r\n", &[400]),
];

const PIPELINES: &[Case] = &[
    same(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200, 200, 200]),
    same(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200, 200]),
    differs(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n\r\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200, 400], &[200, 200], "RFC 9112 §2.2 has CRLF before a request ignored, not a bare CR"),
    same(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\ngarbage\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200, 400]),
    same(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.0\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200, 200]),
    same(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200, 200]),
    same(b"POST /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhelloGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[405, 200]),
    same(b"HEAD / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhelloGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200, 200]),
    differs(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nConnection: keep-alive\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200], &[200, 200], "RFC 9112 §9.3: close decides wherever it stands; nginx takes the last field"),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, close\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200]),
    same(b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200, 200]),
    differs(b"GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhelloGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", &[200], &[100, 200, 200], "the final answer at once, and then the end: the client may or may not send the body"),
];

fn cases() -> impl Iterator<Item = &'static Case> {
    let groups = [
        LENGTHS,
        CODINGS,
        LINES,
        REQUEST_LINES,
        TARGETS,
        HOSTS,
        PIPELINES,
    ];
    groups.into_iter().flatten()
}

#[test]
fn each_request_is_understood_in_one_way_however_it_is_cut() {
    for Case { request, ours, .. } in cases() {
        let whole = exchange(request);
        assert_eq!(whole.statuses(), *ours, "{}", request.escape_ascii());
        for at in 0..request.len() {
            let (one, two) = request.split_at(at);
            let cut = exchange_in_pieces(&[one, two]);
            assert_eq!(cut, whole, "{} cut at {at}", request.escape_ascii());
        }
        let bytes: Vec<&[u8]> = request.chunks(1).collect();
        assert_eq!(
            exchange_in_pieces(&bytes),
            whole,
            "{}",
            request.escape_ascii()
        );
    }
}

/// A proxy in front that understands requests as nginx does never has us see a request that it did not see.
#[test]
fn nginx_sees_the_same_requests_or_the_difference_is_explained() {
    let Some(server) = Nginx::start(prepare) else {
        eprintln!("nginx is not installed: nothing compared");
        return;
    };
    let mut surprises = Vec::new();
    for case in cases() {
        let (want, why) = case.nginx.unwrap_or((case.ours, "the same"));
        let answer = server.answer(case.request, |answer| nginx::statuses(answer) == want);
        let got = nginx::statuses(&answer);
        if got != want {
            let request = case.request.escape_ascii();
            surprises.push(format!(
                "{request}: nginx {got:?}, expected {want:?} ({why})"
            ));
        }
        let answers = (case.ours.len(), want.len());
        assert!(answers.0 <= answers.1, "{}", case.request.escape_ascii());
    }
    assert!(
        surprises.is_empty(),
        "{}\n{}",
        server.version,
        surprises.join("\n")
    );
}

fn prepare(folder: &Path, port: u16) {
    fs::create_dir_all(folder.join("root/dir")).unwrap();
    for name in ["index.html", "a.txt", "dir/index.html"] {
        fs::write(folder.join("root").join(name), "content").unwrap();
    }
    let servers = format!("server {{ listen 127.0.0.1:{port}; root root; }}");
    nginx::configure(folder, &servers);
}
