//! Documents in memory that another process writes: on every carrier the bytes of a response are those that it has otherwise, and nothing of
//! them is kept in this process.

use std::time::Duration;

use exos_buf::{Foreign, SharedBytes};
use exos_cheetah::Site;
use exos_cheetah::connections::Specialisation;
use exos_cheetah::site::document::{Draft, FileContent};
use exos_cheetah::site::{Description, Document};

use super::sockets::Running;
use crate::common::MODIFIED_SECS;
use crate::common::frames::{FrameClient, request};
use crate::common::quic::World;
use crate::common::visit::Visit;

const LEN: usize = 300_001;

fn content() -> Vec<u8> {
    (0..LEN).map(|n| (n / 7 + n % 251) as u8).collect()
}

struct Theirs(Vec<u8>);

impl Foreign for Theirs {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn copy_to(&self, start: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.0[start..start + out.len()]);
    }

    fn taken(&self) -> u64 {
        self.0.len() as u64
    }
}

fn theirs() -> SharedBytes {
    SharedBytes::foreign(Box::new(Theirs(content())))
}

fn site(lent: Option<SharedBytes>) -> Site {
    let mut site = crate::common::site();
    let description = Description::plain("text/plain", MODIFIED_SECS);
    let bytes = content();
    let draft = Draft::of_file(&FileContent { bytes, lent }, &description);
    site.insert(b"/big", Document::from(draft));
    site
}

/// What is fetched of two sites, which is the same, and of the other of which nothing stays.
fn compare<T: PartialEq>(fetch: impl Fn(Site) -> T) {
    let theirs = theirs();
    theirs.prepare_sums();
    let before = theirs.memory_len();
    let wanted = fetch(site(None));
    assert!(fetch(site(Some(theirs.clone()))) == wanted);
    assert_eq!(theirs.memory_len(), before, "no copy of all is kept");
}

const ASKED: [(&str, &str); 7] = [
    ("GET", ""),
    ("HEAD", ""),
    ("GET", "Range: bytes=0-0\r\n"),
    ("GET", "Range: bytes=1001-250000\r\n"),
    ("GET", "Range: bytes=5-9,70001-90000,-1\r\n"),
    ("GET", "Range: bytes=400000-\r\n"),
    (
        "GET",
        "If-Modified-Since: Sun, 06 Nov 2033 08:49:37 GMT\r\n",
    ),
];

fn text(method: &str, fields: &str) -> String {
    format!("{method} /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n")
}

#[test]
fn in_packets() {
    let none = &[][..];
    for without in [
        none,
        &[Specialisation::PrecomputedChecksums],
        &[Specialisation::PrecomputedHeaders],
        &[Specialisation::MergedCache],
    ] {
        compare(|site| {
            let mut visit = Visit::new(site, |_| {});
            visit.do_without(without);
            for (method, fields) in ASKED {
                visit.ask("10.0.0.1", text(method, fields).as_bytes());
                visit.run(Duration::from_secs(1), 10_000_000);
            }
            let sides = visit.connections.into_iter();
            sides.map(|side| side.received).collect::<Vec<_>>()
        });
    }
}

/// As documents of this process alone make them, but for the date.
fn undated(response: &[u8]) -> Vec<u8> {
    let date = response.windows(6).position(|it| it == b"Date: ");
    let date = date.expect("each has one");
    [&response[..date], &response[date + 35..]].concat()
}

#[test]
fn on_sockets() {
    let theirs = theirs();
    theirs.prepare_sums();
    let (before, lent) = (theirs.memory_len(), theirs.clone());
    let (plain, other) = (
        Running::start_with(|| site(None)),
        Running::start_with(move || site(Some(lent))),
    );
    for (method, fields) in ASKED {
        let text = text(method, fields);
        let wanted = undated(&plain.ask(&[text.as_bytes()]));
        let got = undated(&other.ask(&[text.as_bytes()]));
        assert!(got == wanted, "{method} {fields}");
    }
    // And by HTTP/2 in frames, with windows that cut it anywhere.
    let fetch = |running: &Running| {
        let mut client = FrameClient::new(running.connect(), 1 << 30);
        let got = client.ask(1, &request(1, "GET", "/big", &[], true));
        let range = [("range", "bytes=77-9000,70000-200000")];
        let parts = client.ask(3, &request(3, "GET", "/big", &range, true));
        (got.body, parts.body)
    };
    assert!(fetch(&other) == fetch(&plain));
    plain.finish();
    other.finish();
    assert_eq!(theirs.memory_len(), before, "no copy of all is kept");
}

#[test]
fn over_http_3() {
    compare(|site| {
        let mut world = World::new(3, site);
        world.lost_percent = 5;
        let client = world.connect();
        let time = Duration::from_secs(60);
        assert!(world.run_until(time, |world| world.clients[client].stands));
        for range in ["", "bytes=1001-250000", "bytes=5-9,70001-90000,-1"] {
            let range = [("range", range)];
            let fields = if range[0].1.is_empty() {
                &[][..]
            } else {
                &range
            };
            world.clients[client].ask("GET", "/big", fields);
        }
        assert!(world.run_until(time, |world| {
            let mut all = world.clients[client].responses.values();
            all.all(|it| it.ended.is_some())
        }));
        let all = world.clients[client].responses.values();
        all.map(|it| (it.fields.clone(), it.body.clone()))
            .collect::<Vec<_>>()
    });
}
