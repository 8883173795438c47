//! Requests and the responses they get, as tables; each request also cut in two at every byte.

mod common;

use common::{Client, NOW_SECS, exchange, exchange_in_pieces, server};
use exos_cheetah::limits::{BODY_SKIP_LEN_MAX, FIELDS_MAX, HEAD_LEN_MAX, REQUEST_LINE_LEN_MAX};
use exos_cheetah::site::{Description, Document};
use exos_cheetah::{Server, ServerConnection, Status};

/// What comes of a single request.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum After {
    /// The connection goes on.
    Open,
    /// The connection closes.
    Closed,
}
use After::{Closed, Open};

/// Sends one request and checks status, ending, and that every way to cut it gives the same.
fn check(request: &str, status: u16, after: After) -> String {
    let whole = exchange(request.as_bytes());
    assert_eq!(whole.statuses(), [status], "{request:?}");
    assert_eq!(
        (whole.closed, whole.left),
        (after == Closed, 0),
        "{request:?}"
    );
    let says_close = whole.text().contains("\r\nConnection: close\r\n");
    assert_eq!(says_close, whole.closed, "{request:?}: {}", whole.text());
    if request.len() < 2000 {
        for at in 0..=request.len() {
            let (one, two) = request.as_bytes().split_at(at);
            assert_eq!(
                exchange_in_pieces(&[one, two]),
                whole,
                "{request:?} cut at {at}"
            );
        }
    }
    let bytes: Vec<&[u8]> = request.as_bytes().chunks(1).collect();
    assert_eq!(
        exchange_in_pieces(&bytes),
        whole,
        "{request:?} byte by byte"
    );
    whole.text()
}

/// A GET over HTTP/1.1 with more fields.
fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n")
}

const TAG_OF_A: &str = "\"TAG\"";

/// The response to a plain GET, to the letter.
#[test]
fn a_response_is_complete() {
    let text = check(&get("/a.txt", ""), 200, Open);
    let tag = tag_of("/a.txt");
    assert_eq!(
        text,
        format!(
            "HTTP/1.1 200 OK\r\n\
             Server: exos\r\n\
             Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Content-Type: text/plain; charset=utf-8\r\n\
             Content-Length: 6\r\n\
             Accept-Ranges: bytes\r\n\
             ETag: {tag}\r\n\
             Last-Modified: Sun, 06 Nov 1994 08:00:00 GMT\r\n\
             \r\n\
             text a"
        )
    );
}

fn tag_of(target: &str) -> String {
    let text = exchange(get(target, "").as_bytes()).text();
    let (_, rest) = text.split_once("ETag: ").unwrap();
    rest.split_once("\r\n").unwrap().0.into()
}

