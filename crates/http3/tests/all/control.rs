//! A client's other streams: settings, priorities, and what ends the connection.

use exos_http2::priority::Priority;
use exos_http3::control::{Event, Kind, Opened, Peer, Reader};
use exos_http3::frame::{self, kind};
use exos_http3::{Fault, varint};

fn framed(kind: u64, numbers: &[u64], text: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    numbers.iter().for_each(|n| varint::push(&mut content, *n));
    content.extend_from_slice(text);
    let mut out = Vec::new();
    frame::push(&mut out, kind, &content);
    out
}

fn events(bytes: &[u8], piece: usize) -> Result<Vec<Event>, Fault> {
    let (mut reader, mut events) = (Reader::default(), Vec::new());
    for mut rest in bytes.chunks(piece) {
        while let Some(event) = reader.receive(&mut rest)? {
            events.push(event);
        }
        assert!(rest.is_empty());
    }
    Ok(events)
}

#[test]
fn our_own_settings_are_read() {
    let all = [frame::settings(), frame::go_away(8), frame::go_away(4)].concat();
    for piece in 1..=all.len() {
        let wanted = vec![
            Event::Opened(Kind::Control),
            Event::GoAway(8),
            Event::GoAway(4),
        ];
        assert_eq!(events(&all, piece), Ok(wanted));
    }
}

#[test]
fn priorities_are_told() {
    let all = [
        frame::settings(),
        framed(0x21, &[], b"grease"),
        framed(kind::PRIORITY_UPDATE, &[8], b"u=0, i"),
        framed(kind::MAX_PUSH_ID, &[3], b""),
    ]
    .concat();
    let priority = Priority {
        urgency: 0,
        is_incremental: true,
    };
    for piece in 1..=all.len() {
        let wanted = vec![Event::Opened(Kind::Control), Event::Priority(8, priority)];
        assert_eq!(events(&all, piece), Ok(wanted));
    }
}

#[test]
fn what_breaks_the_rules_ends_the_connection() {
    let control = |frames: &[Vec<u8>]| [&frame::settings()[..], &frames.concat()].concat();
    let begun = |kind: u64, len: u64| {
        let mut out = Vec::new();
        frame::push_head(&mut out, kind, len);
        out
    };
    for (bytes, fault) in [
        (vec![1], Fault::StreamKind),
        (
            [&[0][..], &framed(kind::GOAWAY, &[0], b"")].concat(),
            Fault::SettingsMissing,
        ),
        (
            [&[0][..], &framed(kind::SETTINGS, &[2, 0], b"")].concat(),
            Fault::Settings,
        ),
        // RFC 9220 §3: it is said or not.
        (
            [&[0][..], &framed(kind::SETTINGS, &[8, 2], b"")].concat(),
            Fault::Settings,
        ),
        (
            [&[0][..], &framed(kind::SETTINGS, &[6, 0, 6, 0], b"")].concat(),
            Fault::Settings,
        ),
        (
            [&[0][..], &framed(kind::SETTINGS, &[6], b"")].concat(),
            Fault::FrameLength,
        ),
        (
            control(&[framed(kind::SETTINGS, &[], b"")]),
            Fault::FrameUnexpected,
        ),
        (
            control(&[framed(kind::DATA, &[], b"")]),
            Fault::FrameUnexpected,
        ),
        (
            control(&[framed(kind::HEADERS, &[], b"")]),
            Fault::FrameUnexpected,
        ),
        (control(&[framed(8, &[], b"")]), Fault::FrameOfHttp2),
        (
            control(&[framed(kind::CANCEL_PUSH, &[0], b"")]),
            Fault::Identifier,
        ),
        (
            control(&[framed(kind::GOAWAY, &[], b"")]),
            Fault::FrameLength,
        ),
        (
            control(&[framed(kind::GOAWAY, &[1, 2], b"")]),
            Fault::FrameLength,
        ),
        (
            control(&[frame::go_away(4), frame::go_away(8)]),
            Fault::Identifier,
        ),
        (
            control(&[
                framed(kind::MAX_PUSH_ID, &[4], b""),
                framed(kind::MAX_PUSH_ID, &[3], b""),
            ]),
            Fault::Identifier,
        ),
        (
            control(&[framed(kind::PRIORITY_UPDATE, &[3], b"u=1")]),
            Fault::Identifier,
        ),
        (
            control(&[framed(kind::PRIORITY_UPDATE_PUSH, &[0], b"u=1")]),
            Fault::Identifier,
        ),
        (
            control(&[begun(kind::PRIORITY_UPDATE, 5000)]),
            Fault::WasteFlood,
        ),
        (control(&[begun(0x21, varint::MAX)]), Fault::WasteFlood),
        (vec![2, 0x21], Fault::EncoderStream),
        (vec![2, 0x80], Fault::EncoderStream),
        (vec![3, 0x80], Fault::DecoderStream),
        (vec![3, 0x01], Fault::DecoderStream),
    ] {
        for piece in [1, bytes.len()] {
            assert_eq!(events(&bytes, piece), Err(fault), "{bytes:x?}");
        }
    }
}

