//! Servers that break the protocol, and those that send frames without end.

use super::requests::body_lens;
use super::*;

/// What no server may do ends the connection.
#[test]
fn servers_that_break_the_protocol() {
    let start = || Server::default().settings(&[]);
    let ok = &[(":status", "200")];
    let huge = (1u32 << 31) - 1;
    let table = [
        (Fault::Preface, Server::default().head(1, ok, true)),
        (
            Fault::Preface,
            Server(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        ),
        (Fault::FrameLength, start().data(1, &[0; 16_385], false)),
        (Fault::StreamNumber, start().data(0, b"a", false)),
        (Fault::IdleStream, start().data(2, b"a", false)),
        (Fault::IdleStream, start().head(5, ok, true)),
        (
            Fault::IdleStream,
            start().frame(kind::RST_STREAM, 0, 5, &[0; 4]),
        ),
        (
            Fault::Padding,
            start().frame(kind::DATA, flag::PADDED, 1, b"\x02a"),
        ),
        (
            Fault::Padding,
            start().frame(kind::HEADERS, flag::PADDED | flag::END_HEADERS, 1, b"\x02a"),
        ),
        (
            Fault::HeadersOrder,
            start().frame(kind::HEADERS, 0, 1, b"").data(1, b"", false),
        ),
        (
            Fault::HeadersOrder,
            start().frame(kind::CONTINUATION, 0, 1, b""),
        ),
        (
            Fault::Compression,
            start().frame(kind::HEADERS, flag::END_HEADERS, 1, b"\xff"),
        ),
        (
            Fault::Push,
            start().frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0; 4]),
        ),
        (Fault::FrameLength, start().frame(kind::PING, 0, 0, &[0; 7])),
        (
            Fault::FrameLength,
            start().frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]),
        ),
        (
            Fault::FrameLength,
            start().frame(kind::SETTINGS, 0, 0, &[0; 5]),
        ),
        (
            Fault::StreamNumber,
            start().frame(kind::SETTINGS, 0, 1, &[]),
        ),
        (
            Fault::Settings,
            start().settings(&[(setting::MAX_FRAME_SIZE, 100)]),
        ),
        (
            Fault::Settings,
            start().settings(&[(setting::ENABLE_PUSH, 2)]),
        ),
        (
            Fault::SettingsWindow,
            start().settings(&[(setting::INITIAL_WINDOW_SIZE, huge + 1)]),
        ),
        (
            Fault::WindowZero,
            start().frame(kind::WINDOW_UPDATE, 0, 0, &[0; 4]),
        ),
        (
            Fault::WindowOverflow,
            start().frame(kind::WINDOW_UPDATE, 0, 0, &huge.to_be_bytes()),
        ),
        (
            Fault::FrameLength,
            start().frame(kind::GOAWAY, 0, 0, &[0; 7]),
        ),
    ];
    for (fault, server) in table {
        let mut connection = Connection::new();
        connection.ask(0, &get());
        assert_eq!(take(&mut connection, &server.0), Err(fault));
    }
}

/// A server that keeps a client busy with what brings nothing is left, and one that answers is not.
#[test]
fn floods() {
    let ping = |server: Server| server.frame(kind::PING, 0, 0, b"12345678");
    let mut server = Server::default();
    for _ in 0..IDLE_FRAMES_MAX {
        server = ping(server);
    }
    let answered = asked(&[], 1);
    for (mut connection, answers) in [(answered, true), (asked(&[], 1), false)] {
        let mut bytes = server.0.clone();
        if answers {
            let at = bytes.len() / 17 / 2 * 17;
            let answer = Server::default().head(1, &[(":status", "200")], true);
            bytes.splice(at..at, answer.0);
            bytes.extend(ping(Server::default()).0);
        } else {
            bytes.extend(ping(Server::default()).0);
        }
        let said = take(&mut connection, &bytes);
        assert_eq!(said.err(), (!answers).then_some(Fault::EmptyFlood));
    }
    let mut connection = asked(&[], 1);
    let long = [b'a'; 16_000];
    let mut server = Server::default().frame(kind::HEADERS, 0, 1, &[]);
    for _ in 0..17 {
        server = server.frame(kind::CONTINUATION, 0, 1, &long);
    }
    assert_eq!(
        take(&mut connection, &server.0),
        Err(Fault::HeaderBlockTooLong)
    );
}

/// Room that is given back for a body shows that the server takes it, frame by frame, whether it comes before all of the body was sent
/// or after; room beside that shows nothing.
#[test]
fn room_for_a_body_is_no_flood() {
    let room = |stream, by: u32| {
        let server = Server::default();
        server.frame(kind::WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
    };
    let chunks = IDLE_FRAMES_MAX as usize;
    for window in [10, 1 << 20] {
        let mut connection = asked(&[(setting::INITIAL_WINDOW_SIZE, window)], 0);
        take(&mut connection, &room(0, 1 << 20).0).unwrap();
        connection.ask(0, &post(10 * chunks));
        let mut sent_len = 0;
        for _ in 0..chunks {
            sent_len += body_lens(&mut connection).iter().sum::<usize>();
            take(&mut connection, &room(1, 10).0).unwrap();
            take(&mut connection, &room(0, 10).0).unwrap();
        }
        assert_eq!(sent_len, 10 * chunks);
        let more: Vec<u8> = (0..=IDLE_FRAMES_MAX).flat_map(|_| room(1, 1).0).collect();
        assert_eq!(take(&mut connection, &more), Err(Fault::EmptyFlood));
    }
}

/// Content is no flood, though each frame's head comes by itself.
#[test]
fn content_behind_its_head_is_no_flood() {
    let mut connection = asked(&[], 1);
    let head = Server::default().head(1, &[(":status", "200")], false);
    take(&mut connection, &head.0).unwrap();
    let frame = Server::default().data(1, b"ab", false).0;
    for _ in 0..=IDLE_FRAMES_MAX {
        take(&mut connection, &frame[..9]).unwrap();
        let said = take(&mut connection, &frame[9..]).unwrap();
        assert_eq!(said.parts, [(0, None, b"ab".to_vec(), false)]);
    }
}