#[test]
fn head_has_the_fields_of_get_and_no_content() {
    for target in ["/a.txt", "/", "/nothing", "/dir", "/secret"] {
        let get = exchange(get(target, "").as_bytes()).text();
        let head = exchange(format!("HEAD {target} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).text();
        assert_eq!(head, get[..get.find("\r\n\r\n").unwrap() + 4], "{target}");
    }
}

#[test]
fn targets_lead_where_they_should() {
    for (target, status, content) in [
        ("/", 200, "<p>start"),
        ("/?query", 200, "<p>start"),
        ("/index.html", 200, "<p>start"),
        ("/a.txt", 200, "text a"),
        ("/empty", 200, ""),
        ("/dir/", 200, "<p>dir"),
        ("/dir//", 200, "<p>dir"),
        ("/dir/.", 200, "<p>dir"),
        ("/dir/../dir/", 200, "<p>dir"),
        ("/dir/with%20space.txt", 200, "space"),
        ("/dir/100%25.txt", 200, "percent"),
        ("/%61%2etxt", 200, "text a"),
        ("/what%3F.txt", 200, "question"),
        ("http://other/a.txt", 200, "text a"),
        ("http://other", 200, "<p>start"),
        ("/bare/../a.txt", 200, "text a"),
    ] {
        let text = check(&get(target, ""), status, Open);
        assert!(
            text.ends_with(&format!("\r\n\r\n{content}")),
            "{target}: {text}"
        );
    }
    for (target, status) in [
        ("/nothing", 404),
        ("/a.txt/", 404),
        ("/a.txt/b", 404),
        ("/A.TXT", 404),
        ("/what?.txt", 404),
        ("/dir/100%2525.txt", 404),
        ("/bare/", 403),
        ("/bare/deep/", 403),
        ("/secret", 403),
        ("/dir/%2e%2e/secret", 403),
    ] {
        check(&get(target, ""), status, Open);
    }
}

#[test]
fn nothing_above_the_root_is_reached() {
    for target in [
        "/..",
        "/../etc/passwd",
        "/%2e%2e/etc/passwd",
        "/..%2fetc%2fpasswd",
        "/%2e%2e%2f%2e%2e%2fetc/passwd",
        "/dir/../../etc/passwd",
        "/dir/..//..//etc/passwd",
        "//../etc/passwd",
        "/./../etc/passwd",
        "http://h/../etc/passwd",
    ] {
        check(&get(target, ""), 400, Closed);
    }
    // Not dot segments, so they are names, and there is nothing of the kind.
    for target in [
        "/..\\..\\etc",
        "/....//etc/passwd",
        "/%252e%252e/etc",
        "/..;/etc/passwd",
    ] {
        check(&get(target, ""), 404, Open);
    }
}

#[test]
fn directories_redirect_to_their_slash_and_keep_the_query() {
    for (target, location) in [
        ("/dir", "/dir/"),
        ("/dir?a=b&c", "/dir/?a=b&c"),
        ("/dir?", "/dir/?"),
        ("//dir", "/dir/"),
        ("/bare/deep", "/bare/deep/"),
        ("http://other/dir?x", "/dir/?x"),
        ("/%64ir", "/dir/"),
    ] {
        let text = check(&get(target, ""), 301, Open);
        assert!(
            text.contains(&format!("\r\nLocation: {location}\r\n")),
            "{target}: {text}"
        );
    }
}

/// A request in the world's bad manners cannot end up as a header field of ours.
#[test]
fn a_redirect_cannot_be_made_to_carry_a_field() {
    let text = check(&get("/dir?a%0d%0aSet-Cookie:x", ""), 301, Open);
    assert!(
        text.contains("Location: /dir/?a%0d%0aSet-Cookie:x\r\n"),
        "{text}"
    );
    check(&get("//evil.example/%2e%2e", ""), 200, Open);
    check(&get("/%5cevil.example", ""), 404, Open);
}

#[test]
fn connections_persist_as_each_version_has_it() {
    for (request, after) in [
        ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", Open),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
            Closed,
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nCONNECTION: CLOSE\r\n\r\n",
            Closed,
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, close\r\n\r\n",
            Closed,
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: x\r\nConnection:close\r\n\r\n",
            Closed,
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: closed\r\n\r\n",
            Open,
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: , ,x\r\n\r\n",
            Open,
        ),
        ("GET / HTTP/1.0\r\n\r\n", Closed),
        ("GET / HTTP/1.0\r\nHost: h\r\n\r\n", Closed),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", Open),
        (
            "GET / HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\n",
            Closed,
        ),
    ] {
        let text = check(request, 200, after);
        let says_keep_alive = text.contains("\r\nConnection: keep-alive\r\n");
        assert_eq!(
            says_keep_alive,
            request.contains("/1.0") && after == Open,
            "{request:?}"
        );
    }
}

#[test]
fn methods_that_are_not_offered_say_so() {
    for method in ["POST", "PUT", "DELETE", "TRACE", "PATCH"] {
        let text = check(
            &format!("{method} / HTTP/1.1\r\nHost: h\r\n\r\n"),
            405,
            Open,
        );
        assert!(text.contains("\r\nAllow: GET, HEAD, OPTIONS\r\n"), "{text}");
    }
    check("CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", 405, Open);
    for method in ["get", "BREW", "GETX", "PROPFIND", "X!#$%&'*+-.^_`|~9"] {
        check(
            &format!("{method} / HTTP/1.1\r\nHost: h\r\n\r\n"),
            501,
            Open,
        );
    }
}

#[test]
fn request_lines_that_are_none() {
    for request in [
        "GET\r\n\r\n",
        "GET /\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /  HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: h\r\n\r\n",
        "GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n",
        " GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET / http/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTX/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/11.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.\r\nHost: h\r\n\r\n",
        "GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /\x7f HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /\r HTTP/1.1\r\nHost: h\r\n\r\n",
        "G(T / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET a.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET h:80 HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /a.txt%00.png HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET ftp://h/ HTTP/1.1\r\nHost: h\r\n\r\n",
        "\r\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "\x16\x03\x01\x02\0\x01\0\x01\r\n\r\n", // The start of TLS.
    ] {
        check_closed_early(request, 400);
    }
    for version in ["HTTP/2.0", "HTTP/0.9", "HTTP/1.2", "HTTP/3.0", "HTTP/9.9"] {
        check(&format!("GET / {version}\r\nHost: h\r\n\r\n"), 505, Closed);
    }
    check("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, Closed);
}

#[test]
fn fields_that_are_none() {
    for fields in [
        "Name : x\r\n",
        "Na me: x\r\n",
        "Name\r\n",
        ": x\r\n",
        "A: b\r\n folded\r\n",
        "A: b\r\n\tfolded\r\n",
        " A: b\r\n",
        "A: b\rc: d\r\n",
        "A: b\0\r\n",
        "A: b\x01\r\n",
        "A: b\x7f\r\n",
        "N\u{e4}me: x\r\n",
        "A(: x\r\n",
    ] {
        check_closed_early(&get("/", fields), 400);
    }
    check(&get("/", "A: b\t c \u{e4} \"(\r\n"), 200, Open);
    check(&get("/", "A:\r\nB:   \r\n"), 200, Open);
}

/// A refusal that may come before the request is whole: what follows it is dropped.
fn check_closed_early(request: &str, status: u16) {
    let whole = exchange(request.as_bytes());
    assert_eq!(
        (whole.statuses(), whole.closed),
        (vec![status], true),
        "{request:?}"
    );
    check(request, status, Closed);
}

#[test]
fn lines_may_end_with_lf_alone_and_empty_lines_come_first() {
    check("GET / HTTP/1.1\nHost: h\n\n", 200, Open);
    check("\r\n\r\n\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 200, Open);
    check("GET / HTTP/1.0\n\n", 200, Closed);
}

#[test]
fn host_is_needed_once_and_must_be_one() {
    for (fields, status) in [
        ("Host: h\r\n", 200),
        ("host:h\r\n", 200),
        ("Host: h:8080\r\n", 200),
        ("Host: h:\r\n", 200),
        ("Host: 10.10.0.1\r\n", 200),
        ("Host: [fd10::1]:80\r\n", 200),
        ("Host: under_score.example\r\n", 200),
        ("Host:\r\n", 200), // RFC 9112 §3.2: empty when the target has no authority.
        ("", 400),
        ("Host: h\r\nHost: h\r\n", 400),
        ("Host: h\r\nhOST: i\r\n", 400),
        ("Host: a b\r\n", 400),
        ("Host: a/b\r\n", 400),
        ("Host: user@h\r\n", 400),
        ("Host: h:80x\r\n", 400),
        ("Host: h:80:80\r\n", 400),
        ("Host: [fd10::1\r\n", 400),
        ("Host: a,b?\r\n", 400),
    ] {
        let after = if status == 200 { Open } else { Closed };
        check(&format!("GET / HTTP/1.1\r\n{fields}\r\n"), status, after);
    }
    check("GET http://h/ HTTP/1.1\r\n\r\n", 400, Closed); // RFC 9112 §3.2: even then.
    check("GET / HTTP/1.0\r\nHost: a b\r\n\r\n", 400, Closed);
}

#[test]
fn bodies_are_skipped_or_refused_never_taken_for_requests() {
    let inner = "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n";
    let len = inner.len();
    for (fields, status, after) in [
        (format!("Content-Length: {len}\r\n"), 200, Open),
        (format!("content-length:  {len}  \r\n"), 200, Open),
        (format!("Content-Length: 000{len}\r\n"), 200, Open),
        (
            format!("Content-Length: {}\r\n", BODY_SKIP_LEN_MAX + 1),
            413,
            Closed,
        ),
        (
            "Content-Length: 18446744073709551615\r\n".into(),
            413,
            Closed,
        ),
        (
            "Content-Length: 18446744073709551616\r\n".into(),
            400,
            Closed,
        ),
        ("Content-Length: -1\r\n".into(), 400, Closed),
        ("Content-Length: +1\r\n".into(), 400, Closed),
        ("Content-Length: 0x10\r\n".into(), 400, Closed),
        ("Content-Length: 1 2\r\n".into(), 400, Closed),
        ("Content-Length:\r\n".into(), 400, Closed),
        ("Content-Length: 5, 5\r\n".into(), 400, Closed),
        (
            format!("Content-Length: {len}\r\nContent-Length: {len}\r\n"),
            400,
            Closed,
        ),
        (
            "Content-Length: 0\r\nContent-Length: 5\r\n".into(),
            400,
            Closed,
        ),
        ("Transfer-Encoding: chunked\r\n".into(), 411, Closed),
        ("Transfer-Encoding: Chunked\r\n".into(), 411, Closed),
        ("Transfer-Encoding: gzip\r\n".into(), 501, Closed),
        ("Transfer-Encoding: gzip, chunked\r\n".into(), 501, Closed),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n".into(),
            501,
            Closed,
        ),
        ("Transfer-Encoding: xchunked\r\n".into(), 501, Closed),
        ("Transfer-Encoding: identity\r\n".into(), 501, Closed),
        ("Transfer-Encoding:\r\n".into(), 501, Closed),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n".into(),
            400,
            Closed,
        ),
        (
            "Content-Length: 5\r\nTransfer-Encoding: identity\r\n".into(),
            400,
            Closed,
        ),
    ] {
        check(&(get("/", &fields) + inner), status, after);
    }
    check(
        &format!("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n{inner}"),
        400,
        Closed,
    );
    check(
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
        405,
        Open,
    );
    check(
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        405,
        Closed,
    );
    check(
        &format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n{inner}"),
        405,
        Closed,
    );
}

#[test]
fn expectations_get_a_final_answer_at_once() {
    check(&get("/", "Expect: 100-continue\r\n"), 200, Open);
    check(
        &get("/", "Expect: 100-Continue\r\nContent-Length: 5\r\n"),
        200,
        Closed,
    );
    check(&get("/", "Expect: miracles\r\n"), 417, Open);
    check("GET / HTTP/1.0\r\nExpect: miracles\r\n\r\n", 200, Closed); // RFC 9110 §10.1.1
    let post = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    check(post, 405, Closed);
}

#[test]
fn options_say_what_can_be_done() {
    for (target, status) in [
        ("*", 200),
        ("/a.txt", 200),
        ("/dir", 200),
        ("/nothing", 404),
        ("/secret", 403),
        ("relative", 400),
    ] {
        let request = format!("OPTIONS {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        let after = if status == 400 { Closed } else { Open };
        let text = check(&request, status, after);
        let says = text.contains("\r\nAllow: GET, HEAD, OPTIONS\r\n");
        assert_eq!(says, status == 200, "{text}");
        assert!(status != 200 || text.ends_with("\r\n\r\n"), "{text}");
    }
}

#[test]
fn a_part_is_sent_with_its_place() {
    let tag = tag_of("/a.txt");
    assert_eq!(
        check(&get("/a.txt", "Range: bytes=1-3\r\n"), 206, Open),
        format!(
            "HTTP/1.1 206 Partial Content\r\n\
             Server: exos\r\n\
             Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Content-Type: text/plain; charset=utf-8\r\n\
             Content-Range: bytes 1-3/6\r\n\
             Content-Length: 3\r\n\
             ETag: {tag}\r\n\
             Last-Modified: Sun, 06 Nov 1994 08:00:00 GMT\r\n\
             \r\n\
             ext"
        )
    );
    for (value, status, end) in [
        ("bytes=0-", 206, "text a"),
        ("bytes=-1", 206, "\r\n\r\na"),
        ("bytes=6-", 416, "</html>\n"),
        ("bytes=-0", 416, "</html>\n"),
        ("lines=0-1", 200, "text a"),
        ("bytes=3-2", 200, "text a"),
        ("bytes=0-1\r\nRange: bytes=0-1", 200, "text a"),
    ] {
        let text = check(&get("/a.txt", &format!("Range: {value}\r\n")), status, Open);
        assert!(text.ends_with(end), "{value}: {text}");
        let says = text.contains("\r\nContent-Range: bytes */6\r\n");
        assert_eq!(says, status == 416, "{text}");
    }
    // Only GET has parts (RFC 9110 §14.2).
    check(
        "HEAD /a.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\n\r\n",
        200,
        Open,
    );
}

#[test]
fn several_parts_are_sent_as_one_body_of_parts() {
    let content: Vec<u8> = (0..2000u32).map(|n| b'a' + (n % 26) as u8).collect();
    let mut site = exos_cheetah::Site::new();
    let document = Document::new(&content, &Description::plain("text/plain", 0));
    site.insert(b"/long.txt", document);
    let mut server = Server::new(site, NOW_SECS);
    let mut client = Client::new(&mut server, usize::MAX);
    client.send(get("/long.txt", "Range: bytes=1000-1002,-2,0-0\r\n").as_bytes());
    let text = client.end().text();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let (_, boundary) = head
        .split_once("Content-Type: multipart/byteranges; boundary=")
        .unwrap();
    let boundary = boundary.lines().next().unwrap();
    let part = |range: &str, content: &str| {
        format!(
            "--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Range: bytes {range}/2000\r\n\r\n{content}\r\n"
        )
    };
    let want = [
        part("1000-1002", "mno"),
        part("1998-1999", "wx"),
        part("0-0", "a"),
        format!("--{boundary}--\r\n"),
    ];
    assert_eq!(body, want.concat());
    assert!(
        head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())),
        "{head}"
    );
    assert!(head.contains("\r\nETag: "), "{head}");
}