#[test]
fn nothing_may_be_said_of_a_table_of_no_room() {
    let kind = |kind| Ok(vec![Event::Opened(kind)]);
    assert_eq!(events(&[2, 0x20, 0x20], 1), kind(Kind::Encoder));
    assert_eq!(
        events(&[3, 0x44, 0x7f, 0x80, 0x01, 0x40], 1),
        kind(Kind::Decoder)
    );
    assert_eq!(events(b"\x21anything", 1), kind(Kind::Unknown));
}

#[test]
fn streams_of_a_kind_come_once_and_stay() {
    let mut opened = Opened::default();
    for kind in [Kind::Control, Kind::Encoder, Kind::Decoder] {
        assert_eq!(opened.open(kind), Ok(()));
        assert_eq!(opened.open(kind), Err(Fault::StreamKind));
    }
    assert_eq!(
        (opened.open(Kind::Unknown), opened.open(Kind::Unknown)),
        (Ok(()), Ok(()))
    );
    for (byte, end) in [
        (0, Err(Fault::CriticalStream)),
        (3, Err(Fault::CriticalStream)),
        (0x21, Ok(())),
    ] {
        let mut reader = Reader::default();
        reader.receive(&mut &[byte][..]).unwrap();
        assert_eq!(reader.end(), end);
    }
}

/// What a client hears of a server, and what no server may say to it.
#[test]
fn a_server_says_other_things() {
    let heard = |frames: &[Vec<u8>]| {
        let all = [&frame::settings()[..], &frames.concat()].concat();
        let (mut reader, mut rest) = (Reader::of(Peer::Server), &all[..]);
        let mut events = Vec::new();
        while let Some(event) = reader.receive(&mut rest)? {
            events.push(event);
        }
        Ok(events)
    };
    let opened = Event::Opened(Kind::Control);
    let gone = [frame::go_away(400), frame::go_away(8)];
    let wanted = vec![opened, Event::GoAway(400), Event::GoAway(8)];
    assert_eq!(heard(&gone), Ok(wanted));
    for (frames, fault) in [
        (
            vec![frame::go_away(4), frame::go_away(8)],
            Fault::Identifier,
        ),
        (vec![frame::go_away(3)], Fault::Identifier),
        (
            vec![framed(kind::MAX_PUSH_ID, &[3], b"")],
            Fault::FrameUnexpected,
        ),
        (
            vec![framed(kind::PRIORITY_UPDATE, &[0], b"")],
            Fault::FrameUnexpected,
        ),
        (
            vec![framed(kind::CANCEL_PUSH, &[0], b"")],
            Fault::Identifier,
        ),
        (
            vec![frame::settings()[1..].to_vec()],
            Fault::FrameUnexpected,
        ),
    ] {
        assert_eq!(heard(&frames), Err(fault));
    }
    let mut push = &[1u8, 0][..];
    assert_eq!(
        Reader::of(Peer::Server).receive(&mut push),
        Err(Fault::Identifier)
    );
}
