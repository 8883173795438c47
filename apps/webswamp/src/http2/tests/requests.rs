//! What a client sends: preface, requests, the table of fields that they share, bodies within windows.

use super::*;

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

pub(super) fn body_lens(connection: &mut Connection) -> Vec<usize> {
    let frames = sent(connection).into_iter();
    let data = frames.filter(|(head, _)| head.kind == kind::DATA);
    data.map(|(head, _)| head.len).collect()
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
