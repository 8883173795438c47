//! HTTP/2 on the kernel's sockets: what is answered is what HTTP/1.1 is answered, on as many streams as there are.

use std::io::{Read as _, Write as _};

use exos_http2::ErrorCode;
use exos_http2::frame::{self, flag, kind};

use exos_cheetah::connections::Bounds;
use exos_cheetah::log::Format;

use super::applications::World;
use super::sockets::{Running, site};
use crate::common::frames::{FrameClient, Response, framed, request, window};
use crate::sites::access_log::LogFile;

/// Everything that is in memory, and nothing that holds a response back.
const WIDE: u32 = 1 << 30;

/// The response of HTTP/1.1 to a request, as HTTP/2 would have it: without what is about the connection, and the date.
fn as_http_2(response: &[u8]) -> Response {
    let end = response
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .expect("a head")
        + 4;
    let head = str::from_utf8(&response[..end]).expect("text");
    let mut lines = head.lines();
    let status = &lines.next().expect("a line")[9..12];
    let mut fields = vec![(":status".to_owned(), status.to_owned())];
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ").expect("a field");
        fields.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    fields.retain(|(name, _)| name != "connection" && name != "date");
    Response {
        fields,
        body: response[end..].to_vec(),
        is_whole: true,
        reset: None,
    }
}

fn without_date(mut response: Response) -> Response {
    response.fields.retain(|(name, _)| name != "date");
    response
}

type Fields = &'static [(&'static str, &'static str)];

/// Requests of all kinds, each with its fields.
const ASKED: [(&str, &str, Fields); 14] = [
    ("GET", "/", &[]),
    ("GET", "/a.txt", &[]),
    ("HEAD", "/a.txt", &[]),
    ("GET", "/empty", &[]),
    ("GET", "/dir", &[]),
    ("GET", "/dir/with%20space.txt", &[]),
    ("GET", "/none", &[]),
    ("HEAD", "/none", &[]),
    ("GET", "/secret", &[]),
    ("GET", "/a.txt", &[("range", "bytes=1-2,4-5")]),
    ("GET", "/a.txt", &[("range", "bytes=100-")]),
    ("GET", "/a.txt", &[("if-none-match", "*")]),
    ("OPTIONS", "*", &[]),
    ("BREW", "/a.txt", &[]),
];

#[test]
fn answers_are_those_of_http_1_1() {
    let running = Running::start();
    let mut client = FrameClient::new(running.connect(), WIDE);
    for (n, (method, path, fields)) in ASKED.into_iter().enumerate() {
        let lines: String = fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let text =
            format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{lines}\r\n");
        let wanted = as_http_2(&running.ask(&[text.as_bytes()]));
        let stream = 2 * n as u32 + 1;
        let got = client.ask(stream, &request(stream, method, path, fields, true));
        assert_eq!(without_date(got), wanted, "{method} {path}");
    }
    drop(client);
    assert_eq!(running.finish(), (0, 2 * ASKED.len() as u64));
}

/// However a client's windows and bytes are cut, a long document arrives whole, beside others.
#[test]
fn long_documents_arrive_by_their_windows() {
    let running = Running::start();
    let mut client = FrameClient::new(running.connect(), 10_000);
    for byte in request(1, "GET", "/big", &[], true) {
        client.send(&[byte]);
    }
    let document = site();
    let document = document
        .find(b"/big")
        .and_then(|entry| entry.document())
        .expect("it is there")
        .body();
    while client.responses.get(&1).is_none_or(|it| !it.is_whole) {
        let had = client.responses.get(&1).map_or(0, |it| it.body.len());
        client.until(|client| {
            client
                .responses
                .get(&1)
                .is_some_and(|it| it.body.len() > had)
        });
        client.send(&window(1, 300_000));
    }
    assert_eq!(client.responses[&1].body, document.as_bytes());
    let small = client.ask(3, &request(3, "GET", "/a.txt", &[], true));
    assert_eq!((small.status(), &small.body[..]), (200, &b"text a"[..]));
    drop(client);
    assert_eq!(running.finish(), (0, 2));
}

/// As many as may be at once, all of a document that no window lets pass; then these are opened, in any order.
#[test]
fn many_streams_share_a_connection() {
    let running = Running::start();
    let mut client = FrameClient::new(running.connect(), 0);
    let streams: Vec<u32> = (0..128).map(|n| 2 * n + 1).collect();
    let all: Vec<u8> = streams
        .iter()
        .flat_map(|n| request(*n, "GET", "/a.txt", &[], true))
        .collect();
    client.send(&all);
    client.until(|client| client.responses.len() == 128);
    client.send(&request(257, "GET", "/a.txt", &[], true));
    client.until(|client| {
        client
            .responses
            .get(&257)
            .is_some_and(|it| it.reset.is_some())
    });
    assert_eq!(
        client.responses[&257].reset,
        Some(ErrorCode::REFUSED_STREAM)
    );
    for stream in streams.iter().rev() {
        client.send(&window(*stream, 6));
    }
    client.until(|client| client.responses.values().filter(|it| it.is_whole).count() == 128);
    let is_right = |n: &u32| client.responses[n].body == b"text a";
    assert!(streams.iter().all(is_right));
    drop(client);
    assert_eq!(running.finish().0, 0);
}

