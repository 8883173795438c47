//! Properties of the HTTP core on generated and mutated input.
//!
//! Whatever arrives: nothing panics; every byte is consumed, or waits as the start of a request
//! within the limits; and how the bytes were cut into segments makes no difference.

use crate::common;

use common::{Client, Outcome, exchange, exchange_in_pieces, server};
use exos_cheetah::limits::HEAD_LEN_MAX;
use exos_cheetah::message::target::{Target, encode};
use exos_cheetah::site::Entry;
use proptest::prelude::*;
use proptest::sample::Index;

/// Fragments that requests are made of, good and bad.
const WORDS: [&str; 54] = [
    "GET",
    "HEAD",
    "POST",
    "OPTIONS",
    "get",
    " ",
    "  ",
    "/",
    "/a.txt",
    "/dir",
    "/dir/",
    "/../",
    "/%2e%2e/",
    "%",
    "%00",
    "?q",
    "#f",
    "http://h",
    "*",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/2.0",
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    "Host: h",
    "Host:",
    ": ",
    "\t",
    "\0",
    "Connection: close",
    "Connection: keep-alive",
    "Content-Length: 5",
    "Content-Length: 0",
    "Content-Length: 99999",
    "Content-Length: -1",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: x",
    "Expect: 100-continue",
    "Expect: x",
    "If-None-Match: *",
    "If-Match: \"x\"",
    "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
    "Range: bytes=0-1",
    "A: b",
    "a",
    "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\nHost: h\r\n",
    "HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "hello",
    "\u{e9}",
    "0\r\n\r\n",
    "If-Unmodified-Since: Sun, 06 Nov 1994 07:59:59 GMT",
];

fn soup() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(&WORDS[..]), 0..20)
        .prop_map(|words| words.concat().into_bytes())
}

/// Several well-formed requests, some with a byte changed, put in or taken out.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let method = prop::sample::select(&["GET", "HEAD", "POST"][..]);
    let target = prop::sample::select(&["/", "/a.txt", "/dir", "/x?y", "/dir/../a.txt"][..]);
    let fields = prop::collection::vec(prop::sample::select(&WORDS[26..]), 0..5);
    let request =
        (method, target, fields, any::<bool>()).prop_map(|(method, target, fields, old)| {
            let version = if old { "HTTP/1.0" } else { "HTTP/1.1" };
            let fields: String = fields
                .into_iter()
                .map(|field| format!("{field}\r\n"))
                .collect();
            format!("{method} {target} {version}\r\nHost: h\r\n{fields}\r\n")
        });
    let change = (any::<Index>(), 0..3, any::<u8>());
    let changes = prop::collection::vec(change, 0..3);
    (prop::collection::vec(request, 1..4), changes).prop_map(|(requests, changes)| {
        let mut bytes = requests.concat().into_bytes();
        for (place, kind, byte) in changes {
            let at = place.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        bytes
    })
}

/// Heads near and beyond the lengths where the parser changes its ways.
fn long() -> impl Strategy<Value = Vec<u8>> {
    let line = (
        0..9000usize,
        prop::sample::select(&["\r\n", "\n", "", " HTTP/1.1\r\n"][..]),
    );
    let field = (
        0..6000usize,
        prop::sample::select(&["\r\n", "\n", "\0", "\r", ""][..]),
    );
    (line, prop::collection::vec(field, 0..6), any::<bool>()).prop_map(|(line, fields, ends)| {
        let mut text = format!("GET /{}{}Host: h\r\n", "a".repeat(line.0), line.1);
        for (len, end) in fields {
            text += &format!("F: {}{end}", "b".repeat(len));
        }
        if ends {
            text += "\r\n\r\n";
        }
        text.into_bytes()
    })
}

fn check(bytes: &[u8], cuts: &[Index], room: usize) -> Outcome {
    let whole = exchange(bytes);
    assert!(
        whole.left < HEAD_LEN_MAX,
        "an unfinished head of {} bytes waits",
        whole.left
    );
    assert!(!whole.closed || whole.left == 0);
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.sort_unstable();
    let starts = [0].into_iter().chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([bytes.len()]);
    let pieces: Vec<&[u8]> = starts
        .zip(ends)
        .map(|(start, end)| &bytes[start..end])
        .collect();
    assert_eq!(exchange_in_pieces(&pieces), whole, "cut at {cuts:?}");
    let start = bytes.len().min(7);
    assert_eq!(
        exchange_in_pieces(&[&bytes[..start], &bytes[start..]]),
        whole,
        "cut at {start}"
    );
    let mut server = server();
    let mut client = Client::new(&mut server, room);
    client.send(bytes);
    assert_eq!(client.end(), whole, "with room for {room}");
    whole
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn cuts_make_no_difference_to_soup(bytes in soup(), cuts: [Index; 4], room in 1..2000usize) {
        check(&bytes, &cuts, room);
    }

    #[test]
    fn cuts_make_no_difference_to_mutated_requests(bytes in mutated(), cuts: [Index; 4], room in 1..2000usize) {
        check(&bytes, &cuts, room);
    }

    #[test]
    fn cuts_make_no_difference_to_long_heads(bytes in long(), cuts: [Index; 6]) {
        check(&bytes, &cuts, usize::MAX);
    }

    #[test]
    fn bytes_of_any_kind_do_no_harm(bytes: Vec<u8>, cuts: [Index; 2]) {
        check(&bytes, &cuts, usize::MAX);
    }

    /// Whatever the target, its path is in the form that the table has, so it cannot name
    /// anything outside; and resolving it again changes nothing.
    #[test]
    fn paths_are_in_their_one_form(target in "/([a./%?#]|%2e|%2F|%25|\\.\\./){0,16}") {
        let Ok(parsed) = Target::parse(target.as_bytes()) else { return Ok(()) };
        let path = String::from_utf8_lossy(&parsed.path).into_owned();
        prop_assert!(path.starts_with('/'));
        let inner = path[1..].strip_suffix('/').unwrap_or(&path[1..]);
        let is_clean = inner.split('/').all(|segment| !matches!(segment, "" | "." | ".."));
        prop_assert!(is_clean || path == "/", "{target} gave {path}");
    }

    /// What a redirect leads to is the directory that was asked for.
    #[test]
    fn redirects_lead_to_the_directory(name in "[a-z %?#\u{e9}/\\\\:@.]{1,10}", query in "[!-~]{0,8}") {
        prop_assume!(!query.contains('#'));
        let path = format!("/{name}/");
        let plain = encode(path.as_bytes(), None);
        let Ok(wanted) = Target::parse(plain.as_bytes()) else { return Ok(()) };
        let location = encode(path.as_bytes(), Some(query.as_bytes()));
        let target = Target::parse(location.as_bytes()).unwrap();
        prop_assert_eq!(target.path, wanted.path);
        prop_assert_eq!(target.query, Some(query.as_bytes()));
    }
}

/// Every document of the site is reached by its encoded path, and by no shorter way of it.
#[test]
fn every_path_of_the_site_can_be_asked_for() {
    let site = common::site();
    for path in [
        "/a.txt",
        "/dir/with space.txt",
        "/dir/100%.txt",
        "/what?.txt",
        "/",
    ] {
        let encoded = encode(path.as_bytes(), None);
        let target = Target::parse(encoded.as_bytes()).unwrap();
        assert!(
            matches!(site.find(&target.path), Some(Entry::Document(_))),
            "{path}"
        );
    }
}