#[test]
fn parts_are_of_the_version_that_was_asked_for() {
    let tag = tag_of("/a.txt");
    for (value, status) in [
        ("\"TAG\"", 206),
        ("W/\"TAG\"", 200),
        ("\"other\"", 200),
        ("Sun, 06 Nov 1994 08:00:00 GMT", 206),
        ("Sun, 06 Nov 1994 08:00:01 GMT", 200),
        ("Sunday, 06-Nov-94 08:00:00 GMT", 200),
        ("", 200),
        ("\"TAG\"\r\nIf-Range: \"TAG\"", 200),
    ] {
        let value = value.replace(TAG_OF_A, &tag);
        let fields = format!("Range: bytes=0-0\r\nIf-Range: {value}\r\n");
        check(&get("/a.txt", &fields), status, Open);
    }
    // Preconditions come first, and If-Range alone is nothing.
    let known = format!("Range: bytes=0-0\r\nIf-None-Match: {tag}\r\n");
    check(&get("/a.txt", &known), 304, Open);
    let wrong = "Range: bytes=0-0\r\nIf-Match: \"other\"\r\n";
    check(&get("/a.txt", wrong), 412, Open);
    check(&get("/a.txt", &format!("If-Range: {tag}\r\n")), 200, Open);
}

#[test]
fn preconditions_are_evaluated_in_their_order() {
    let tag = tag_of("/a.txt");
    for (fields, status) in [
        // The document is of 08:00:00; the three formats of RFC 9110 §5.6.7.
        ("If-Modified-Since: Sun, 06 Nov 1994 08:00:00 GMT", 304),
        ("If-Modified-Since: Sunday, 06-Nov-94 08:00:00 GMT", 304),
        ("If-Modified-Since: Sun Nov  6 08:00:00 1994", 304),
        ("if-modified-since:   Sun, 06 Nov 1994 08:49:37 GMT  ", 304),
        ("If-Modified-Since: Sun, 06 Nov 1994 07:59:59 GMT", 200),
        ("If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT", 200),
        ("If-Modified-Since: yesterday", 200),
        ("If-Modified-Since: ", 200),
        ("If-Modified-Since: 784108800", 200),
        ("If-None-Match: \"TAG\"", 304),
        ("If-None-Match: W/\"TAG\"", 304),
        ("If-None-Match: \"x\", \"TAG\"", 304),
        ("If-None-Match: \"x\"\r\nIf-None-Match: \"TAG\"", 304),
        ("If-None-Match: *", 304),
        ("If-None-Match: \"x\"", 200),
        ("If-None-Match: TAG", 200),
        ("If-None-Match:", 200),
        // If-Modified-Since counts only without If-None-Match.
        (
            "If-None-Match: \"x\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:00:00 GMT",
            200,
        ),
        ("If-Match: \"TAG\"", 200),
        ("If-Match: *", 200),
        ("If-Match: \"x\", \"TAG\"", 200),
        ("If-Match: W/\"TAG\"", 412),
        ("If-Match: \"x\"", 412),
        ("If-Unmodified-Since: Sun, 06 Nov 1994 08:00:00 GMT", 200),
        ("If-Unmodified-Since: Sun, 06 Nov 1994 07:59:59 GMT", 412),
        ("If-Unmodified-Since: tomorrow", 200),
        // If-Unmodified-Since counts only without If-Match.
        (
            "If-Match: \"TAG\"\r\nIf-Unmodified-Since: Sun, 06 Nov 1994 07:59:59 GMT",
            200,
        ),
        ("If-Match: \"TAG\"\r\nIf-None-Match: \"TAG\"", 304),
        ("If-Match: \"x\"\r\nIf-None-Match: \"TAG\"", 412),
    ] {
        let fields = format!("{}\r\n", fields.replace(TAG_OF_A, &tag));
        check(&get("/a.txt", &fields), status, Open);
    }
    // They are about documents only.
    check(&get("/nothing", "If-None-Match: *\r\n"), 404, Open);
    check(&get("/dir", "If-None-Match: *\r\n"), 301, Open);
}

