//! The status pages, through connections: who finds them, and what they say.

use crate::common::visit;

use std::time::Duration;

use exos_cheetah::site::Sites;
use exos_cheetah::site::hosts::{HostName, Unknown};
use exos_cheetah::status::{Allowed, Snapshot, StatusPages};
use exos_cheetah::{Server, ServerConnection};
use visit::{Visit, big};

fn with_pages(server: &mut Server) {
    let prefix = "10.0.0.1/32".parse().expect("a prefix");
    let mut pages = StatusPages::new("/.exos", Allowed::new(Vec::new(), vec![prefix]));
    let snapshot = Snapshot {
        connections: 7,
        counters: vec![("http_responses_200".into(), 5)],
        ..Snapshot::default()
    };
    pages.update(exos_inet::Instant::from_millis(1), snapshot);
    server.set_status_pages(pages);
}

/// What a client at this address is answered, without the line that says when.
fn fetch(visit: &mut Visit, from: &str, method: &str, path: &str) -> String {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let place = visit.ask(from, request.as_bytes());
    visit.run(Duration::from_millis(200), 10_000_000);
    let text = String::from_utf8_lossy(&visit.connections[place].received).into_owned();
    let lines = text
        .split("\r\n")
        .filter(|line| !line.starts_with("Date: "));
    lines.collect::<Vec<_>>().join("\r\n")
}

#[test]
fn who_is_allowed_finds_them_and_others_nothing() {
    let mut visit = Visit::new(big(10), with_pages);
    for (path, part) in [
        ("/.exos", "<tr><td>Open connections<td>7\n"),
        ("/.exos/", "<h1>exos serve</h1>"),
        (
            "/.exos/metrics",
            "\nexos_serve_http_responses_total{status=\"200\"} 5\n",
        ),
        ("/.exos/metrics?x=1", "\nexos_serve_connections 7\n"),
        ("/%2eexos/status.json", "\"connections\":7,"),
    ] {
        let page = fetch(&mut visit, "10.0.0.1", "GET", path);
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {page}");
        assert!(page.contains(part), "no {part:?} in {page}");
        let head = fetch(&mut visit, "10.0.0.1", "HEAD", path);
        assert!(
            page.starts_with(&head) && head.ends_with("\r\n\r\n"),
            "{head}"
        );
        for from in ["10.0.0.3", "fd00::1"] {
            let missing = fetch(&mut visit, from, "GET", "/none");
            assert!(missing.starts_with("HTTP/1.1 404 "), "{missing}");
            assert_eq!(
                fetch(&mut visit, from, "GET", path),
                missing,
                "{from} {path}"
            );
            let options = fetch(&mut visit, from, "OPTIONS", "/none");
            assert_eq!(fetch(&mut visit, from, "OPTIONS", path), options);
        }
    }
    let allow = fetch(&mut visit, "10.0.0.1", "OPTIONS", "/.exos");
    assert!(
        allow.contains("\r\nAllow: GET, HEAD, OPTIONS\r\n"),
        "{allow}"
    );
    let post = fetch(&mut visit, "10.0.0.1", "POST", "/.exos");
    assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
}

/// Prometheus asks by the address: that is no host of somebody else's. A name that nobody has is.
#[test]
fn pages_are_seen_by_address_where_unknown_hosts_are_refused() {
    let site = |names: &[&str]| {
        let names = names.iter().map(|name| HostName::parse(name).unwrap());
        (names.collect(), big(10))
    };
    let sites = Sites::new(vec![site(&["example.org"])], 0, Unknown::Refuse);
    let mut server = Server::new(sites, 0);
    with_pages(&mut server);
    for (peer, host, path, want) in [
        ("10.0.0.1", "192.0.2.7:80", "/.exos/metrics", 200),
        ("10.0.0.1", "[2001:db8::7]", "/.exos/metrics", 200),
        ("10.0.0.1", "example.org", "/.exos/metrics", 200),
        ("10.0.0.1", "rebound.test", "/.exos/metrics", 421),
        ("10.0.0.1", "192.0.2.7", "/big", 421),
        ("10.0.0.3", "192.0.2.7", "/.exos/metrics", 421),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let mut out = Vec::new();
        let attempt = crate::sites::from(peer, 0);
        ServerConnection::new().handle_again(
            &mut server,
            request.as_bytes(),
            1 << 20,
            attempt,
            &mut out,
        );
        let said = String::from_utf8_lossy(out[0].as_bytes()).into_owned();
        assert!(
            said.starts_with(&format!("HTTP/1.1 {want} ")),
            "{peer} {host} {path}: {said}"
        );
    }
}

#[test]
fn documents_of_the_site_come_first() {
    let mut site = big(10);
    let description = exos_cheetah::site::Description::plain("text/plain", 0);
    let document = exos_cheetah::site::Document::new(b"mine", &description);
    site.insert(b"/.exos/metrics", document);
    let mut visit = Visit::new(site, with_pages);
    assert!(fetch(&mut visit, "10.0.0.1", "GET", "/.exos/metrics").ends_with("mine"));
    let json = fetch(&mut visit, "10.0.0.1", "GET", "/.exos/status.json");
    assert!(json.starts_with("HTTP/1.1 200 "), "{json}");
}
