//! Requests and the responses they get, as tables; each request also cut in two at every byte.

use crate::common;

use common::{
    Client, Closed, NOW_SECS, Open, check, exchange, exchange_in_pieces, get, server, tag_of,
};
use std::sync::Arc;

use exos_cheetah::applications::rules::{Rule, Rules, Scope};
use exos_cheetah::applications::{Address, Application};
use exos_cheetah::http::Attempt;
use exos_cheetah::log::Unfinished;
use exos_cheetah::site::{Description, Document, Settings};
use exos_cheetah::{Server, ServerConnection, Site, Status};

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
        let mut connection = ServerConnection::new();
        connection.refuse(&mut server, status, b"", &Attempt::default(), &mut out);
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
    // Beside what waits to be logged.
    assert!(size_of::<ServerConnection>() - size_of::<Unfinished>() <= 16);
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

/// A document that is a script by its name, of which no application is asked: a bare extension has no name before it.
#[test]
fn the_source_of_a_script_is_refused_where_nothing_runs_it() {
    let address = Address::parse("/run/app").unwrap();
    let rule = Rule {
        scope: Scope::extension(".php").unwrap(),
        application: Arc::new(Application::at(address)),
    };
    let mut site = Site::with(Arc::new(Settings {
        applications: Rules::new(vec![rule]),
        ..Settings::default()
    }));
    let source = Document::new(b"<?php source", &Description::plain("text/plain", 0));
    site.insert(b"/a/.php", source);
    let mut server = Server::new(site, NOW_SECS);
    let mut client = Client::new(&mut server, usize::MAX);
    client.send(get("/a/.php", "").as_bytes());
    let outcome = client.end();
    assert_eq!(outcome.statuses(), [403]);
    assert!(!outcome.text().contains("source"));
}

/// What came before the handshake of TLS was over may have been sent by somebody else: what changes nothing is answered, and other
/// requests wait, with all that follows them (RFC 8470 §3).
#[test]
fn an_unsafe_request_waits_for_the_end_of_a_handshake() {
    let early = Attempt {
        is_early: true,
        ..Attempt::default().by_https(true)
    };
    let post = "POST /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab";
    // What follows a change of protocol may do anything.
    let upgrade = get("/a.txt", "Connection: upgrade\r\nUpgrade: websocket\r\n");
    for (held, code) in [(post, "405"), (&upgrade, "200")] {
        waits_for_the_end_of_a_handshake(early, held, code);
    }
}

fn waits_for_the_end_of_a_handshake(early: Attempt<'_>, held: &str, code: &str) {
    let all = [&get("/a.txt", ""), held, &get("/a.txt", "")].concat();
    let (mut server, mut connection) = (server(), ServerConnection::new());
    let mut out = Vec::new();
    let first = connection.handle_again(&mut server, all.as_bytes(), usize::MAX, early, &mut out);
    assert_eq!(first.responses, 1);
    let rest = &all.as_bytes()[first.consumed..];
    assert!(rest.starts_with(held.as_bytes()));
    for _ in 0..3 {
        let again = connection.handle_again(&mut server, rest, usize::MAX, early, &mut out);
        assert_eq!((again.responses, again.consumed), (0, 0));
    }
    let late = Attempt::default().by_https(true);
    let last = connection.handle_again(&mut server, rest, usize::MAX, late, &mut out);
    assert_eq!((last.responses, last.consumed), (2, rest.len()));
    let text: String = out
        .iter()
        .map(|it| String::from_utf8_lossy(it.as_bytes()))
        .collect();
    let codes: Vec<&str> = text.split("HTTP/1.1 ").skip(1).map(|it| &it[..3]).collect();
    assert_eq!(codes, ["200", code, "200"]);
}
