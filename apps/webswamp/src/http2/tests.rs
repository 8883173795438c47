//! A connection beside a server whose frames a test writes.

use exos_buf::Slice;
use exos_http2::frame::setting;
use exos_http2::frame::{self, FrameHead, PREFACE, flag, kind};
use exos_http2::hpack::{Decoder, encoder};
use exos_http2::{ErrorCode, Fault, StreamId};

use super::arriving::Part;
use super::*;
use crate::limits::{IDLE_FRAMES_MAX, WINDOW};
use crate::request::{Content, Request, Version};

fn content(url: &str) -> Content {
    Content {
        version: Version::Http2,
        ..Content::get(&url.parse().unwrap())
    }
}

fn get() -> Request {
    Request::new(&content("http://h/a"))
}

fn post(len: usize) -> Request {
    Request::new(&Content {
        method: "POST".to_owned(),
        body: Some(vec![b'x'; len]),
        ..content("http://h/a")
    })
}

/// A frame as it was sent: its head and its payload.
type Sent = (FrameHead, Vec<u8>);

fn bytes(slices: &[Slice]) -> Vec<u8> {
    slices.iter().flat_map(Slice::as_bytes).copied().collect()
}

/// What leaves, without the preface.
fn sent(connection: &mut Connection) -> Vec<Sent> {
    let bytes = bytes(&connection.poll_out());
    let mut rest = bytes.strip_prefix(&PREFACE[..]).unwrap_or(&bytes);
    let mut frames = Vec::new();
    while let Some(head) = FrameHead::parse(rest) {
        frames.push((head, rest[9..][..head.len].to_vec()));
        rest = &rest[9 + head.len..];
    }
    assert!(rest.is_empty());
    frames
}

fn kinds(frames: &[Sent]) -> Vec<(u8, StreamId)> {
    frames
        .iter()
        .map(|(head, _)| (head.kind, head.stream))
        .collect()
}

/// A part of a response: slot, status, content, and whether it is the last.
type Came = (u32, Option<u16>, Vec<u8>, bool);

/// All that a server's bytes say.
#[derive(Debug, Default, PartialEq)]
struct Said {
    parts: Vec<Came>,
    framing: u64,
    lost: Vec<(u32, Loss)>,
    gone: Vec<(ErrorCode, Vec<u32>)>,
}

fn take(connection: &mut Connection, mut bytes: &[u8]) -> Result<Said, Fault> {
    let mut said = Said::default();
    take_more(connection, &mut bytes, &mut said)?;
    assert!(bytes.is_empty(), "{bytes:?}");
    Ok(said)
}

fn take_more(connection: &mut Connection, bytes: &mut &[u8], said: &mut Said) -> Result<(), Fault> {
    while let Some((count, news)) = connection.take(bytes)? {
        *bytes = &bytes[count..];
        match news {
            News::Nothing => (),
            News::Part(Part {
                slot,
                status,
                framing,
                content,
                is_end,
            }) => {
                said.framing += framing;
                let last = said
                    .parts
                    .last_mut()
                    .filter(|last| last.0 == slot && !last.3);
                match last {
                    Some(last) if status.is_none() => {
                        last.2.extend(content);
                        last.3 = is_end;
                    }
                    _ => said.parts.push((slot, status, content.to_vec(), is_end)),
                }
            }
            News::Lost { slot, why } => said.lost.push((slot, why)),
            News::GoingAway { code, unasked, .. } => said.gone.push((code, unasked)),
        }
    }
    Ok(())
}

/// Frames of a server.
#[derive(Default)]
struct Server(Vec<u8>);

impl Server {
    fn settings(mut self, values: &[(u16, u32)]) -> Self {
        frame::push_settings(&mut self.0, values);
        self
    }

    fn frame(mut self, kind: u8, flags: u8, stream: StreamId, payload: &[u8]) -> Self {
        frame::push_head(&mut self.0, payload.len(), kind, flags, stream);
        self.0.extend(payload);
        self
    }

    fn head(self, stream: StreamId, fields: &[(&str, &str)], is_end: bool) -> Self {
        let mut block = Vec::new();
        for (name, value) in fields {
            encoder::push(&mut block, name.as_bytes(), value.as_bytes());
        }
        let flags = flag::END_HEADERS | (u8::from(is_end) * flag::END_STREAM);
        self.frame(kind::HEADERS, flags, stream, &block)
    }

