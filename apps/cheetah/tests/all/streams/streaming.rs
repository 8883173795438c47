//! Files that are read while they are sent are answered for as documents in memory are, byte for byte, whatever
//! is asked of them and however they are read.

use crate::common::long;
use crate::common::visit;

use std::time::Duration;

use exos_cheetah::Site;
use exos_cheetah::limits::CHUNK_LEN;
use exos_cheetah::site::Entry;
use exos_cheetah::stream::disk::Disk;
use long::{LEN, content, disks, folder, limits};
use visit::Visit;

const LONG: &str = "/long.bin";

/// The entity tag of a document.
fn tag(site: &Site, path: &str) -> String {
    let document = site.find(path.as_bytes()).and_then(Entry::document);
    String::from_utf8(document.unwrap().entity_tag().to_vec()).unwrap()
}

/// All that a server sends for some bytes, with the tag replaced by `TAG`.
fn exchange(mut visit: Visit, tag: &str, bytes: &str) -> Vec<u8> {
    let bytes = bytes.replace("\"TAG\"", tag);
    let place = visit.ask("10.0.0.1", bytes.as_bytes());
    let id = visit.connections[place].id;
    visit.client.tcp.finish(id);
    long::run(&mut visit, Duration::from_secs(2), usize::MAX);
    let side = &visit.connections[place];
    assert!(side.over.is_some(), "the connection has ended");
    assert_eq!(visit.cheetah.streams().under_way(), 0);
    without_tag(&side.received, tag.trim_matches('"'))
}

