//! Requests and answers as they go on, with their bodies and hints.

use std::io::Write as _;

use exos_cheetah::applications::proxy::setting::{SetField, Value};

use super::{World, answer, ask, bytes, head, is, to_the_end};
use crate::common::frames::{FrameClient, request};

#[test]
fn requests_go_over_a_connection_that_is_kept() {
    let world = World::new(1, |_, _| {});
    let mut client = world.client(&ask("GET", "/a?b"));
    let mut upstream = world.accept();
    let asked = head(&mut upstream);
    assert!(
        asked.starts_with("GET /a?b HTTP/1.1\r\nHost: a.test\r\n"),
        "{asked}"
    );
    answer(&mut upstream, "one");
    is(&mut client, "200", "one");
    for method in ["GET", "DELETE"] {
        client.write_all(ask(method, "/b").as_bytes()).unwrap();
        assert!(head(&mut upstream).starts_with(method));
        answer(&mut upstream, "two");
        is(&mut client, "200", "two");
    }
    // HEAD, and what has no content, leave it open, too.
    client.write_all(ask("HEAD", "/c").as_bytes()).unwrap();
    head(&mut upstream);
    upstream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")
        .unwrap();
    assert!(head(&mut client).contains("\r\nContent-Length: 7\r\n"));
    client.write_all(ask("GET", "/d").as_bytes()).unwrap();
    head(&mut upstream);
    upstream.write_all(b"HTTP/1.1 204 None\r\n\r\n").unwrap();
    is(&mut client, "204", "");
    client.write_all(ask("GET", "/e").as_bytes()).unwrap();
    head(&mut upstream);
    answer(&mut upstream, "three");
    is(&mut client, "200", "three");
}

/// Fields behind a chunked body go on behind it, but those that are a head's.
#[test]
fn what_is_behind_a_body_goes_on_in_chunks() {
    let world = World::new(1, |_, _| {});
    let mut client = world.client(
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nhel\r\n2;x\r\nlo\r\n0\r\nA: b\r\nHost: c\r\nX-Forwarded-For: 9.9.9.9\r\n\r\n",
    );
    let mut upstream = world.accept();
    let asked = head(&mut upstream);
    assert!(
        asked.contains("\r\nTransfer-Encoding: chunked\r\n"),
        "{asked}"
    );
    assert!(!asked.contains("Content-Length"), "{asked}");
    let wanted = "5\r\nhello\r\n0\r\nA: b\r\n\r\n";
    assert_eq!(bytes(&mut upstream, wanted.len()), wanted);
    answer(&mut upstream, "one");
    is(&mut client, "200", "one");
}

#[test]
fn a_body_goes_on_with_its_length() {
    let world = World::new(1, |_, _| {});
    let long = "x".repeat(300_000);
    for (framing, sent, content) in [
        ("Content-Length: 5", "hello", "hello"),
        (
            "Transfer-Encoding: chunked",
            "3\r\nhel\r\n2;x\r\nlo\r\n0\r\n\r\n",
            "hello",
        ),
        ("Transfer-Encoding: chunked", "0\r\n\r\n", ""),
        ("Content-Length: 300000", &long, &long),
    ] {
        let request =
            format!("POST /a HTTP/1.1\r\nHost: a\r\n{framing}\r\nConnection: close\r\n\r\n");
        let mut client = world.client(&request);
        let mut sender = client.try_clone().unwrap();
        let sent = sent.to_owned();
        let sending = std::thread::spawn(move || sender.write_all(sent.as_bytes()).unwrap());
        let mut upstream = world.accept();
        let asked = head(&mut upstream);
        let length = format!("\r\nContent-Length: {}\r\n", content.len());
        assert!(asked.contains(&length), "{asked}");
        assert!(!asked.contains("Transfer-Encoding"), "{asked}");
        assert_eq!(bytes(&mut upstream, content.len()), content);
        // An upstream that closes is not asked again.
        upstream
            .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
            .unwrap();
        is(&mut client, "200", "ok");
        sending.join().unwrap();
    }
}