    fn data(self, stream: StreamId, content: &[u8], is_end: bool) -> Self {
        self.frame(
            kind::DATA,
            u8::from(is_end) * flag::END_STREAM,
            stream,
            content,
        )
    }
}

/// One that stands, whose server has said these settings, with requests of these slots under way.
fn asked(settings: &[(u16, u32)], slots: u32) -> Connection {
    let mut connection = Connection::new();
    take(&mut connection, &Server::default().settings(settings).0).unwrap();
    for slot in 0..slots {
        connection.ask(slot, &get());
    }
    sent(&mut connection);
    connection
}

fn fields(decoder: &mut Decoder, block: &[u8]) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut fields = Vec::new();
    decoder
        .decode(block, |name, value| fields.push((text(name), text(value))))
        .unwrap();
    fields
}

#[test]
fn a_connection_begins_with_preface_settings_and_room() {
    let mut connection = Connection::new();
    assert_eq!(
        connection.room(100),
        1,
        "nothing is known of the server yet"
    );
    connection.ask(7, &get());
    assert_eq!(connection.room(100), 0);
    let frames = sent(&mut connection);
    let all = [
        (kind::SETTINGS, 0),
        (kind::WINDOW_UPDATE, 0),
        (kind::HEADERS, 1),
    ];
    assert_eq!(kinds(&frames), all);
    assert!(frames[2].0.has(flag::END_STREAM) && frames[2].0.has(flag::END_HEADERS));
    for (limit, room) in [(None, 99), (Some(5), 4), (Some(0), 0)] {
        let mut connection = Connection::new();
        connection.ask(7, &get());
        let values = limit.map(|limit| (setting::MAX_CONCURRENT_STREAMS, limit));
        let server = Server::default().settings(values.as_slice());
        take(&mut connection, &server.0).unwrap();
        assert_eq!(connection.room(100), room);
        let last = sent(&mut connection).pop().unwrap();
        assert_eq!((last.0.kind, last.0.flags), (kind::SETTINGS, flag::ACK));
    }
}

/// What requests have in common is entered into the server's table with the first, and named by a byte each from then on.
#[test]
fn later_requests_name_what_the_first_has_entered() {
    let mut request = content("https://h:8443/a?b");
    request.headers = vec![
        ("Accept".to_owned(), "text/html".to_owned()),
        ("X-A".to_owned(), "1".to_owned()),
    ];
    let other = Content {
        target: "/c".to_owned(),
        ..request.clone()
    };
    let strange = Content {
        headers: Vec::new(),
        ..request.clone()
    };
    let wanted = |target: &str, more: bool| {
        let pairs = [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", target),
            (":authority", "h:8443"),
            ("user-agent", "exos-load"),
        ];
        let more = [("accept", "text/html"), ("x-a", "1")]
            .into_iter()
            .filter(|_| more);
        let owned = pairs
            .into_iter()
            .chain(more)
            .map(|(n, v)| (n.to_owned(), v.to_owned()));
        owned.collect::<Vec<_>>()
    };
    let requests = [&request, &other, &strange, &request].map(Request::new);
    for (values, lens) in [
        (&[][..], [true, false, true, false]),
        (&[(setting::HEADER_TABLE_SIZE, 0)], [true; 4]),
    ] {
        let mut connection = asked(values, 0);
        let mut decoder = Decoder::new(4096);
        for (slot, request) in (0..).zip(&requests) {
            connection.ask(slot, request);
        }
        let blocks = sent(&mut connection);
        let read: Vec<_> = blocks
            .iter()
            .map(|(_, block)| fields(&mut decoder, block))
            .collect();
        let all = [
            wanted("/a?b", true),
            wanted("/c", true),
            wanted("/a?b", false),
            wanted("/a?b", true),
        ];
        assert_eq!(read, all);
        // Two static fields, a path, and a byte for each of four that were entered.
        let are_long = blocks.iter().map(|(head, _)| head.len > 2 + 6 + 4);
        assert!(are_long.eq(lens), "{blocks:?}");
    }
}