fn without_tag(bytes: &[u8], tag: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(tag.len()).position(|w| w == tag.as_bytes()) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(b"TAG");
        rest = &rest[at + tag.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// What a request is answered with, and the same of the file in memory.
fn both(request: &str, disk: Disk) -> (Vec<u8>, Vec<u8>) {
    let folder = folder();
    let in_memory = folder.load();
    let of_memory = tag(&in_memory, LONG);
    let wanted = exchange(Visit::new(in_memory, |_| {}), &of_memory, request);
    let site = folder.load_within(limits());
    let of_site = tag(&site, LONG);
    assert_ne!(of_site, of_memory, "it is not in memory");
    (
        exchange(long::visit(site, disk, 64), &of_site, request),
        wanted,
    )
}

fn get(fields: &str) -> String {
    format!("GET {LONG} HTTP/1.1\r\nHost: h\r\n{fields}\r\n")
}

#[test]
fn answers_are_those_of_documents_in_memory() {
    let chunk = CHUNK_LEN;
    let borders = format!("Range: bytes={}-{}\r\n", chunk - 1, chunk);
    let inside = format!("Range: bytes={}-{}\r\n", chunk, 2 * chunk - 1);
    let several = format!(
        "Range: bytes=0-9,{}-{},-5,{}-\r\n",
        chunk - 700,
        3 * chunk + 7,
        LEN - 1000
    );
    let beyond = format!("Range: bytes={LEN}-\r\n");
    for fields in [
        "",
        "Range: bytes=0-0\r\n",
        "Range: bytes=0-\r\n",
        "Range: bytes=-1\r\n",
        "Range: bytes=100000-\r\n",
        "Range: bytes=5-3\r\n",
        "Range: lines=1-2\r\n",
        &borders,
        &inside,
        &several,
        &beyond,
        "If-Range: \"TAG\"\r\nRange: bytes=7-70000\r\n",
        "If-Range: \"other\"\r\nRange: bytes=7-70000\r\n",
        "If-Range: Sun, 09 Sep 2001 01:46:40 GMT\r\nRange: bytes=7-70000\r\n",
        "If-Range: Sun, 09 Sep 2001 01:46:41 GMT\r\nRange: bytes=7-70000\r\n",
        "If-None-Match: \"TAG\"\r\n",
        "If-None-Match: \"other\"\r\n",
        "If-Match: \"TAG\"\r\n",
        "If-Match: \"other\"\r\n",
        "If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT\r\n",
        "If-Modified-Since: Sun, 09 Sep 2001 01:46:39 GMT\r\n",
        "If-Unmodified-Since: Sun, 09 Sep 2001 01:46:39 GMT\r\n",
    ] {
        for method in ["GET", "HEAD"] {
            let request = get(fields).replace("GET", method);
            let (got, wanted) = both(&request, Disk::here());
            assert!(
                got == wanted,
                "{request:?}: {} of {} bytes",
                got.len(),
                wanted.len()
            );
        }
    }
    let (got, wanted) = both(
        "OPTIONS /long.bin HTTP/1.1\r\nHost: h\r\n\r\n",
        Disk::here(),
    );
    assert_eq!(got, wanted);
}

/// Requests behind a long one wait for it; the last one ends the connection when all of it is sent.
#[test]
fn pipelined_requests_keep_their_order_however_files_are_read() {
    let short = "GET /short.bin HTTP/1.1\r\nHost: h\r\n\r\n";
    let several = get("Range: bytes=1-2,70000-140000,5000-5001\r\n");
    let last = get("Connection: close\r\n");
    let all = [
        short,
        &get(""),
        &several,
        short,
        &get("Range: bytes=-3\r\n"),
        &last,
        short,
    ];
    for disk in disks() {
        let name = disk.name();
        let (got, wanted) = both(&all.concat(), disk);
        assert!(
            got == wanted,
            "{name}: {} of {} bytes",
            got.len(),
            wanted.len()
        );
        assert!(got.ends_with(&content(0, LEN)), "{name}");
    }
}

/// Many answers that are at hand at once, one after the other, as many as a receive buffer holds requests.
#[test]
fn a_thousand_small_parts_are_answered() {
    let requests: String = (0..900)
        .map(|n| get(&format!("Range: bytes={n}-{n}\r\n")))
        .collect();
    let (got, wanted) = both(&requests, Disk::here());
    assert!(got == wanted, "{} of {} bytes", got.len(), wanted.len());
}

/// Several names of one file, and one that is a directory's document.
#[test]
fn long_files_have_names_variants_rules_and_listings() {
    let folder = folder();
    folder.link("long.bin", "again.bin");
    std::fs::hard_link(folder.path("long.bin"), folder.path("hard.txt")).unwrap();
    folder.write("page.html", content(3, 20_000));
    folder.write("page.html.gz", content(4, 15_000));
    folder.write("small.html", content(5, 1000));
    folder.write("small.html.br", content(6, 11_000));
    let settings = exos_cheetah::site::Settings {
        listing: true,
        ..Default::default()
    };
    std::fs::remove_file(folder.path("index.html")).unwrap();
    let loaded = crate::common::folder::load(&folder.0, limits(), settings.into(), false).unwrap();
    let (site, omissions) = (loaded.site, loaded.omissions);
    assert!(omissions.is_empty(), "{omissions:?}");
    assert_eq!(
        site.content_len(),
        5000 + 1000,
        "only short files are in memory"
    );
    let listing = site.listing(b"/").expect("it lists");
    let listing = String::from_utf8(listing.body().as_bytes().to_vec()).unwrap();
    assert!(listing.contains(&format!("<td>{LEN}</td>")), "{listing}");
    let mut visit = long::visit(site, Disk::here(), 64);
    for (path, field, seed, len) in [
        ("/again.bin", "", 0, LEN),
        ("/hard.txt", "", 0, LEN),
        ("/page.html", "", 3, 20_000),
        ("/page.html", "Accept-Encoding: gzip\r\n", 4, 15_000),
        ("/page.html.gz", "", 4, 15_000),
        ("/small.html", "Accept-Encoding: br\r\n", 5, 1000),
        (
            "/small.html",
            "Accept-Encoding: br, identity;q=0\r\n",
            6,
            11_000,
        ),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{field}\r\n");
        let place = visit.ask("10.0.0.1", request.as_bytes());
        visit.run(Duration::from_secs(1), usize::MAX);
        let got = &visit.connections[place].received;
        assert!(
            got.ends_with(&content(seed, len)),
            "{path} {field:?}: {} bytes",
            got.len()
        );
        let head = String::from_utf8_lossy(&got[..got.len() - len]);
        assert!(
            head.contains(&format!("Content-Length: {len}\r\n")),
            "{head}"
        );
        let is_coded = seed == 4 && path == "/page.html" || seed == 6;
        assert_eq!(head.contains("Content-Encoding: "), is_coded, "{head}");
        assert_eq!(head.contains("Vary: "), path.ends_with(".html"), "{head}");
    }
}

/// Only what is asked for of 8 GiB is read.
#[test]
fn parts_of_a_file_longer_than_memory_are_read_alone() {
    const HUGE: u64 = 8 << 30;
    let folder = folder();
    let file = std::fs::File::create(folder.path("huge.bin")).unwrap();
    file.set_len(HUGE).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"the end", HUGE - 7).unwrap();
    drop(file);
    for disk in disks() {
        let name = disk.name();
        let site = folder.load_within(limits());
        let mut visit = long::visit(site, disk, 64);
        let request = format!("Range: bytes=5-6,{}-,-7\r\n", HUGE - 70_000);
        let place = visit.ask("10.0.0.1", get(&request).replace("long", "huge").as_bytes());
        long::run(&mut visit, Duration::from_secs(1), usize::MAX);
        let got = &visit.connections[place].received;
        let text = String::from_utf8_lossy(got);
        let range = format!(
            "Content-Range: bytes {}-{}/{HUGE}\r\n",
            HUGE - 70_000,
            HUGE - 1
        );
        assert!(text.contains(&range), "{name}: {text}");
        assert!(text.contains("the end\r\n--exos-"), "{name}");
        assert!(
            visit.cheetah.streams().memory_len() <= 4 * CHUNK_LEN,
            "{name}"
        );
    }
}
