//! Coded variants of documents: which is sent, with which fields, and that parts and preconditions
//! are of the variant that is.

use crate::common;

use common::folder::Folder;
use common::{Client, MODIFIED_SECS, NOW_SECS, get};
use exos_cheetah::{Server, Site};

const PLAIN: &str = "<p>a page that is long enough to be worth the while";

/// `/d/index.html` with three variants, and `/alone.html` without any.
fn site() -> Site {
    let folder = Folder::new();
    for (name, content, modified_secs) in [
        ("d/index.html", PLAIN, MODIFIED_SECS),
        ("d/index.html.br", "brotli", MODIFIED_SECS),
        ("d/index.html.zst", "zstandard", MODIFIED_SECS + 1),
        ("d/index.html.gz", "gzip, longest", MODIFIED_SECS + 60),
        ("alone.html", PLAIN, MODIFIED_SECS),
    ] {
        folder.write_at(name, content, modified_secs);
    }
    folder.load()
}

fn answer(request: &str) -> String {
    let mut server = Server::new(site(), NOW_SECS);
    let mut client = Client::new(&mut server, usize::MAX);
    client.send(request.as_bytes());
    client.end().text()
}

/// The value of a field in a response.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (head, _) = text.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

fn body(text: &str) -> &str {
    text.split_once("\r\n\r\n").unwrap().1
}

#[test]
fn the_variant_that_a_client_takes_is_sent_with_its_fields() {
    for (accepts, coding, content) in [
        ("", None, PLAIN),
        ("Accept-Encoding:\r\n", None, PLAIN),
        ("Accept-Encoding: br\r\n", Some("br"), "brotli"),
        (
            "Accept-Encoding: gzip, deflate\r\n",
            Some("gzip"),
            "gzip, longest",
        ),
        (
            "accept-encoding: gzip, zstd;q=1\r\n",
            Some("zstd"),
            "zstandard",
        ),
        (
            "Accept-Encoding: gzip\r\nAccept-Encoding: br;q=0.1\r\n",
            Some("gzip"),
            "gzip, longest",
        ),
        ("Accept-Encoding: *;q=0\r\n", None, PLAIN),
        ("Accept-Encoding: identity;q=0, compress\r\n", None, PLAIN),
    ] {
        for target in ["/d/", "/d/index.html"] {
            let text = answer(&get(target, accepts));
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
            assert_eq!(body(&text), content, "{accepts}");
            assert_eq!(field(&text, "Content-Encoding"), coding, "{accepts}");
            assert_eq!(field(&text, "Vary"), Some("Accept-Encoding"));
            assert_eq!(
                field(&text, "Content-Type"),
                Some("text/html; charset=utf-8")
            );
            let length = content.len().to_string();
            assert_eq!(field(&text, "Content-Length"), Some(length.as_str()));
            let head = answer(&get(target, accepts).replacen("GET", "HEAD", 1));
            assert_eq!(head, text[..text.len() - content.len()], "HEAD is as GET");
        }
    }
}

#[test]
fn without_variants_accept_encoding_means_nothing() {
    let with = answer(&get("/alone.html", "Accept-Encoding: br, identity;q=0\r\n"));
    assert_eq!(with, answer(&get("/alone.html", "")));
    assert_eq!(field(&with, "Vary"), None);
}

#[test]
fn a_coded_file_is_still_a_file_of_its_own() {
    let text = answer(&get("/d/index.html.gz", "Accept-Encoding: gzip\r\n"));
    assert_eq!(body(&text), "gzip, longest");
    assert_eq!(field(&text, "Content-Type"), Some("application/gzip"));
    assert_eq!(
        (field(&text, "Content-Encoding"), field(&text, "Vary")),
        (None, None)
    );
}

#[test]
fn each_variant_has_a_tag_and_a_date_of_its_own() {
    let mut tags = Vec::new();
    for (accepts, date) in [
        ("identity", "08:00:00"),
        ("br", "08:00:00"),
        ("zstd", "08:00:01"),
        ("gzip", "08:01:00"),
    ] {
        let accepts = format!("Accept-Encoding: {accepts}\r\n");
        let text = answer(&get("/d/", &accepts));
        assert!(
            field(&text, "Last-Modified").unwrap().contains(date),
            "{text}"
        );
        tags.push((accepts, field(&text, "ETag").unwrap().to_owned()));
    }
    for (accepts, own) in &tags {
        for (_, tag) in &tags {
            let known = answer(&get("/d/", &format!("{accepts}If-None-Match: {tag}\r\n")));
            let wanted = answer(&get("/d/", &format!("{accepts}If-Match: {tag}\r\n")));
            let of_it = tag == own;
            assert_eq!(known.starts_with("HTTP/1.1 304 "), of_it, "{known}");
            assert_eq!(wanted.starts_with("HTTP/1.1 412 "), !of_it, "{wanted}");
            if of_it {
                assert_eq!(field(&known, "Vary"), Some("Accept-Encoding"));
                assert_eq!(field(&known, "ETag"), Some(own.as_str()));
                assert_eq!(field(&known, "Content-Encoding"), None);
            }
        }
    }
}

#[test]
fn parts_are_of_the_bytes_of_the_variant() {
    let part = |fields: &str| answer(&get("/d/", &format!("Accept-Encoding: zstd\r\n{fields}")));
    let text = part("Range: bytes=4-\r\n");
    assert!(text.starts_with("HTTP/1.1 206 "), "{text}");
    assert_eq!(body(&text), "ndard");
    assert_eq!(field(&text, "Content-Range"), Some("bytes 4-8/9"));
    assert_eq!(field(&text, "Content-Encoding"), Some("zstd"));
    assert_eq!(
        field(&text, "Content-Type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(field(&text, "Vary"), Some("Accept-Encoding"));
    // Outside the variant, though inside the original.
    assert!(part("Range: bytes=9-\r\n").starts_with("HTTP/1.1 416 "));
    // The tag of the variant holds, those of others do not, and a date names none of them.
    let tag = field(&text, "ETag").unwrap();
    let other = answer(&get("/d/", ""));
    let date = field(&text, "Last-Modified").unwrap();
    for (value, status) in [
        (tag, 206),
        (field(&other, "ETag").unwrap(), 200),
        (date, 200),
    ] {
        let text = part(&format!("Range: bytes=0-1\r\nIf-Range: {value}\r\n"));
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
    }
}

/// A body of several parts could not say that each of them is coded, and not the whole.
#[test]
fn several_parts_of_a_coded_variant_are_the_whole() {
    let folder = Folder::new();
    let (plain, coded) = ("p".repeat(4000), "c".repeat(2000));
    folder.write_at("a.txt", &plain, MODIFIED_SECS);
    folder.write_at("a.txt.br", &coded, MODIFIED_SECS);
    let mut server = Server::new(folder.load(), NOW_SECS);
    let mut ask = |fields: &str| {
        let mut client = Client::new(&mut server, usize::MAX);
        client.send(get("/a.txt", &format!("Range: bytes=0-0,-1\r\n{fields}")).as_bytes());
        client.end().text()
    };
    assert_eq!(body(&ask("Accept-Encoding: br\r\n")), coded);
    assert!(
        field(&ask(""), "Content-Type")
            .unwrap()
            .starts_with("multipart/byteranges")
    );
}