/// A table that the server gives up has lost what the first request entered, though it is as large as before when it is used again:
/// that it was smaller is said with the next request (RFC 7541 §4.2).
#[test]
fn a_table_that_was_given_up_is_not_used() {
    let size = setting::HEADER_TABLE_SIZE;
    let at_once = Server::default().settings(&[(size, 0), (size, 4096)]);
    let apart = Server::default()
        .settings(&[(size, 0)])
        .settings(&[(size, 4096)]);
    for server in [at_once, apart] {
        let mut connection = asked(&[], 0);
        let mut decoder = Decoder::new(4096);
        connection.ask(0, &get());
        let first = fields(&mut decoder, &sent(&mut connection)[0].1);
        take(&mut connection, &server.0).unwrap();
        // What a server's decoder holds then.
        let mut decoder = Decoder::new(4096);
        for slot in [1, 2] {
            connection.ask(slot, &get());
            let block = sent(&mut connection).pop().unwrap().1;
            assert_eq!(block[0] == 0x20, slot == 1, "{block:?}");
            assert_eq!(fields(&mut decoder, &block), first);
        }
    }
}

/// Whatever bytes responses come in pieces of, they are the same.
#[test]
fn responses_in_pieces() {
    let server = Server::default()
        .settings(&[])
        .head(1, &[(":status", "103"), ("link", "</x>")], false)
        .head(3, &[(":status", "200"), ("content-length", "5")], false)
        .head(1, &[(":status", "404")], false)
        .data(1, b"no", false)
        .frame(kind::DATA, flag::PADDED, 3, b"\x03hel\0\0\0")
        .frame(kind::PING, 0, 0, b"12345678")
        .data(3, b"lo", true)
        .data(1, b"", false)
        .head(1, &[("x-sum", "1")], true);
    let mut whole = asked(&[], 0);
    (0..2).for_each(|slot| whole.ask(slot, &get()));
    let wanted = take(&mut whole, &server.0).unwrap();
    let mut ends: Vec<Came> = Vec::new();
    for slot in [0, 1] {
        let mut parts = wanted.parts.iter().filter(|part| part.0 == slot);
        let status = parts.clone().find_map(|part| part.1);
        let content = parts.clone().flat_map(|part| part.2.clone()).collect();
        ends.push((slot, status, content, parts.next_back().unwrap().3));
    }
    assert_eq!(
        ends,
        [
            (0, Some(404), b"no".to_vec(), true),
            (1, Some(200), b"hello".to_vec(), true)
        ]
    );
    assert_eq!(wanted.framing + 7, server.0.len() as u64 - 9 - 17);
    let left = sent(&mut whole);
    for step in 1..server.0.len() {
        let mut connection = asked(&[], 0);
        (0..2).for_each(|slot| connection.ask(slot, &get()));
        let (mut said, mut waiting) = (Said::default(), Vec::new());
        for piece in server.0.chunks(step) {
            waiting.extend(piece);
            let mut rest = &waiting[..];
            take_more(&mut connection, &mut rest, &mut said).unwrap();
            let taken = waiting.len() - rest.len();
            waiting.drain(..taken);
        }
        let content = |said: &Said, slot| -> Vec<u8> {
            let its = said.parts.iter().filter(|part| part.0 == slot);
            its.flat_map(|part| part.2.clone()).collect()
        };
        assert!(waiting.is_empty());
        assert_eq!(
            [0, 1].map(|slot| content(&said, slot)),
            [b"no".to_vec(), b"hello".to_vec()]
        );
        assert_eq!(
            (said.framing, connection.streams()),
            (wanted.framing, 0),
            "{step}"
        );
        assert_eq!(sent(&mut connection), left, "{step}");
    }
}

