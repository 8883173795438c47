//! Bodies without a length that are longer than what is collected: they flow, in chunks.

use std::io::{Read as _, Write as _};

use exos_cheetah::limits::CHUNKED_BODY_LEN_MAX;
use exos_http2::ErrorCode;

use super::{World, answer, ask, bytes, chunks, chunks_of, head, is, response};
use crate::common::frames::{FrameClient, request};

/// A request with this content in one chunk, and these lines behind it.
fn in_one_chunk(content: &str, behind: &str) -> Vec<u8> {
    let len = content.len();
    format!(
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{len:x}\r\n{content}\r\n0\r\n{behind}\r\n"
    )
    .into_bytes()
}

/// A chunked body has its length where it can be collected, and goes on in chunks where it is longer, with what is behind it.
#[test]
fn a_long_body_goes_on_in_chunks() {
    let most = CHUNKED_BODY_LEN_MAX as usize;
    let world = World::new(1, |application, _| {
        (application.body_max, application.keep) = (8 << 20, 0);
    });
    let mut client = world.client("");
    for (len, is_chunked) in [(most, false), (most + 1, true), (5_000_000, true)] {
        let content: String = (0..len)
            .map(|at| char::from(b'a' + (at % 23) as u8))
            .collect();
        let cut = content.as_bytes().chunks(70_000);
        let mut sent =
            b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for part in cut {
            write!(sent, "{:x};a\r\n", part.len()).unwrap();
            sent.extend_from_slice(part);
            sent.extend_from_slice(b"\r\n");
        }
        let behind: &[u8] = if is_chunked {
            b"A: b\r\nHost: c\r\n"
        } else {
            b""
        };
        sent.extend_from_slice(&[b"0\r\n", behind, b"\r\n"].concat());
        let mut sender = client.try_clone().unwrap();
        let sending = std::thread::spawn(move || sender.write_all(&sent).unwrap());
        let mut upstream = world.accept();
        let asked = head(&mut upstream);
        assert_eq!(
            asked.contains("\r\nTransfer-Encoding: chunked\r\n"),
            is_chunked
        );
        assert_eq!(
            asked.contains(&format!("\r\nContent-Length: {len}\r\n")),
            !is_chunked
        );
        let (came, trailers) = match is_chunked {
            true => chunks(&mut upstream),
            false => (bytes(&mut upstream, len), String::new()),
        };
        assert!(came == content, "{} of {len} bytes", came.len());
        assert_eq!(trailers, if is_chunked { "A: b\r\n" } else { "" });
        answer(&mut upstream, "ok");
        is(&mut client, "200", "ok");
        sending.join().unwrap();
    }
}

