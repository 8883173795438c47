//! Requests that are answered, within windows, and the end of connections.

use exos_http2::ErrorCode;
use exos_http2::frame::{self, flag, kind, payload, setting};
use exos_http2::limits::{CONNECTION_WINDOW, STREAM_WINDOW, WHOLE_FRAME_LEN_MAX};

use crate::common::{GET, Server, Told, block, framed, request, setting, window};

/// The verdict does not depend on how bytes were cut.
#[test]
fn a_connection_begins_whatever_the_cuts() {
    let mut bytes = frame::PREFACE.to_vec();
    frame::push_settings(&mut bytes, &[(setting::INITIAL_WINDOW_SIZE, 10)]);
    bytes.extend(request(1, true));
    for cut in 0..bytes.len() {
        let mut server = Server::new();
        let (mut told, mut waiting) = (Vec::new(), Vec::new());
        for part in [&bytes[..cut], &bytes[cut..]] {
            waiting.extend_from_slice(part);
            loop {
                let (taken, event) = server
                    .connection
                    .receive(&waiting, &mut server.out)
                    .unwrap();
                told.extend(
                    event.map(|event| format!("{event:?}").split(' ').next().map(str::to_owned)),
                );
                waiting.drain(..taken);
                if taken == 0 {
                    break;
                }
            }
        }
        assert!(waiting.is_empty());
        assert_eq!(
            told,
            [Some("Room".to_owned()), Some("Request".to_owned())],
            "{cut}"
        );
        let kinds: Vec<u8> = server.sent().iter().map(|(head, _)| head.kind).collect();
        assert_eq!(kinds, [kind::SETTINGS, kind::WINDOW_UPDATE, kind::SETTINGS]);
    }
}

/// RFC 8441 §3.
#[test]
fn a_server_says_that_connect_may_name_a_protocol() {
    let server = Server::new();
    let head = frame::FrameHead::parse(&server.out).unwrap();
    let said = payload::settings(&server.out[9..][..head.len]).unwrap();
    let said: Vec<(u16, u32)> = said.collect();
    assert!(
        said.contains(&(setting::ENABLE_CONNECT_PROTOCOL, 1)),
        "{said:?}"
    );
}

#[test]
fn a_response_leaves_as_its_windows_let_it() {
    let mut server = Server::begun();
    server
        .receive(&setting(setting::INITIAL_WINDOW_SIZE, 10))
        .unwrap();
    server.receive(&request(1, true)).unwrap();
    server.sent();
    let connection = &mut server.connection;
    connection.send_head(1, &[&block(&[(":status", "200")])], false, &mut server.out);
    assert_eq!((connection.room(1), connection.room(3)), (10, 0));
    assert_eq!(connection.begin_data(1, 100, true, &mut server.out), 10);
    server.out.extend([b'x'; 10]);
    assert_eq!(
        server.connection.begin_data(1, 90, true, &mut server.out),
        0
    );
    assert_eq!(server.receive(&window(1, 20_000)), Ok(vec![Told::Room]));
    // A frame is no longer than the peer takes.
    assert_eq!(
        server
            .connection
            .begin_data(1, 20_000, true, &mut server.out),
        16_384
    );
    server.out.extend([b'x'; 16_384]);
    assert_eq!(
        server.connection.begin_data(1, 3616, true, &mut server.out),
        3616
    );
    server.out.extend([b'x'; 3616]);
    let sent = server.sent();
    let ends: Vec<bool> = sent
        .iter()
        .map(|(head, _)| head.has(flag::END_STREAM))
        .collect();
    assert_eq!(ends, [false, false, false, true]);
    assert_eq!(server.connection.stream_count(), 0);
    assert_eq!(server.connection.connection_room(), 65_535 - 20_010);
}

/// RFC 9113 §6.9.2: settings change the windows of streams that are open, also to less than nothing.
#[test]
fn settings_change_windows() {
    let mut server = Server::begun();
    server.receive(&request(1, true)).unwrap();
    server
        .connection
        .send_head(1, &[&block(&[(":status", "200")])], false, &mut server.out);
    server
        .connection
        .begin_data(1, 1000, false, &mut server.out);
    server
        .receive(&setting(setting::INITIAL_WINDOW_SIZE, 400))
        .unwrap();
    assert_eq!(server.connection.room(1), 0);
    server.receive(&window(1, 600)).unwrap();
    assert_eq!(server.connection.room(1), 0);
    server.receive(&window(1, 1)).unwrap();
    assert_eq!(server.connection.room(1), 1);
    server
        .receive(&setting(setting::INITIAL_WINDOW_SIZE, 500))
        .unwrap();
    assert_eq!(server.connection.room(1), 101);
}

#[test]
fn bodies_open_their_windows_when_they_are_consumed() {
    let mut server = Server::begun();
    server.receive(&request(1, false)).unwrap();
    let part = vec![7; 16_384];
    let data = framed(kind::DATA, 0, 1, &part);
    for _ in 0..STREAM_WINDOW / 16_384 {
        let told = server.receive(&data);
        assert_eq!(told, Ok(vec![Told::Data(1, part.clone(), false)]));
    }
    assert!(server.sent().is_empty());
    server.connection.consume(1, 40_000, &mut server.out);
    for (head, bytes) in server.sent() {
        assert_eq!(head.kind, kind::WINDOW_UPDATE);
        assert_eq!(payload::window_update(&bytes), Ok(40_000));
    }
}

