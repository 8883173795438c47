//! HTTP/3 against a client of quinn-proto, over a wire that loses datagrams, on virtual time.

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use exos_cheetah::Site;
use exos_cheetah::applications::rules::{Rule, Scope};
use exos_cheetah::applications::{Address, Application, Place, Rules};
use exos_cheetah::limits::{QUIC_WAITING_LEN_MAX, RECEIVE_BUFFER_LEN};
use exos_cheetah::site::{Description, Document, Settings};
use exos_http3::Fault;
use exos_http3::frame::kind;

use crate::common::MODIFIED_SECS;
use crate::common::quic::{Response, World, framed, request};

pub(super) const TIME: Duration = Duration::from_secs(60);

/// Bytes that no two places have the same of.
pub(super) fn content(len: usize) -> Vec<u8> {
    let words = (0..len as u32 / 4 + 1).flat_map(u32::to_be_bytes);
    words.take(len).collect()
}

fn site() -> Site {
    let mut site = crate::common::site();
    let description = Description::plain("application/octet-stream", MODIFIED_SECS);
    site.insert(b"/long", Document::new(&content(700_000), &description));
    site
}

/// A client whose connection stands.
pub(super) fn connected(world: &mut World) -> usize {
    let client = world.connect();
    assert!(world.run_until(TIME, |world| world.clients[client].stands));
    client
}

pub(super) fn have_ended(world: &World) -> bool {
    let all = world.clients.iter().flat_map(|it| it.responses.values());
    all.clone().all(|it| it.ended.is_some())
}

fn asked(world: &mut World, method: &str, path: &str, more: &[(&str, &str)]) -> Response {
    let stream = world.clients[0].ask(method, path, more);
    assert!(world.run_until(TIME, have_ended));
    world.clients[0].responses[&stream].clone()
}

#[test]
fn requests_are_answered_as_on_other_carriers() {
    let mut world = World::new(1, site());
    connected(&mut world);
    let whole = asked(&mut world, "GET", "/a.txt", &[]);
    assert_eq!((&*whole.status, &whole.body[..]), ("200", &b"text a"[..]));
    assert_eq!(whole.field("content-length"), Some("6"));
    assert_eq!(whole.ended, Some(Ok(())));
    let head = asked(&mut world, "HEAD", "/a.txt", &[]);
    assert_eq!((&head.fields, head.body.len()), (&whole.fields, 0));
    let etag = whole.field("etag").unwrap().to_owned();
    let unchanged = asked(&mut world, "GET", "/a.txt", &[("if-none-match", &etag)]);
    assert_eq!((&*unchanged.status, unchanged.body.len()), ("304", 0));
    let part = asked(&mut world, "GET", "/long", &[("range", "bytes=4000-4007")]);
    assert_eq!(
        (&*part.status, &part.body[..]),
        ("206", &content(4008)[4000..])
    );
    for (method, path, status) in [
        ("GET", "/none", "404"),
        ("GET", "/secret", "403"),
        ("DELETE", "/a.txt", "405"),
        ("BREW", "/a.txt", "501"),
        ("OPTIONS", "*", "200"),
    ] {
        let response = asked(&mut world, method, path, &[]);
        assert_eq!(response.status, status, "{method} {path}");
    }
    let long = "x".repeat(1000);
    let many: Vec<(&str, &str)> = (0..20).map(|_| ("a", &*long)).collect();
    assert_eq!(asked(&mut world, "GET", "/a.txt", &many).status, "431");
    assert_eq!(world.counter("http3_requests"), 10);
    assert_eq!(world.clients[0].closed, None);
}

/// Of every seven datagrams one is lost, in both directions.
#[test]
fn documents_come_whole_over_a_bad_wire() {
    for seed in 0..5 {
        let mut world = World::new(seed, site());
        world.lost_percent = 14;
        for _ in 0..3 {
            let client = connected(&mut world);
            for path in ["/long", "/a.txt", "/long", "/empty", "/bare/deep/b.txt"] {
                world.clients[client].ask("GET", path, &[]);
            }
        }
        assert!(world.run_until(TIME, have_ended), "seed {seed}");
        for client in &world.clients {
            let all: Vec<&Response> = client.responses.values().collect();
            let bodies: Vec<&[u8]> = all.iter().map(|it| &it.body[..]).collect();
            let long = content(700_000);
            let wanted = [&long[..], b"text a", &long, b"", b"text b"];
            assert_eq!(bodies, wanted, "seed {seed}");
            assert!(all.iter().all(|it| it.ended == Some(Ok(()))));
        }
        let is_alone = |world: &World| world.cheetah.is_alone();
        assert!(world.run_until(TIME, is_alone), "seed {seed}");
    }
}