#[test]
fn a_304_has_the_validators_and_nothing_of_content() {
    let text = check(&get("/a.txt", "If-None-Match: *\r\n"), 304, Open);
    let tag = tag_of("/a.txt");
    assert_eq!(
        text,
        format!(
            "HTTP/1.1 304 Not Modified\r\nServer: exos\r\n\
             Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: {tag}\r\n\
             Last-Modified: Sun, 06 Nov 1994 08:00:00 GMT\r\n\r\n"
        )
    );
}

/// Each limit is where its name says, at the byte.
#[test]
fn limits_are_at_the_byte() {
    let line_of = |len: usize| "/".to_owned() + &"a".repeat(len - "GET / HTTP/1.1\r\n".len());
    check(&get(&line_of(REQUEST_LINE_LEN_MAX), ""), 404, Open);
    check(&get(&line_of(REQUEST_LINE_LEN_MAX + 2), ""), 414, Closed);
    check(&get(&line_of(REQUEST_LINE_LEN_MAX * 3), ""), 414, Closed);
    check(&"A".repeat(REQUEST_LINE_LEN_MAX + 2), 414, Closed);

    // Too long is too long, whatever else is wrong: found by fuzzing.
    let line = "a".repeat(REQUEST_LINE_LEN_MAX + 2);
    check(&format!("GET / x{line}\r\n\r\n"), 414, Closed);

    let empty_len = get("/", "A: \r\n").len();
    let head_of = |len: usize| get("/", &format!("A: {}\r\n", "b".repeat(len - empty_len)));
    check(&head_of(HEAD_LEN_MAX), 200, Open);
    check(&head_of(HEAD_LEN_MAX + 1), 431, Closed);
    check(&head_of(HEAD_LEN_MAX * 4), 431, Closed);
    check(&get("/", &"A: b\r\n".repeat(FIELDS_MAX - 1)), 200, Open);
    check(&get("/", &"A: b\r\n".repeat(FIELDS_MAX)), 431, Closed);
}

