//! Request heads: what is one and what is none, where a request ends, and how long it may be.

use crate::common;

use common::{Closed, Open, check, exchange, exchange_in_pieces, get};
use exos_cheetah::limits::{BODY_SKIP_LEN_MAX, FIELDS_MAX, HEAD_LEN_MAX, REQUEST_LINE_LEN_MAX};

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
    for version in ["HTTP/2.0", "HTTP/0.9", "HTTP/3.0", "HTTP/9.9"] {
        check(&format!("GET / {version}\r\nHost: h\r\n\r\n"), 505, Closed);
    }
    check("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, Closed);
}

/// RFC 9110 §2.5: a higher minor version is served as the highest that is known.
#[test]
fn later_minor_versions_are_served_as_http_1_1() {
    for version in ["HTTP/1.2", "HTTP/1.9"] {
        check(&format!("GET / {version}\r\nHost: h\r\n\r\n"), 200, Open);
        check(&format!("GET / {version}\r\n\r\n"), 400, Closed);
        let close = format!("GET / {version}\r\nHost: h\r\nConnection: close\r\n\r\n");
        check(&close, 200, Closed);
    }
    check("GET / HTTP/1.:\r\nHost: h\r\n\r\n", 400, Closed);
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

/// RFC 9110 §9.3.2: HEAD is answered without content, also where no more of it was understood than its method.
#[test]
fn refusals_of_head_have_no_content() {
    for (rest, status) in [
        (" / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", 400),
        (" / HTTP/1.1\r\n\r\n", 400),
        (" / HTTP/2.0\r\n\r\n", 505),
        (" /\0 HTTP/1.1\r\n\r\n", 400),
        (" /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (" / HTTP/1.1\r\nHost: h\r\nA : b\r\n\r\n", 400),
    ] {
        let with = check(&format!("GET{rest}"), status, Closed);
        let without = check(&format!("HEAD{rest}"), status, Closed);
        let (head, content) = with.split_once("\r\n\r\n").unwrap();
        assert!(!content.is_empty());
        assert_eq!(without, format!("{head}\r\n\r\n"), "{rest:?}");
    }
    // A method is what stands before the first space.
    let other = check("HEADS / HTTP/2.0\r\n\r\n", 505, Closed);
    assert!(!other.ends_with("\r\n\r\n"));
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