/// RFC 9114 §5.2.
#[test]
fn a_server_goes_away_behind_what_is_under_way() {
    let mut world = World::new(1, site());
    connected(&mut world);
    let stream = world.clients[0].ask("GET", "/long", &[]);
    let has_begun = |world: &World| !world.clients[0].responses[&stream].body.is_empty();
    assert!(world.run_until(TIME, has_begun));
    world.stop();
    let late = world.clients[0].ask("GET", "/a.txt", &[]);
    assert!(world.run_until(TIME, |world| world.clients[0].closed.is_some()));
    let client = &world.clients[0];
    assert_eq!(client.responses[&stream].body, content(700_000));
    let refused = client.responses[&late].ended;
    assert!(
        refused.is_none() || refused == Some(Err(0x10b)),
        "{refused:?}"
    );
    assert_eq!(client.closed, Some(0x100));
    // It is the stream behind the one that is answered.
    assert!(client.control.ends_with(&[7, 1, 4]), "{:?}", client.control);
    assert!(world.run_until(TIME, |world| world.quic.open() == 0));
    let client = world.connect();
    assert!(!world.run_until(Duration::from_secs(2), |world| world.clients[client].stands));
    assert_eq!(world.counter("quic_refused_full"), 1);
}

/// A client without requests hears that it is to ask elsewhere before its connection ends, and what it asks in between is not handled.
#[test]
fn an_idle_client_hears_that_the_server_goes_away() {
    let mut world = World::new(3, site());
    connected(&mut world);
    asked(&mut world, "GET", "/a.txt", &[]);
    world.stop();
    let goodbye = exos_http3::frame::go_away(4);
    let heard = |world: &World| world.clients[0].control.ends_with(&goodbye);
    assert!(world.run_until(TIME, heard));
    assert_eq!(world.clients[0].closed, None);
    let late = world.clients[0].ask("GET", "/a.txt", &[]);
    assert!(world.run_until(TIME, |world| world.clients[0].closed == Some(0x100)));
    // It is refused, or the end of the connection comes first.
    let refused = world.clients[0].responses[&late].ended;
    assert!(
        refused.is_none() || refused == Some(Err(0x10b)),
        "{refused:?}"
    );
    assert_eq!(world.counter("http3_requests"), 1);
}

#[test]
fn what_breaks_the_rules_ends_the_request_or_the_connection() {
    let get = || request("GET", "/a.txt", &[]);
    for (bytes, fault) in [
        (framed(kind::DATA, b"1"), Fault::FrameUnexpected),
        (framed(kind::HEADERS, b"\x02\x00\x80"), Fault::Compression),
        ([get(), framed(6, b"")].concat(), Fault::FrameOfHttp2),
        ([get(), vec![0, 5]].concat(), Fault::FrameTruncated),
        (
            request("GET", "/a", &[("connection", "close")]),
            Fault::Malformed,
        ),
        (
            request("PUT", "/a", &[("content-length", "5")]),
            Fault::ContentLength,
        ),
        (Vec::new(), Fault::Incomplete),
    ] {
        let mut world = World::new(1, site());
        connected(&mut world);
        let stream = world.clients[0].send(bytes, true);
        let code = u64::from(fault.code().0);
        let is_over = |world: &World| {
            let client = &world.clients[0];
            match fault.is_of_stream() {
                true => client.responses[&stream].ended == Some(Err(code)),
                false => client.closed == Some(code),
            }
        };
        assert!(world.run_until(TIME, is_over), "{fault:?}");
        let name = format!("http3_fault_{}", fault.reason());
        assert_eq!(world.counter(&name), 1);
        assert!(
            world.run_until(TIME, |world| world.cheetah.is_alone()),
            "{fault:?}"
        );
        if fault.is_of_stream() {
            assert_eq!(asked(&mut world, "GET", "/a.txt", &[]).status, "200");
        }
    }
}

