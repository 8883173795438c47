//! Everything that a peer can do wrong, and the code that it gets for it.

use exos_http2::frame::{self, flag, kind, payload, setting};
use exos_http2::limits::{CONNECTION_WINDOW, STREAM_WINDOW, STREAMS_MAX};
use exos_http2::{ErrorCode, Fault};

use crate::common::{GET, Server, Told, block, framed, request, setting, window};

/// Faults that end the connection, of frames that come on one whose streams 1 (open), 3 (whole) and 5 (answered) there are.
#[test]
fn faults_of_the_connection() {
    let headers = flag::END_HEADERS;
    let bad_index = framed(kind::HEADERS, headers, 7, &[0xff, 0x80, 0x01]);
    let cases: Vec<(&str, Vec<u8>, Fault)> = vec![
        (
            "data on the connection",
            framed(kind::DATA, 0, 0, b"a"),
            Fault::StreamNumber,
        ),
        (
            "data on an idle stream",
            framed(kind::DATA, 0, 7, b"a"),
            Fault::IdleStream,
        ),
        (
            "padding beyond",
            framed(kind::DATA, flag::PADDED, 1, b"\x05abcd"),
            Fault::Padding,
        ),
        (
            "padding without a length",
            framed(kind::DATA, flag::PADDED, 1, b""),
            Fault::FrameLength,
        ),
        (
            "headers on the connection",
            framed(kind::HEADERS, headers, 0, &block(&GET)),
            Fault::StreamNumber,
        ),
        (
            "headers on an even stream",
            framed(kind::HEADERS, headers, 8, &block(&GET)),
            Fault::StreamNumber,
        ),
        (
            "headers on a closed stream",
            request(5, true),
            Fault::ClosedStream,
        ),
        (
            "headers without their priority",
            framed(kind::HEADERS, headers | flag::PRIORITY, 7, b"abc"),
            Fault::FrameLength,
        ),
        (
            "headers' padding",
            framed(kind::HEADERS, headers | flag::PADDED, 7, b"\x09a"),
            Fault::Padding,
        ),
        ("an entry that is not there", bad_index, Fault::Compression),
        (
            "a priority on the connection",
            framed(kind::PRIORITY, 0, 0, &[0; 5]),
            Fault::StreamNumber,
        ),
        (
            "a priority's length",
            framed(kind::PRIORITY, 0, 1, &[0; 4]),
            Fault::FrameLength,
        ),
        (
            "a priority of itself",
            framed(kind::PRIORITY, 0, 7, &[0, 0, 0, 7, 1]),
            Fault::SelfDependency,
        ),
        (
            "a reset of the connection",
            framed(kind::RST_STREAM, 0, 0, &[0; 4]),
            Fault::StreamNumber,
        ),
        (
            "a reset of an idle stream",
            framed(kind::RST_STREAM, 0, 7, &[0; 4]),
            Fault::IdleStream,
        ),
        (
            "a reset's length",
            framed(kind::RST_STREAM, 0, 1, &[0; 5]),
            Fault::FrameLength,
        ),
        (
            "settings on a stream",
            framed(kind::SETTINGS, 0, 1, b""),
            Fault::StreamNumber,
        ),
        (
            "settings' length",
            framed(kind::SETTINGS, 0, 0, &[0; 5]),
            Fault::FrameLength,
        ),
        (
            "an acknowledgement with content",
            framed(kind::SETTINGS, flag::ACK, 0, &[0; 6]),
            Fault::FrameLength,
        ),
        (
            "push that is neither",
            setting(setting::ENABLE_PUSH, 2),
            Fault::Settings,
        ),
        (
            "a protocol of CONNECT that is neither",
            setting(setting::ENABLE_CONNECT_PROTOCOL, 2),
            Fault::Settings,
        ),
        (
            "a window beyond",
            setting(setting::INITIAL_WINDOW_SIZE, 1 << 31),
            Fault::SettingsWindow,
        ),
        (
            "frames too short",
            setting(setting::MAX_FRAME_SIZE, 16_383),
            Fault::Settings,
        ),
        (
            "frames too long",
            setting(setting::MAX_FRAME_SIZE, 1 << 24),
            Fault::Settings,
        ),
        (
            "a push",
            framed(kind::PUSH_PROMISE, headers, 1, &[0, 0, 0, 2]),
            Fault::Push,
        ),
        (
            "a ping on a stream",
            framed(kind::PING, 0, 1, &[0; 8]),
            Fault::StreamNumber,
        ),
        (
            "a ping's length",
            framed(kind::PING, 0, 0, &[0; 7]),
            Fault::FrameLength,
        ),
        (
            "a farewell on a stream",
            framed(kind::GOAWAY, 0, 1, &[0; 8]),
            Fault::StreamNumber,
        ),
        (
            "a farewell's length",
            framed(kind::GOAWAY, 0, 0, &[0; 7]),
            Fault::FrameLength,
        ),
        (
            "a window of an idle stream",
            window(7, 1),
            Fault::IdleStream,
        ),
        (
            "a window's length",
            framed(kind::WINDOW_UPDATE, 0, 1, &[0; 3]),
            Fault::FrameLength,
        ),
        ("a window by nothing", window(0, 0), Fault::WindowZero),
        (
            "a window beyond what there is",
            window(0, (1 << 31) - 1),
            Fault::WindowOverflow,
        ),
        (
            "a continuation of nothing",
            framed(kind::CONTINUATION, headers, 1, b""),
            Fault::HeadersOrder,
        ),
        (
            "a block that is interrupted",
            [
                framed(kind::HEADERS, 0, 7, b"\x82"),
                framed(kind::PING, 0, 0, &[0; 8]),
            ]
            .concat(),
            Fault::HeadersOrder,
        ),
        (
            "a block that another goes on with",
            [
                framed(kind::HEADERS, 0, 7, b"\x82"),
                framed(kind::CONTINUATION, headers, 9, b""),
            ]
            .concat(),
            Fault::HeadersOrder,
        ),
        (
            "a frame that is too long",
            framed(kind::PING, 0, 0, &[0; 16_385]),
            Fault::FrameLength,
        ),
        (
            "an unknown frame that is too long",
            framed(99, 0, 0, &[0; 16_385]),
            Fault::FrameLength,
        ),
        (
            "priorities on a stream",
            framed(kind::PRIORITY_UPDATE, 0, 1, &[0; 4]),
            Fault::StreamNumber,
        ),
        (
            "priorities of the connection",
            framed(kind::PRIORITY_UPDATE, 0, 0, &[0; 4]),
            Fault::StreamNumber,
        ),
        (
            "priorities' length",
            framed(kind::PRIORITY_UPDATE, 0, 0, &[0; 3]),
            Fault::FrameLength,
        ),
    ];
    for (what, bytes, fault) in cases {
        let mut server = with_streams();
        assert_eq!(server.receive(&bytes), Err(fault), "{what}");
        assert_eq!(server.gone(), fault.code(), "{what}");
    }
}