#[test]
fn leave_to_send_a_body_is_given_here() {
    let world = World::new(1, |_, _| {});
    let mut client = world
        .client("POST /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert!(head(&mut client).starts_with("HTTP/1.1 100 "));
    client.write_all(b"ab").unwrap();
    let mut upstream = world.accept();
    assert!(!head(&mut upstream).contains("Expect"));
    assert_eq!(bytes(&mut upstream, 2), "ab");
    answer(&mut upstream, "x");
    is(&mut client, "200", "x");
}

#[test]
fn answers_are_framed_for_the_client() {
    let world = World::new(1, |_, _| {});
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n";
    let closed = "HTTP/1.0 200 OK\r\n\r\nabcde";
    for (version, said) in [
        ("1.1", chunked),
        ("1.1", closed),
        ("1.0", chunked),
        ("1.0", closed),
    ] {
        let request = format!("GET / HTTP/{version}\r\nHost: a\r\nConnection: close\r\n\r\n");
        let mut client = world.client(&request);
        let mut upstream = world.accept();
        head(&mut upstream);
        upstream.write_all(said.as_bytes()).unwrap();
        drop(upstream);
        let all = to_the_end(&mut client);
        let (head, body) = all.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("\r\nConnection: close"), "{head}");
        match version {
            "1.0" => assert_eq!(body, "abcde"),
            _ => assert!(
                body.contains("abc") && body.ends_with("0\r\n\r\n"),
                "{body}"
            ),
        }
        assert_eq!(
            head.contains("\r\nTransfer-Encoding: chunked"),
            version == "1.1"
        );
    }
}

/// Over HTTP/2 hints are header blocks before that of the answer.
#[test]
fn early_hints_go_on_over_http2() {
    let world = World::new(1, |_, _| {});
    let mut client = FrameClient::new(world.server.connect(), 1 << 20);
    client.send(&request(1, "GET", "/", &[], true));
    let mut upstream = world.accept();
    head(&mut upstream);
    upstream
        .write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        .unwrap();
    client.until(|client| client.responses.contains_key(&1));
    let hints = client.responses[&1].fields.clone();
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(hints, [field(":status", "103"), field("link", "</a>")]);
    answer(&mut upstream, "page");
    client.until(|client| client.responses[&1].is_whole);
    let response = &client.responses[&1];
    assert_eq!(response.fields[2], field(":status", "200"));
    assert_eq!(response.body, b"page");
}

/// Hints come before the answer, and to clients that know of them.
#[test]
fn early_hints_go_on() {
    let world = World::new(1, |_, _| {});
    for version in ["1.1", "1.0"] {
        let request = format!("GET / HTTP/{version}\r\nHost: a\r\nConnection: close\r\n\r\n");
        let mut client = world.client(&request);
        let mut upstream = world.accept();
        head(&mut upstream);
        upstream
            .write_all(
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
            )
            .unwrap();
        if version == "1.1" {
            assert_eq!(
                head(&mut client),
                "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
            );
        }
        upstream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na")
            .unwrap();
        is(&mut client, "200", "a");
    }
}

#[test]
fn redirects_to_the_upstream_itself_lead_to_the_rules_path() {
    let world = World::new(1, |_, proxy| proxy.base = Some("/v2".to_owned()));
    let at = world.upstreams[0].local_addr().unwrap();
    for (location, wanted) in [
        (format!("http://{at}/v2/x?y"), "/x?y".to_owned()),
        (
            format!("http://{at}/elsewhere"),
            format!("http://{at}/elsewhere"),
        ),
        (
            "http://other.test/v2/x".to_owned(),
            "http://other.test/v2/x".to_owned(),
        ),
    ] {
        let mut client = world.client(&ask("GET", "/a"));
        let mut upstream = world.accept();
        head(&mut upstream);
        let answer = format!(
            "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\nLocation: {location}\r\n\r\n"
        );
        upstream.write_all(answer.as_bytes()).unwrap();
        let answered = head(&mut client);
        assert!(
            answered.contains(&format!("Location: {wanted}\r\n")),
            "{answered}"
        );
    }
}

/// The fields of a rule are there whatever carries the request, and none of that name behind its body.
#[test]
fn fields_of_a_rule_take_the_place_of_the_clients() {
    let world = World::new(1, |application, proxy| {
        application.keep = 0;
        proxy.set = vec![SetField {
            name: "X-Asks".to_owned(),
            values: vec![Value::parse("{client_address}").unwrap()],
        }];
    });
    let mut client = world.client(
        "POST /a HTTP/1.1\r\nHost: a\r\nX-Asks: 9.9.9.9\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\nA: b\r\nx-asks: 9.9.9.9\r\n\r\n",
    );
    let mut upstream = world.accept();
    let first = head(&mut upstream);
    let wanted = "5\r\nhello\r\n0\r\nA: b\r\n\r\n";
    assert_eq!(bytes(&mut upstream, wanted.len()), wanted);
    answer(&mut upstream, "one");
    is(&mut client, "200", "one");
    let mut client = FrameClient::new(world.server.connect(), 1 << 20);
    let fields = [("x-asks", "9.9.9.9")];
    client.send(&request(1, "GET", "/a", &fields, true));
    let mut upstream = world.accept();
    for head in [first, head(&mut upstream)] {
        assert!(head.contains("\r\nX-Asks: 127.0.0.1\r\n"), "{head}");
        assert!(!head.contains("9.9.9.9"), "{head}");
    }
}