/// Bodies that nobody reads take their own windows, and another goes on for as long as there is any left of the connection's.
#[test]
fn a_body_goes_on_beside_those_that_wait() {
    let mut server = Server::begun();
    let waiting = CONNECTION_WINDOW / STREAM_WINDOW - 1;
    let part = |stream| framed(kind::DATA, 0, stream, &[0; 16_384]);
    for stream in (0..waiting).map(|n| 2 * n + 1) {
        server.receive(&request(stream, false)).unwrap();
        (0..4).for_each(|_| drop(server.receive(&part(stream)).unwrap()));
    }
    let healthy = 2 * waiting + 1;
    server.receive(&request(healthy, false)).unwrap();
    for _ in 0..1000 {
        assert_eq!(server.receive(&part(healthy)).map(|told| told.len()), Ok(1));
        server.connection.consume(healthy, 16_384, &mut server.out);
    }
}

/// What is left of a request whose response is whole is not wanted, and nobody's fault; much of it ends the stream.
#[test]
fn an_early_response_ends_its_request() {
    let mut server = Server::begun();
    for (stream, frames, is_reset) in [(1, 4, false), (3, 5, true)] {
        server.receive(&request(stream, false)).unwrap();
        assert!(server.connection.owes(stream));
        server
            .connection
            .send_head(stream, &[&[0x88]], true, &mut server.out);
        assert!(!server.connection.owes(stream) && server.connection.stream_count() == 0);
        server.out.clear();
        let data = framed(kind::DATA, 0, stream, &[0; 16_384]);
        for _ in 0..frames {
            assert_eq!(server.receive(&data), Ok(vec![]));
        }
        let last = framed(kind::DATA, flag::END_STREAM, stream, b"late");
        assert_eq!(server.receive(&last), Ok(vec![]));
        let sent = server.sent();
        let reset = sent.iter().find(|(head, _)| head.kind == kind::RST_STREAM);
        let code = reset.map(|(_, bytes)| payload::reset(bytes));
        assert_eq!(code, is_reset.then_some(Ok(ErrorCode::NO_ERROR)));
    }
    assert_eq!(
        server.receive(&request(5, true)),
        Ok(vec![Told::Request(5, true)])
    );
}

#[test]
fn trailers_end_a_body() {
    let mut server = Server::begun();
    server.receive(&request(1, false)).unwrap();
    server.receive(&framed(kind::DATA, 0, 1, b"body")).unwrap();
    let flags = flag::END_HEADERS | flag::END_STREAM;
    let trailers = framed(kind::HEADERS, flags, 1, &block(&[("x", "y")]));
    assert_eq!(
        server.receive(&trailers),
        Ok(vec![Told::Trailers(
            1,
            vec![("x".to_owned(), "y".to_owned())]
        )])
    );
}

/// RFC 9113 §8.5: in a tunnel there is nothing but data.
#[test]
fn a_tunnel_has_no_trailers() {
    let mut tunnel = [&GET[..], &[(":protocol", "websocket")]].concat();
    tunnel[0].1 = "CONNECT";
    for is_end in [flag::END_STREAM, 0] {
        let mut server = Server::begun();
        let head = framed(kind::HEADERS, flag::END_HEADERS, 1, &block(&tunnel));
        assert_eq!(server.receive(&head), Ok(vec![Told::Request(1, false)]));
        server.receive(&framed(kind::DATA, 0, 1, b"said")).unwrap();
        let flags = flag::END_HEADERS | is_end;
        let trailers = framed(kind::HEADERS, flags, 1, &block(&[("x", "y")]));
        let told = server.receive(&trailers).unwrap();
        assert!(
            matches!(told[..], [Told::Fault(1, fault)] if fault.code() == ErrorCode::PROTOCOL_ERROR),
            "{told:?}"
        );
    }
}

/// A block that is the same is not decoded again, unless the table has changed between.
#[test]
fn the_same_request_means_the_same() {
    let mut server = Server::begun();
    let flags = flag::END_HEADERS | flag::END_STREAM;
    let mut kept = block(&GET);
    exos_http2::hpack::encoder::push_kept(&mut kept, b"x", b"one");
    let named = [block(&GET), vec![0xbe]].concat();
    let mut other = block(&GET);
    exos_http2::hpack::encoder::push_kept(&mut other, b"x", b"two");
    let (mut values, mut stream) = (Vec::new(), 1);
    for block in [&kept, &named, &named, &other, &named] {
        let bytes = framed(kind::HEADERS, flags, stream, block);
        let (_, event) = server.connection.receive(&bytes, &mut server.out).unwrap();
        let Some(exos_http2::connection::Event::Request { head, .. }) = event else {
            panic!("a request");
        };
        values.push(
            head.fields()
                .map(|(_, value)| value.to_vec())
                .collect::<Vec<_>>(),
        );
        stream += 2;
    }
    assert_eq!(
        values.concat(),
        [&b"one"[..], b"one", b"one", b"two", b"two"]
    );
}

