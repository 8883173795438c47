//! Connections that change their protocol.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use exos_http2::frame::kind;
use exos_http2::limits::{CONNECTION_WINDOW, STREAM_WINDOW};

use super::{World, answer, ask, bytes, head, is, to_the_end};
use crate::common::frames::{FrameClient, framed, request};

/// The two ends of a tunnel that stands.
fn tunnel(world: &World) -> (TcpStream, TcpStream) {
    let mut client =
        world.client("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    let mut upstream = world.accept();
    head(&mut upstream);
    upstream
        .write_all(b"HTTP/1.1 101 Yes\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
        .unwrap();
    head(&mut client);
    (client, upstream)
}

#[test]
fn another_protocol_is_a_tunnel() {
    let world = World::new(1, |_, _| {});
    let upgrade =
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    // A client may be eager.
    let mut client = world.client(&format!("{upgrade}early"));
    let mut upstream = world.accept();
    let asked = head(&mut upstream);
    assert!(
        asked.contains("\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"),
        "{asked}"
    );
    upstream
        .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nfirst")
        .unwrap();
    let answered = head(&mut client);
    assert!(
        answered.starts_with("HTTP/1.1 101 Switching Protocols\r\n"),
        "{answered}"
    );
    assert!(
        answered.contains("\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"),
        "{answered}"
    );
    assert!(
        !answered.contains("close") && !answered.contains("Content-Length"),
        "{answered}"
    );
    assert_eq!(bytes(&mut client, 5), "first");
    assert_eq!(bytes(&mut upstream, 5), "early");
    // More than is queued anywhere, both ways at once.
    let long: String = (0..2_000_000u32)
        .map(|n| char::from(b'a' + (n % 26) as u8))
        .collect();
    let send = |mut to: TcpStream, what: String| {
        std::thread::spawn(move || to.write_all(what.as_bytes()).unwrap())
    };
    let there = send(client.try_clone().unwrap(), long.clone());
    let back = send(upstream.try_clone().unwrap(), long.clone());
    let reader = {
        let (mut from, len) = (upstream.try_clone().unwrap(), long.len());
        std::thread::spawn(move || bytes(&mut from, len))
    };
    assert!(bytes(&mut client, long.len()) == long, "what came back");
    assert!(reader.join().unwrap() == long, "what went there");
    there.join().unwrap();
    back.join().unwrap();
    // The client ends its side, and still hears the rest.
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(to_the_end(&mut upstream), "");
    upstream.write_all(b"last").unwrap();
    drop(upstream);
    assert_eq!(to_the_end(&mut client), "last");
}

/// An upstream that does not change the protocol answers as any other, and the connection goes on.
#[test]
fn a_protocol_that_is_refused_leaves_the_connection() {
    let world = World::new(1, |_, _| {});
    let mut client = world
        .client("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let mut upstream = world.accept();
    head(&mut upstream);
    answer(&mut upstream, "no");
    is(&mut client, "200", "no");
    client.write_all(ask("GET", "/a").as_bytes()).unwrap();
    head(&mut upstream);
    answer(&mut upstream, "yes");
    is(&mut client, "200", "yes");
}

/// RFC 9110 §7.8: what bytes would pass both ways is then known to nobody.
#[test]
fn a_protocol_that_nobody_offered_is_refused() {
    let asked =
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket, x\r\n\r\n";
    for (chosen, status) in [
        ("Upgrade: X\r\n", "101"),
        ("Upgrade: other\r\n", "502"),
        ("Upgrade: x, other\r\n", "502"),
        ("", "502"),
    ] {
        let world = World::new(1, |_, _| {});
        let mut client = world.client(asked);
        let mut upstream = world.accept();
        head(&mut upstream);
        let answer = format!("HTTP/1.1 101 Yes\r\nConnection: upgrade\r\n{chosen}\r\n");
        upstream.write_all(answer.as_bytes()).unwrap();
        assert_eq!(&head(&mut client)[9..12], status, "{chosen}");
    }
}

#[test]
fn a_tunnel_in_which_nobody_speaks_ends() {
    let world = World::new(1, |_, proxy| {
        proxy.tunnel_time = Duration::from_millis(200);
    });
    let (mut client, mut upstream) = tunnel(&world);
    assert_eq!(to_the_end(&mut client), "");
    assert_eq!(to_the_end(&mut upstream), "");
}

/// A reset of either side is the other's.
#[test]
fn a_tunnel_ends_with_either_side() {
    let world = World::new(1, |_, _| {});
    for client_ends in [false, true] {
        let (client, upstream) = tunnel(&world);
        let mut left = match client_ends {
            true => {
                drop(client);
                upstream
            }
            false => {
                drop(upstream);
                client
            }
        };
        assert_eq!(left.read(&mut [0; 9]).unwrap_or(0), 0);
    }
}

/// The refusal of a tunnel ends its stream, and what comes there before and behind it is no request.
#[test]
fn a_refused_tunnel_ends_its_stream() {
    let world = World::new(1, |application, _| application.keep = 0);
    let mut client = FrameClient::new(world.server.connect(), 1 << 20);
    let other = framed(
        kind::DATA,
        0,
        0,
        b"GET /other HTTP/1.1\r\nHost: a.test\r\n\r\n",
    );
    let on = |stream: u32| [&other[..5], &stream.to_be_bytes(), &other[9..]].concat();
    for (stream, answer, status) in [
        (1, "HTTP/1.1 403 No\r\nContent-Length: 4\r\n\r\nnope", "403"),
        (
            5,
            "HTTP/1.1 200 Yes\r\nContent-Length: 4\r\n\r\nfine",
            "502",
        ),
        (9, "nothing of HTTP\r\n\r\n", "502"),
        (
            13,
            "HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
            "502",
        ),
    ] {
        let tunnel = [(":protocol", "websocket")];
        client.send(&request(stream, "CONNECT", "/talk", &tunnel, false));
        client.send(&on(stream));
        let mut upstream = world.accept();
        assert!(head(&mut upstream).starts_with("GET /talk HTTP/1.1\r\n"));
        upstream.write_all(answer.as_bytes()).unwrap();
        client.until(|client| client.responses.get(&stream).is_some_and(|it| it.is_whole));
        client.send(&on(stream));
        // What was on the stream is looked at before what is behind it on the connection.
        client.send(&request(stream + 2, "GET", "/behind", &[], true));
        let mut upstream = world.accept();
        assert!(head(&mut upstream).starts_with("GET /behind HTTP/1.1\r\n"));
        self::answer(&mut upstream, "page");
        client.until(|client| {
            client
                .responses
                .get(&(stream + 2))
                .is_some_and(|it| it.is_whole)
        });
        let response = &client.responses[&stream];
        assert_eq!(
            (response.status().to_string(), response.reset),
            (status.to_owned(), None)
        );
        let statuses = response.fields.iter().filter(|(name, _)| name == ":status");
        assert_eq!(statuses.count(), 1);
    }
}

/// What waits of tunnels for which nobody reads holds nothing up beside them: it fills each stream's window, and not the connection's.
#[test]
fn tunnels_that_nobody_reads_hold_up_no_others() {
    let world = World::new(1, |_, _| {});
    let mut client = FrameClient::new(world.server.connect(), 1 << 20);
    let tunnels = CONNECTION_WINDOW / STREAM_WINDOW + 1;
    let mut open = Vec::new();
    for stream in (0..tunnels).map(|n| 2 * n + 1) {
        let tunnel = [(":protocol", "websocket")];
        client.send(&request(stream, "CONNECT", "/talk", &tunnel, false));
        // Its answer does not come, and until then nobody reads.
        open.push(world.accept());
        client.send_body(stream, &[b'x'; STREAM_WINDOW as usize], false);
    }
    let stream = 2 * tunnels + 1;
    let length = [("content-length", "100000")];
    client.send(&request(stream, "POST", "/page", &length, false));
    client.send_body(stream, &[b'y'; 100_000], true);
    let mut upstream = world.accept();
    assert!(head(&mut upstream).starts_with("POST /page HTTP/1.1\r\n"));
    assert_eq!(bytes(&mut upstream, 100_000), "y".repeat(100_000));
    answer(&mut upstream, "taken");
    client.until(|client| client.responses.get(&stream).is_some_and(|it| it.is_whole));
    assert_eq!(client.responses[&stream].body, b"taken");
}