/// Each way in which a response can be none, of its stream alone.
#[test]
fn responses_that_are_none() {
    let ok = &[(":status", "200"), ("content-length", "5")];
    let start = Server::default;
    let table = [
        ("no status", start().head(1, &[("a", "b")], true)),
        (
            "a status that is none",
            start().head(1, &[(":status", "20x")], true),
        ),
        (
            "two",
            start().head(1, &[(":status", "200"), (":status", "200")], true),
        ),
        (
            "a field of requests",
            start().head(1, &[(":status", "200"), (":path", "/")], true),
        ),
        (
            "capitals",
            start().head(1, &[(":status", "200"), ("X", "1")], true),
        ),
        (
            "an interim response at the end",
            start().head(1, &[(":status", "100")], true),
        ),
        (
            "a second head",
            start().head(1, ok, false).head(1, ok, true),
        ),
        (
            "trailers in the middle",
            start().head(1, ok, false).head(1, &[("a", "b")], false),
        ),
        (
            "too little",
            start().head(1, ok, false).data(1, b"hell", true),
        ),
        (
            "too much",
            start().head(1, ok, false).data(1, b"hello!", true),
        ),
        ("nothing of some", start().head(1, ok, true)),
        ("content without a head", start().data(1, b"hello", true)),
        (
            "a length that is none",
            start().head(1, &[(":status", "200"), ("content-length", "-1")], true),
        ),
        (
            "a window opened by nothing",
            start().frame(kind::WINDOW_UPDATE, 0, 1, &[0; 4]),
        ),
    ];
    for (name, server) in table {
        let mut connection = asked(&[], 2);
        let said = take(&mut connection, &server.0).unwrap();
        assert_eq!(said.lost, [(0, Loss::Malformed)], "{name}");
        let frames = sent(&mut connection);
        let reset = ErrorCode::PROTOCOL_ERROR.0.to_be_bytes();
        assert_eq!(kinds(&frames), [(kind::RST_STREAM, 1)], "{name}");
        assert_eq!(frames[0].1, reset, "{name}");
        // What comes of it later is nobody's, and the other goes on.
        let rest = start()
            .data(1, b"more", true)
            .head(3, &[(":status", "204")], true);
        let said = take(&mut connection, &rest.0).unwrap();
        assert_eq!(said.parts, [(1, Some(204), vec![], true)], "{name}");
    }
}

/// Responses without content say its length all the same.
#[test]
fn no_content() {
    let request = Request::new(&Content {
        method: "HEAD".to_owned(),
        ..content("http://h/")
    });
    let mut connection = asked(&[], 0);
    connection.ask(0, &request);
    connection.ask(1, &get());
    let server = Server::default()
        .head(1, &[(":status", "200"), ("content-length", "5")], true)
        .head(3, &[(":status", "304"), ("content-length", "5")], true);
    let said = take(&mut connection, &server.0).unwrap();
    assert_eq!(
        said.parts,
        [(0, Some(200), vec![], true), (1, Some(304), vec![], true)]
    );
}

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