#[test]
fn priorities_are_told_and_remembered() {
    let mut server = Server::begun();
    let update = |id: u32, value: &[u8]| {
        let payload = [&id.to_be_bytes()[..], value].concat();
        framed(kind::PRIORITY_UPDATE, 0, 0, &payload)
    };
    assert_eq!(server.receive(&update(3, b"u=0")), Ok(vec![]));
    server.receive(&request(1, true)).unwrap();
    assert_eq!(
        server.receive(&update(1, b"u=6, i")),
        Ok(vec![Told::Priority(1, 6)])
    );
    server.receive(&request(3, true)).unwrap();
    assert_eq!(
        server.connection.priority(3).urgency,
        0,
        "said before it was open"
    );
    assert_eq!(server.connection.priority(1).urgency, 6);
    assert_eq!(server.connection.priority(5).urgency, 3);
}

/// RFC 9113 §6.8: first all is still taken; when the client has heard, what comes behind is left to others.
#[test]
fn the_end_loses_nothing() {
    let mut server = Server::begun();
    server.receive(&request(1, true)).unwrap();
    server.connection.begin_going(&mut server.out);
    let sent = server.sent();
    assert_eq!(
        payload::go_away(&sent[0].1),
        Ok(((1 << 31) - 1, ErrorCode::NO_ERROR))
    );
    assert_eq!(
        server.receive(&request(3, true)),
        Ok(vec![Told::Request(3, true)])
    );
    let heard = framed(kind::PING, flag::ACK, 0, &sent[1].1);
    assert_eq!(server.receive(&heard), Ok(vec![Told::Gone]));
    assert_eq!(
        payload::go_away(&server.sent()[0].1),
        Ok((3, ErrorCode::NO_ERROR))
    );
    assert_eq!(server.receive(&request(5, true)), Ok(vec![]), "not seen to");
    assert!(!server.connection.has_gone());
    for stream in [1, 3] {
        server
            .connection
            .send_head(stream, &[&[0x88]], true, &mut server.out);
    }
    assert!(server.connection.has_gone());
}

/// RFC 9113 §6.8: what was said to be the last request stays the last.
#[test]
fn the_last_request_never_goes_up() {
    let mut server = Server::begun();
    server.receive(&request(1, true)).unwrap();
    server.connection.finish_going(&mut server.out);
    server.receive(&request(3, true)).unwrap();
    server.out.clear();
    assert!(server.receive(&framed(kind::PING, 0, 1, &[0; 8])).is_err());
    let sent = server.sent();
    assert_eq!(payload::go_away(&sent[0].1).map(|(last, _)| last), Ok(1));
}

/// Who says nothing of priorities shares; who says something means what it does not say, too.
#[test]
fn silence_is_incremental_until_something_is_said() {
    let mut server = Server::begun();
    server.receive(&request(1, true)).unwrap();
    assert!(server.connection.priority(1).is_incremental);
    let urgent = block(&[&GET[..], &[("priority", "u=1")]].concat());
    let flags = flag::END_HEADERS | flag::END_STREAM;
    server
        .receive(&framed(kind::HEADERS, flags, 3, &urgent))
        .unwrap();
    server.receive(&request(5, true)).unwrap();
    assert!(!server.connection.priority(3).is_incremental);
    assert!(!server.connection.priority(5).is_incremental);
}

/// RFC 7541 §4.2: what the client's settings make of its table is said before the next response's fields.
#[test]
fn a_smaller_table_is_acknowledged() {
    let mut server = Server::begun();
    let exos = block(&[("server", "exos")]);
    let kept = [&[0x40 | 54][..], &exos[2..]].concat();
    for (stream, len_max, wanted) in [
        (1, 4096, kept.clone()),
        (3, 65_536, vec![0xbe]),
        (5, 100, [&[0x3f, 0x45][..], &[0xbe]].concat()),
        (7, 100, vec![0xbe]),
        (9, 0, [&[0x20][..], &exos].concat()),
        (11, 0, exos.clone()),
        (13, 1 << 20, [&[0x3f, 0xe1, 0x1f][..], &kept].concat()),
    ] {
        server
            .receive(&setting(setting::HEADER_TABLE_SIZE, len_max))
            .unwrap();
        server.receive(&request(stream, true)).unwrap();
        server.sent();
        server
            .connection
            .send_head(stream, &[&exos], true, &mut server.out);
        assert_eq!(server.sent()[0].1, wanted, "{stream}");
    }
}

#[test]
fn no_frame_is_longer_than_fits() {
    let mut server = Server::begun();
    server.receive(&request(1, false)).unwrap();
    let longest = framed(kind::DATA, 0, 1, &[1; 16_384]);
    assert_eq!(longest.len(), WHOLE_FRAME_LEN_MAX);
    let (taken, _) = server
        .connection
        .receive(&longest[..longest.len() - 1], &mut server.out)
        .unwrap();
    assert_eq!(taken, 0);
    assert!(server.receive(&longest).is_ok());
}