/// RFC 9218: what is urgent comes before what is not, and those that are incremental take turns.
#[test]
fn urgent_responses_come_first() {
    let running = Running::start();
    let mut client = FrameClient::new(running.connect(), 0);
    for (stream, priority) in [(1, "u=5"), (3, "u=1, i"), (5, "u=1, i"), (7, "u=0")] {
        client.send(&request(
            stream,
            "GET",
            "/big",
            &[("priority", priority)],
            true,
        ));
    }
    client.until(|client| client.responses.len() == 4);
    let mut settings = Vec::new();
    frame::push_settings(&mut settings, &[(4, 100_000)]);
    client.send(&settings);
    client.until(|client| client.responses.values().all(|it| it.body.len() == 100_000));
    let mut order = client.order.clone();
    order.dedup();
    assert_eq!(order[0], 7);
    assert_eq!(order[1..5], [3, 5, 3, 5]);
    assert_eq!(order.last(), Some(&1));
    drop(client);
    assert_eq!(running.finish().0, 0);
}

/// CVE-2023-44487: who opens and gives up streams without end is sent away; others are served.
#[test]
fn rapid_resets_end_a_connection() {
    let running = Running::start();
    let mut other = FrameClient::new(running.connect(), WIDE);
    let mut client = FrameClient::new(running.connect(), WIDE);
    let reset = |n: u32| {
        let stream = 2 * n + 1;
        let code = ErrorCode::CANCEL.0.to_be_bytes();
        [
            request(stream, "GET", "/big", &[], true),
            framed(kind::RST_STREAM, 0, stream, &code),
        ]
        .concat()
    };
    client.send(&(0..400).flat_map(reset).collect::<Vec<u8>>());
    client.read_to_the_end();
    assert_eq!(
        client.gone.expect("a farewell").1,
        ErrorCode::ENHANCE_YOUR_CALM
    );
    let response = other.ask(1, &request(1, "GET", "/a.txt", &[], true));
    assert_eq!(response.body, b"text a");
    drop((client, other));
    assert_eq!(running.finish().0, 0);
}

/// A stop tells the client, takes what it has asked for until it has heard, and loses none of it.
#[test]
fn a_stop_loses_nothing() {
    let running = Running::start();
    let mut client = FrameClient::new(running.connect(), 0);
    client.send(&request(1, "GET", "/a.txt", &[], true));
    client.until(|client| client.responses.contains_key(&1));
    let stopped = std::thread::spawn(move || running.finish());
    client.until(|client| client.gone.is_some());
    assert_eq!(client.gone, Some(((1 << 31) - 1, ErrorCode::NO_ERROR)));
    client.send(&request(3, "GET", "/a.txt", &[], true));
    client.hear();
    client.until(|client| client.gone == Some((3, ErrorCode::NO_ERROR)));
    client.send(&[window(1, 100), window(3, 100)].concat());
    client.read_to_the_end();
    for stream in [1, 3] {
        assert_eq!(client.responses[&stream].body, b"text a");
    }
    drop(client);
    assert_eq!(stopped.join().expect("it ends"), (0, 2));
}

/// A body for which nobody has need is read to its end first; one that is too long is not.
#[test]
fn bodies_for_documents_are_thrown_away() {
    let running = Running::start();
    let mut client = FrameClient::new(running.connect(), WIDE);
    let end = |stream| framed(kind::DATA, flag::END_STREAM, stream, b"12345");
    let post = request(1, "POST", "/a.txt", &[("content-length", "5")], false);
    let response = client.ask(1, &[post, end(1)].concat());
    assert_eq!(response.status(), 405);
    let response = client.ask(
        3,
        &[request(3, "GET", "/a.txt", &[], false), end(3)].concat(),
    );
    assert_eq!(response.status(), 200, "its end was seen");
    let long = request(5, "GET", "/a.txt", &[("content-length", "100000")], false);
    assert_eq!(client.ask(5, &long).status(), 413);
    let waits = [("content-length", "5"), ("expect", "100-continue")];
    let response = client.ask(7, &request(7, "GET", "/a.txt", &waits, false));
    assert_eq!(response.status(), 200);
    let wrong = request(9, "POST", "/a.txt", &[("content-length", "4")], false);
    client.send(&[wrong, end(9)].concat());
    client.until(|client| {
        client
            .responses
            .get(&9)
            .is_some_and(|it| it.reset.is_some())
    });
    assert_eq!(client.responses[&9].reset, Some(ErrorCode::PROTOCOL_ERROR));
    drop(client);
    running.finish();
}