/// Stream 1 has a head only, 3 is whole, 5 was answered.
fn with_streams() -> Server {
    let mut server = Server::begun();
    server
        .receive(&[request(1, false), request(3, true), request(5, true)].concat())
        .unwrap();
    server
        .connection
        .send_head(5, &[&[0x88]], true, &mut server.out);
    server.out.clear();
    server
}

/// Faults that end a stream and nothing else.
#[test]
fn faults_of_streams() {
    let last = flag::END_HEADERS | flag::END_STREAM;
    let with = |more: &[(&str, &str)]| block(&[&GET[..], more].concat());
    let of_itself = [&[0, 0, 0, 7, 1][..], &block(&GET)].concat();
    let cases: Vec<(&str, u32, Vec<u8>, Fault)> = vec![
        (
            "a request without a path",
            7,
            framed(kind::HEADERS, last, 7, &[0x82, 0x87]),
            Fault::Malformed,
        ),
        (
            "a field about connections",
            7,
            framed(kind::HEADERS, last, 7, &with(&[("connection", "close")])),
            Fault::Malformed,
        ),
        (
            "a length, and no body",
            7,
            framed(kind::HEADERS, last, 7, &with(&[("content-length", "1")])),
            Fault::ContentLength,
        ),
        (
            "itself",
            7,
            framed(kind::HEADERS, last | flag::PRIORITY, 7, &of_itself),
            Fault::SelfDependency,
        ),
        ("a second head", 1, request(1, false), Fault::Malformed),
        (
            "trailers of the protocol's",
            1,
            request(1, true),
            Fault::Malformed,
        ),
        (
            "data behind the end",
            3,
            framed(kind::DATA, 0, 3, b"a"),
            Fault::ClosedStream,
        ),
        (
            "headers behind the end",
            3,
            request(3, true),
            Fault::ClosedStream,
        ),
        (
            "data on a closed stream",
            5,
            framed(kind::DATA, 0, 5, b"a"),
            Fault::ClosedStream,
        ),
        ("a window by nothing", 1, window(1, 0), Fault::WindowZero),
        (
            "a window beyond what there is",
            1,
            window(1, (1 << 31) - 1),
            Fault::WindowOverflow,
        ),
    ];
    for (what, stream, bytes, fault) in cases {
        let mut server = with_streams();
        assert_eq!(
            server.receive(&bytes),
            Ok(vec![Told::Fault(stream, fault)]),
            "{what}"
        );
        let sent = server.sent();
        let (head, reset) = sent.last().expect("a frame");
        assert_eq!(
            (head.kind, head.stream),
            (kind::RST_STREAM, stream),
            "{what}"
        );
        assert_eq!(payload::reset(reset), Ok(fault.code()), "{what}");
        let next = server.receive(&request(9, true));
        assert_eq!(
            next,
            Ok(vec![Told::Request(9, true)]),
            "{what}: others go on"
        );
    }
}