/// RFC 9000 §8.1.2: beyond some handshakes under way, clients show first that they receive at their address.
#[test]
fn many_clients_at_once_are_asked_for_their_address() {
    let mut world = World::new(1, site());
    for _ in 0..100 {
        world.connect();
    }
    assert!(world.run_until(TIME, |world| world.clients.iter().all(|it| it.stands)));
    let has_all = |world: &World| world.counter("quic_connections") == 100;
    assert!(world.run_until(TIME, has_all));
    assert!(world.counter("quic_retries") > 0);
}

/// Nothing is kept of connections on which nothing is asked, nor of requests that do not become whole.
#[test]
fn what_waits_for_too_long_ends() {
    let mut world = World::new(1, site());
    connected(&mut world);
    let stream = world.clients[0].send(vec![1, 40], false);
    let is_reset = |world: &World| world.clients[0].responses[&stream].ended.is_some();
    assert!(world.run_until(TIME, is_reset));
    let reset = &world.clients[0].responses[&stream];
    assert_eq!(reset.ended, Some(Err(0x10d)));
    assert_eq!(world.counter("http3_request_timeouts"), 1);
    assert!(world.run_until(2 * TIME, |world| world.quic.open() == 0));
}

/// A client that takes ten kilobytes a second takes longer than a response may stand still: it goes on as long as that moves.
#[test]
fn a_slow_client_gets_all() {
    let mut world = World::new(1, site());
    connected(&mut world);
    world.rate = Some(10_000);
    let stream = world.clients[0].ask("GET", "/long", &[]);
    assert!(world.run_until(5 * TIME, have_ended));
    let response = &world.clients[0].responses[&stream];
    assert_eq!(response.ended, Some(Ok(())));
    assert_eq!(response.body, content(700_000));
}

/// Connections that begin while others end take nothing of what these had, whatever numbers they get.
#[test]
fn connections_that_are_over_leave_nothing() {
    let mut world = World::new(1, site());
    for _ in 0..200 {
        let client = connected(&mut world);
        world.close(client);
        // Others begin at each moment of its end.
        let steps = Duration::from_millis(world.clients.len() as u64 % 97);
        world.run_until(steps, |_| false);
    }
    assert!(world.run_until(TIME, |world| world.quic.open() == 0));
    assert_eq!(world.counter("quic_connections"), 200);
    assert_eq!(world.counter("quic_handshakes_left"), 0);
}

/// CVE-2023-44487, by QUIC.
#[test]
fn requests_that_are_given_up_in_numbers_end_the_connection() {
    let mut world = World::new(1, site());
    connected(&mut world);
    for _ in 0..60 {
        for _ in 0..10 {
            if world.clients[0].closed.is_none() {
                // A request that breaks the rules costs as much as one that is given up.
                world.clients[0].send(Vec::new(), true);
            }
        }
        world.run_until(Duration::from_millis(50), |_| false);
    }
    assert_eq!(
        world.clients[0].closed,
        Some(u64::from(Fault::WasteFlood.code().0))
    );
}

/// Bodies that nobody takes leave room for requests without one, however long the head of these is, and whether its end comes with it.
#[test]
fn heads_do_not_wait_for_bodies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    // It hears, and never reads.
    let _listener = UnixListener::bind(&path).unwrap();
    let mut application = Application::at(Address::Fastcgi(Place::Unix(path.as_path().into())));
    application.connections = 1;
    application.body_max = 1 << 30;
    let mut site = Site::with(Arc::new(Settings {
        applications: Rules::new(vec![Rule {
            scope: Scope::path("/up").unwrap(),
            application: Arc::new(application),
        }]),
        ..Settings::default()
    }));
    let description = Description::plain("text/plain", MODIFIED_SECS);
    site.insert(b"/a.txt", Document::new(b"text a", &description));
    let mut world = World::new(1, site);
    connected(&mut world);
    for _ in 0..=QUIC_WAITING_LEN_MAX / RECEIVE_BUFFER_LEN as usize + 1 {
        let mut upload = request("POST", "/up", &[("content-length", "100000000")]);
        upload.extend(framed(kind::DATA, &vec![b'x'; RECEIVE_BUFFER_LEN as usize]));
        world.clients[0].send(upload, false);
    }
    world.run_until(Duration::from_secs(1), |_| false);
    let long = "x".repeat(10_000);
    let stream = world.clients[0].ask("GET", "/a.txt", &[("a", &long)]);
    let has_come = |world: &World| world.clients[0].responses[&stream].ended.is_some();
    assert!(world.run_until(Duration::from_secs(1), has_come));
    assert_eq!(world.clients[0].responses[&stream].body, b"text a");
}
