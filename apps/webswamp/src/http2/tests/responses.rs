//! What a server answers: whole, in pieces, and in forms that are no response.

use super::*;

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
        opened.extend(sent(&mut connection));
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
    assert_eq!(said.gone, [(ErrorCode::NO_ERROR.into(), vec![2, 3])]);
    assert_eq!((connection.room(100), connection.is_used_up()), (0, true));
    assert_eq!(connection.take_slots(), [0, 1]);
}

#[test]
fn streams_are_reset() {
    let mut connection = asked(&[], 3);
    let server = Server::default().frame(kind::RST_STREAM, 0, 3, &7u32.to_be_bytes());
    let said = take(&mut connection, &server.0).unwrap();
    assert_eq!(
        said.lost,
        [(1, Loss::Reset(ErrorCode::REFUSED_STREAM.into()))]
    );
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