/// What is wrong behind the first MiB, when the upstream has been asked.
#[test]
fn a_long_body_that_is_wrong_further_on_reaches_nobody_whole() {
    let part = "x".repeat(1 << 20);
    for (behind, status) in [
        ("200001\r\n", "413"),
        ("zz\r\n", "400"),
        ("1\r\nxy\r\n", "400"),
    ] {
        let world = World::new(1, |application, _| application.body_max = 3 << 20);
        let mut client =
            world.client("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        let mut sender = client.try_clone().unwrap();
        let sent = format!("100000\r\n{part}\r\n2\r\nab\r\n");
        let sending = std::thread::spawn(move || sender.write_all(sent.as_bytes()).unwrap());
        let mut upstream = world.accept();
        head(&mut upstream);
        let came = chunks_of(&mut upstream, part.len() + 2);
        assert!(came.starts_with(&part) && came.ends_with("ab"));
        sending.join().unwrap();
        client.write_all(behind.as_bytes()).unwrap();
        let mut all = Vec::new();
        // A reset, or the end of the connection: never of the body.
        let _ = upstream.read_to_end(&mut all);
        assert!(all.is_empty(), "{}", all.escape_ascii());
        assert_eq!(response(&mut client).0, status, "{behind:?}");
    }
}

/// An upstream that answers before it has the whole body, and one that is gone.
#[test]
fn a_long_body_that_nobody_takes_is_no_harm() {
    for (said, status) in [
        ("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", "403"),
        ("", "502"),
    ] {
        let world = World::new(1, |application, _| application.body_max = 64 << 20);
        let mut client =
            world.client("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        let mut sender = client.try_clone().unwrap();
        let part = format!("100000\r\n{}\r\n", "x".repeat(1 << 20));
        let sending = std::thread::spawn(move || {
            // As long as it is taken.
            while sender.write_all(part.as_bytes()).is_ok() {}
        });
        let mut upstream = world.accept();
        head(&mut upstream);
        upstream.write_all(said.as_bytes()).unwrap();
        let upstream = Some(upstream).filter(|_| !said.is_empty());
        assert_eq!(response(&mut client).0, status);
        drop(upstream);
        drop(client.shutdown(std::net::Shutdown::Both));
        sending.join().unwrap();
    }
}

/// The connection that a body has flowed over carries the next request.
#[test]
fn a_connection_is_used_again_behind_a_long_body() {
    let world = World::new(1, |_, _| {});
    let mut client = world.client("");
    let mut upstream = None;
    for n in 0..2 {
        let content = "0123456789".repeat(200_000 + n);
        let sent = in_one_chunk(&content, "");
        let mut sender = client.try_clone().unwrap();
        let sending = std::thread::spawn(move || sender.write_all(&sent).unwrap());
        let upstream = upstream.get_or_insert_with(|| world.accept());
        assert!(head(upstream).contains("\r\nTransfer-Encoding: chunked\r\n"));
        assert!(chunks(upstream).0 == content);
        answer(upstream, "one");
        is(&mut client, "200", "one");
        sending.join().unwrap();
        client.write_all(ask("GET", "/b").as_bytes()).unwrap();
        assert!(head(upstream).starts_with("GET /b "));
        answer(upstream, "two");
        is(&mut client, "200", "two");
    }
}

/// RFC 9113 §8.1.1: no length need be said.
#[test]
fn a_long_body_of_http2_flows() {
    let world = World::new(1, |_, _| {});
    let mut client = FrameClient::new(world.server.connect(), 1 << 20);
    let content = "0123456789".repeat(300_000);
    let sent = content.clone();
    let sending = std::thread::spawn(move || {
        client.send(&request(1, "POST", "/a", &[], false));
        client.send_body(1, sent.as_bytes(), true);
        client
    });
    let mut upstream = world.accept();
    assert!(head(&mut upstream).contains("\r\nTransfer-Encoding: chunked\r\n"));
    assert!(chunks(&mut upstream) == (content, String::new()));
    let mut client = sending.join().unwrap();
    answer(&mut upstream, "one");
    client.until(|client| client.responses.get(&1).is_some_and(|it| it.is_whole));
    assert_eq!(client.responses[&1].body, b"one");
    client.send(&request(3, "GET", "/b", &[], true));
    assert!(head(&mut upstream).starts_with("GET /b "));
    answer(&mut upstream, "two");
    client.until(|client| client.responses.get(&3).is_some_and(|it| it.is_whole));
    assert_eq!(client.responses[&3].body, b"two");
}

/// RFC 9113 §7: what a client sends beyond the limit, where it can be told no status any more, is no fault of the server's.
#[test]
fn a_body_of_http2_that_is_too_long_behind_the_answers_begin_is_cancelled() {
    let content = "x".repeat(CHUNKED_BODY_LEN_MAX as usize + 100_000);
    let len = content.len();
    let world = World::new(1, |application, _| application.body_max = len as u64);
    let mut client = FrameClient::new(world.server.connect(), 1 << 20);
    let sending = std::thread::spawn(move || {
        client.send(&request(1, "POST", "/a", &[], false));
        client.send_body(1, content.as_bytes(), false);
        client
    });
    let mut upstream = world.accept();
    head(&mut upstream);
    chunks_of(&mut upstream, len);
    let mut client = sending.join().unwrap();
    upstream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab")
        .unwrap();
    client.until(|client| client.responses.get(&1).is_some_and(|it| it.body == b"ab"));
    client.send_body(1, b"x", false);
    client.until(|client| client.responses[&1].reset.is_some());
    assert_eq!(client.responses[&1].reset, Some(ErrorCode::CANCEL));
    // Nothing of an end has come there.
    let mut all = Vec::new();
    let _ = upstream.read_to_end(&mut all);
    assert!(all.is_empty(), "{}", all.escape_ascii());
}

/// RFC 9112 §6.1: no chunks to an upstream whose last answer was of HTTP/1.0.
#[test]
fn an_upstream_of_http10_is_sent_no_chunks() {
    let world = World::new(1, |application, _| application.keep = 0);
    let long = "0123456789".repeat(200_000);
    for round in 0..2 {
        // How old it is is not known yet, or it has become newer.
        let mut client = world.client("");
        let (mut sender, sent) = (client.try_clone().unwrap(), in_one_chunk(&long, ""));
        let sending = std::thread::spawn(move || sender.write_all(&sent).unwrap());
        let mut upstream = world.accept();
        head(&mut upstream);
        assert!(chunks(&mut upstream).0 == long);
        upstream
            .write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold")
            .unwrap();
        is(&mut client, "200", "old");
        sending.join().unwrap();
        let mut client = world.client("");
        let (mut sender, sent) = (client.try_clone().unwrap(), in_one_chunk(&long, ""));
        // As far as it is read.
        let sending = std::thread::spawn(move || drop(sender.write_all(&sent)));
        assert_eq!(response(&mut client).0, "411", "{round}");
        drop(client.shutdown(std::net::Shutdown::Both));
        sending.join().unwrap();
        // What is short goes with its length, and without what is behind it; the upstream is another one then.
        let mut client = world.client("");
        client
            .write_all(&in_one_chunk("short", "A: b\r\n"))
            .unwrap();
        let mut upstream = world.accept();
        assert!(head(&mut upstream).contains("\r\nContent-Length: 5\r\n"));
        assert_eq!(bytes(&mut upstream, 5), "short");
        answer(&mut upstream, "new");
        is(&mut client, "200", "new");
    }
}