#[test]
fn a_body_is_as_long_as_its_head_says() {
    let head = block(&[&GET[..], &[("content-length", "5")]].concat());
    let begin = framed(kind::HEADERS, flag::END_HEADERS, 1, &head);
    let data = |bytes: &[u8], flags| framed(kind::DATA, flags, 1, bytes);
    for (body, is_sound) in [
        (vec![data(b"12345", flag::END_STREAM)], true),
        (
            vec![data(b"123", 0), data(b"45", 0), data(b"", flag::END_STREAM)],
            true,
        ),
        (vec![data(b"123456", 0)], false),
        (vec![data(b"123", 0), data(b"456", flag::END_STREAM)], false),
        (vec![data(b"1234", flag::END_STREAM)], false),
        (vec![data(b"", flag::END_STREAM)], false),
    ] {
        let mut server = Server::begun();
        server.receive(&begin).unwrap();
        let told = server.receive(&body.concat()).unwrap();
        let is_fault = told.last() == Some(&Told::Fault(1, Fault::ContentLength));
        assert_eq!(is_fault, !is_sound, "{told:?}");
    }
}

#[test]
fn data_beyond_a_window_is_refused() {
    let mut server = Server::begun();
    server.receive(&request(1, false)).unwrap();
    let data = framed(kind::DATA, 0, 1, &[0; 16_384]);
    for _ in 0..4 {
        server.receive(&data).unwrap();
    }
    let one = framed(kind::DATA, 0, 1, b"1");
    assert_eq!(
        server.receive(&one),
        Ok(vec![Told::Fault(1, Fault::BeyondWindow)])
    );
    // Of all bodies that nobody consumes, the connection's window bounds the sum.
    let mut results = Vec::new();
    for stream in (0..CONNECTION_WINDOW / STREAM_WINDOW).map(|n| 2 * n + 3) {
        server.receive(&request(stream, false)).unwrap();
        let data = framed(kind::DATA, 0, stream, &[0; 16_384]);
        results.extend((0..4).map(|_| server.receive(&data)));
    }
    let first = results.iter().position(Result::is_err);
    assert_eq!(results[first.unwrap()], Err(Fault::BeyondWindow));
    assert!(first.unwrap() + 4 >= (CONNECTION_WINDOW / 16_384) as usize - 4);
}

#[test]
fn more_streams_than_may_be_are_refused() {
    let mut server = Server::begun();
    for n in 0..STREAMS_MAX {
        assert_eq!(server.receive(&request(2 * n + 1, false)).unwrap().len(), 1);
    }
    let next = 2 * STREAMS_MAX + 1;
    let refused = server.receive(&request(next, true));
    assert_eq!(refused, Ok(vec![Told::Fault(next, Fault::TooManyStreams)]));
    assert_eq!(Fault::TooManyStreams.code(), ErrorCode::REFUSED_STREAM);
    // One goes: there is room for another.
    server
        .receive(&framed(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8]))
        .unwrap();
    assert_eq!(
        server.receive(&request(next + 2, true)),
        Ok(vec![Told::Request(next + 2, true)])
    );
}

/// RFC 9113 §5.1.1: a number that was left out is closed, and nobody may use it.
#[test]
fn numbers_go_up() {
    let mut server = Server::begun();
    server.receive(&request(5, true)).unwrap();
    assert_eq!(server.receive(&request(3, true)), Err(Fault::StreamNumber));
}

#[test]
fn what_does_not_begin_as_http_2_is_refused() {
    let mut settings = Vec::new();
    frame::push_settings(&mut settings, &[]);
    let with = |first: &[u8]| [&frame::PREFACE[..], first].concat();
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX".to_vec(),
        with(&framed(kind::PING, 0, 0, &[0; 8])),
        with(&framed(kind::SETTINGS, flag::ACK, 0, b"")),
        with(&request(1, true)),
    ] {
        let mut server = Server::new();
        assert_eq!(server.receive(&bytes), Err(Fault::Preface), "{bytes:?}");
        assert_eq!(server.gone(), ErrorCode::PROTOCOL_ERROR);
    }
    assert!(Server::new().receive(&with(&settings)).is_ok());
}

#[test]
fn resets_and_windows_of_closed_streams_mean_nothing() {
    let mut server = with_streams();
    let late = [window(5, 10), framed(kind::RST_STREAM, 0, 5, &[0; 4])].concat();
    assert_eq!(server.receive(&late), Ok(vec![]));
    assert_eq!(
        server.receive(&framed(99, 0xff, 77, b"unknown")),
        Ok(vec![])
    );
}