fn body_lens(connection: &mut Connection) -> Vec<usize> {
    let frames = sent(connection).into_iter();
    let data = frames.filter(|(head, _)| head.kind == kind::DATA);
    data.map(|(head, _)| head.len).collect()
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

/// Bodies go as far as the windows of stream and connection are open, in frames as long as the server takes.
#[test]
fn bodies_keep_to_windows() {
    let small = (setting::INITIAL_WINDOW_SIZE, 10);
    let mut connection = asked(&[small], 0);
    connection.ask(0, &post(25));
    connection.ask(1, &post(0));
    let lens = |connection: &mut Connection| -> Vec<(StreamId, usize, bool)> {
        let frames = sent(connection)
            .into_iter()
            .filter(|(head, _)| head.kind == kind::DATA);
        frames
            .map(|(head, _)| (head.stream, head.len, head.has(flag::END_STREAM)))
            .collect()
    };
    assert_eq!(lens(&mut connection), [(1, 10, false)]);
    let open = |stream, by: u32| {
        Server::default().frame(kind::WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
    };
    take(&mut connection, &open(1, 5).0).unwrap();
    assert_eq!(lens(&mut connection), [(1, 5, false)]);
    // A window that falls below nothing has to be opened by more than that.
    let server = Server::default().settings(&[(setting::INITIAL_WINDOW_SIZE, 4)]);
    take(&mut connection, &server.0).unwrap();
    take(&mut connection, &open(1, 6).0).unwrap();
    assert_eq!(lens(&mut connection), []);
    take(&mut connection, &open(1, 100).0).unwrap();
    assert_eq!(lens(&mut connection), [(1, 10, true)]);

    let mut connection = asked(&[(setting::INITIAL_WINDOW_SIZE, 1 << 20)], 0);
    connection.ask(0, &post(100_000));
    let frames = lens(&mut connection);
    let of_connection: usize = frames.iter().map(|(_, len, _)| len).sum();
    assert_eq!((frames[0].1, of_connection), (16_384, 65_535));
    take(&mut connection, &open(0, 40_000).0).unwrap();
    let rest = lens(&mut connection);
    assert_eq!(
        rest.iter().map(|(_, len, _)| len).sum::<usize>(),
        100_000 - 65_535
    );
    assert!(rest.last().unwrap().2);
}

/// A server that answers before it has all of a body gets no more of it.
#[test]
fn an_answer_ends_a_body() {
    let mut connection = asked(&[(setting::INITIAL_WINDOW_SIZE, 10)], 0);
    connection.ask(0, &post(25));
    sent(&mut connection);
    let server = Server::default().head(1, &[(":status", "413")], true);
    assert_eq!(take(&mut connection, &server.0).unwrap().parts.len(), 1);
    assert_eq!(kinds(&sent(&mut connection)), [(kind::RST_STREAM, 1)]);
    let more = Server::default().frame(kind::WINDOW_UPDATE, 0, 0, &9u32.to_be_bytes());
    take(&mut connection, &more.0).unwrap();
    assert_eq!((sent(&mut connection), connection.streams()), (vec![], 0));
}

/// Room for content is given back when half of it is used, on the stream and on the connection.
#[test]
fn room_is_given_back() {
    let mut connection = asked(&[], 1);
    let head = Server::default().head(1, &[(":status", "200")], false);
    take(&mut connection, &head.0).unwrap();
    let frame = Server::default().data(1, &[0; 16_384], false);
    let mut opened = Vec::new();
    for _ in 0..WINDOW / 16_384 {
        take(&mut connection, &frame.0).unwrap();
        if connection.has_out() {
            opened.extend(sent(&mut connection));
        }
    }
    let all = [0, 1, 0, 1].map(|stream| (kind::WINDOW_UPDATE, stream));
    assert_eq!(kinds(&opened), all);
    assert!(
        opened
            .iter()
            .all(|(_, by)| *by == (WINDOW / 2).to_be_bytes())
    );
}

/// Of a server that goes away, some requests are answered yet and others were not looked at.
#[test]
fn a_server_goes_away() {
    let mut connection = asked(&[], 4);
    let server = Server::default().frame(kind::GOAWAY, 0, 0, b"\0\0\0\x03\0\0\0\0bye");
    let said = take(&mut connection, &server.0).unwrap();
    assert_eq!(said.gone, [(ErrorCode::NO_ERROR, vec![2, 3])]);
    assert_eq!((connection.room(100), connection.is_used_up()), (0, true));
    assert_eq!(connection.take_slots(), [0, 1]);
}

#[test]
fn streams_are_reset() {
    let mut connection = asked(&[], 3);
    let server = Server::default().frame(kind::RST_STREAM, 0, 3, &7u32.to_be_bytes());
    let said = take(&mut connection, &server.0).unwrap();
    assert_eq!(said.lost, [(1, Loss::Reset(ErrorCode::REFUSED_STREAM))]);
    connection.cancel(2);
    connection.cancel(1);
    let frames = sent(&mut connection);
    assert_eq!(kinds(&frames), [(kind::RST_STREAM, 5)]);
    assert_eq!(frames[0].1, ErrorCode::CANCEL.0.to_be_bytes());
    // A head of a stream that is over still changes the table of fields.
    let mut kept = Vec::new();
    encoder::push_kept(&mut kept, b":status", b"599");
    let server = Server::default()
        .frame(
            kind::HEADERS,
            flag::END_HEADERS | flag::END_STREAM,
            5,
            &kept,
        )
        .frame(
            kind::HEADERS,
            flag::END_HEADERS | flag::END_STREAM,
            1,
            &[0xbe],
        );
    let said = take(&mut connection, &server.0).unwrap();
    assert_eq!(said.parts, [(0, Some(599), vec![], true)]);
}