/// What is wrong early in a head that has no lines yet is answered at once, even if a first short
/// segment gave no reason to: found by fuzzing.
#[test]
fn a_long_line_is_looked_at_after_a_short_segment() {
    let line = "a".repeat(288) + "\0" + &"a".repeat(2100);
    let whole = exchange(line.as_bytes());
    assert_eq!((whole.statuses(), whole.closed), (vec![400], true));
    let (one, two) = line.as_bytes().split_at(7);
    assert_eq!(exchange_in_pieces(&[one, two]), whole);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let requests = get("/a.txt", "")
        + &get("/nothing", "")
        + "\r\n"
        + &get("/dir", "")
        + "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nGET"
        + &get("/", "");
    let whole = exchange(requests.as_bytes());
    assert_eq!(whole.statuses(), [200, 404, 301, 405, 200]);
    assert_eq!((whole.closed, whole.left), (false, 0));
    for at in 0..requests.len() {
        let (one, two) = requests.as_bytes().split_at(at);
        assert_eq!(exchange_in_pieces(&[one, two]), whole, "cut at {at}");
    }
}

#[test]
fn nothing_is_answered_after_the_last_response() {
    let last = get("/a.txt", "Connection: close\r\n");
    let whole = exchange((get("/", "") + &last + &get("/dir/", "")).as_bytes());
    assert_eq!((whole.statuses(), whole.closed), (vec![200, 200], true));
    assert!(!whole.text().contains("<p>dir"));
    let whole = exchange((get("/", "") + "nonsense\r\n\r\n" + &get("/", "")).as_bytes());
    assert_eq!((whole.statuses(), whole.closed), (vec![200, 400], true));
}