/// One record of the application's answer.
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let len = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, len[0], len[1], 0, 0][..], content].concat()
}

/// A body with its length, and one without, reach an application, whose answers are framed.
#[test]
fn applications_answer_streams() {
    let world = World::new(|_| {});
    let mut client = FrameClient::new(world.server.connect(), WIDE);
    let body: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
    for (stream, fields) in [(1, &[("content-length", "100000")][..]), (3, &[])] {
        client.send(&request(stream, "POST", "/page?a=b", fields, false));
        client.send_body(stream, &body, true);
        let mut application = world.accept();
        let mut asked = Vec::new();
        let (mut said, mut content) = (Vec::new(), Vec::new());
        loop {
            let mut head = [0; 8];
            application.read_exact(&mut head).expect("a record");
            let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
            let mut bytes = vec![0; len + usize::from(head[6])];
            application.read_exact(&mut bytes).expect("its content");
            asked.push(head[1]);
            match (head[1], len) {
                (4, _) => said.extend_from_slice(&bytes[..len]),
                (5, 0) => break,
                (5, _) => content.extend_from_slice(&bytes[..len]),
                _ => {}
            }
        }
        assert_eq!(content, body);
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(
            said.contains("SERVER_PROTOCOLHTTP/2.0") && said.contains("100000"),
            "{said}"
        );
        let answer = [
            record(6, b"Status: 201 Made\r\nX-Kind: page\r\n\r\nfirst "),
            record(6, b"second"),
            record(6, b""),
            record(3, &[0; 8]),
        ];
        application.write_all(&answer.concat()).expect("it reads");
        client.until(|client| client.responses.get(&stream).is_some_and(|it| it.is_whole));
        let response = &client.responses[&stream];
        assert_eq!(
            (response.status(), &response.body[..]),
            (201, &b"first second"[..])
        );
        assert!(
            response
                .fields
                .contains(&("x-kind".to_owned(), "page".to_owned()))
        );
    }
}

/// The log has the bytes of an application's answer, its header block and its content.
#[test]
fn answers_of_applications_are_logged_with_their_bytes() {
    let file = LogFile::new("application-stream");
    let log = file.open(Format::Json);
    let world = World::prepared(Bounds::default(), |_| {}, |server| server.set_log(log));
    let mut client = FrameClient::new(world.server.connect(), WIDE);
    client.send(&request(1, "GET", "/page", &[], true));
    let mut application = world.accept();
    let mut asked = [0; 64];
    assert!(application.read(&mut asked).expect("a request") > 0);
    let answer = [
        record(6, b"A: b\r\n\r\nshort"),
        record(6, b""),
        record(3, &[0; 8]),
    ];
    application.write_all(&answer.concat()).expect("it reads");
    client.until(|client| client.responses.get(&1).is_some_and(|it| it.is_whole));
    let line = &file.lines(1)[0];
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(
        (&line["status"], &line["body_bytes_sent"]),
        (&200.into(), &5.into())
    );
    assert!(line["bytes_sent"].as_u64() > Some(5 + 20), "{line}");
}

/// An application that dies in the middle of its answer: the stream is reset, and the connection goes on.
#[test]
fn an_answer_that_breaks_off_resets_its_stream() {
    let world = World::new(|_| {});
    let mut client = FrameClient::new(world.server.connect(), WIDE);
    client.send(&request(1, "GET", "/page", &[], true));
    let mut application = world.accept();
    let mut asked = [0; 64];
    assert!(application.read(&mut asked).expect("a request") > 0);
    application
        .write_all(&record(6, b"A: b\r\n\r\nhalf"))
        .expect("it reads");
    client.until(|client| {
        client
            .responses
            .get(&1)
            .is_some_and(|it| it.body == b"half")
    });
    drop(application);
    client.until(|client| client.responses[&1].reset.is_some());
    assert_eq!(client.responses[&1].reset, Some(ErrorCode::INTERNAL_ERROR));
    client.send(&framed(kind::PING, 0, 0, b"are you?"));
    client.until(|client| client.pongs == 1);
}

/// What begins as HTTP/2 and is not, or not whole, is refused as HTTP/1.1 is.
#[test]
fn half_a_preface_is_no_http_2() {
    let running = Running::start();
    let answer = running.ask(&[b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"]);
    assert!(
        answer.starts_with(b"HTTP/1.1 505 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    let mut cut = running.connect();
    cut.write_all(&frame::PREFACE[..20]).unwrap();
    cut.shutdown(std::net::Shutdown::Write).unwrap();
    let mut got = Vec::new();
    cut.read_to_end(&mut got).expect("the end");
    running.finish();
}
