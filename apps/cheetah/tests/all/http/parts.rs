//! Parts of documents and preconditions: Range, If-Range, and the fields that compare versions.

use crate::common;

use common::{Client, NOW_SECS, Open, TAG_OF_A, check, get, tag_of};
use exos_cheetah::Server;
use exos_cheetah::site::{Description, Document};

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