/// A client that pipelines faster than it reads is held back, and loses nothing.
#[test]
fn responses_wait_for_room() {
    let requests = get("/a.txt", "").repeat(20);
    let mut out = Vec::new();
    let mut server = server();
    let mut connection = ServerConnection::new();
    let handled = connection.handle_bytes(&mut server, requests.as_bytes(), 0, &mut out);
    assert_eq!((handled.consumed, out.len()), (0, 0));
    let handled = connection.handle_bytes(&mut server, requests.as_bytes(), 1, &mut out);
    assert_eq!(
        (handled.consumed, handled.responses),
        (requests.len() / 20, 1)
    );
    for room in [1, 300, 1000] {
        let mut client = Client::new(&mut server, room);
        client.send(requests.as_bytes());
        let outcome = client.end();
        assert_eq!(outcome, exchange(requests.as_bytes()), "room {room}");
    }
}

#[test]
fn the_date_follows_the_clock() {
    let mut server = server();
    server.set_time(NOW_SECS + 1);
    let mut client = Client::new(&mut server, usize::MAX);
    client.send(get("/", "").as_bytes());
    assert!(
        client
            .end()
            .text()
            .contains("Date: Sun, 06 Nov 1994 08:49:38 GMT\r\n")
    );
}

/// The event loop's own refusals: a request that does not arrive, too many connections.
#[test]
fn refusals_without_a_request_close() {
    let mut server = server();
    for status in [Status::RequestTimeout, Status::ServiceUnavailable] {
        let mut out = Vec::new();
        server.refuse(status, &mut out);
        let bytes: Vec<u8> = out
            .iter()
            .flat_map(|slice| slice.as_bytes().to_vec())
            .collect();
        let text = String::from_utf8(bytes).unwrap();
        assert!(
            text.starts_with(&format!("HTTP/1.1 {} ", status.code())),
            "{text}"
        );
        assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
    }
}

#[test]
fn a_connection_knows_whether_it_is_between_requests() {
    let mut server = server();
    let mut connection = ServerConnection::new();
    let feed = |connection: &mut ServerConnection, server: &mut Server, bytes: &[u8]| {
        connection.handle_bytes(server, bytes, usize::MAX, &mut Vec::new());
        connection.is_between_requests()
    };
    assert!(connection.is_between_requests());
    assert!(!feed(&mut connection, &mut server, b"GET"));
    assert!(feed(&mut connection, &mut server, get("/", "").as_bytes()));
    assert!(!feed(
        &mut connection,
        &mut server,
        get("/", "Content-Length: 5\r\n").as_bytes()
    ));
    assert!(feed(&mut connection, &mut server, b"12345"));
    assert!(size_of::<ServerConnection>() <= 16);
}

#[test]
fn every_answer_and_every_fault_is_counted() {
    let mut server = server();
    for request in [get("/", ""), get("/x", ""), "GET / HTTP/1.1\r\n\r\n".into()] {
        Client::new(&mut server, usize::MAX).send(request.as_bytes());
    }
    let list = server.counters().list();
    let of = |name| {
        list.iter()
            .find(|(known, _)| *known == name)
            .map(|&(_, value)| value)
    };
    assert_eq!(of("http_responses_200"), Some(1));
    assert_eq!(of("http_responses_404"), Some(1));
    assert_eq!(of("http_responses_400"), Some(1));
    assert_eq!(of("http_fault_host_missing"), Some(1));
    assert_eq!(server.counters().response_count(), 3);
}
