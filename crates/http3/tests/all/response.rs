//! Responses, whole and in pieces, and what breaks the rules.

use exos_http3::Fault;
use exos_http3::frame::{self, kind};
use exos_http3::qpack::encoder;
use exos_http3::response::{Part, Reader, Sections};
use proptest::prelude::*;

fn framed(kind: u64, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::push_head(&mut out, kind, content.len() as u64);
    out.extend_from_slice(content);
    out
}

fn head(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    encoder::begin(&mut section);
    for (name, value) in fields {
        encoder::push(&mut section, name.as_bytes(), value.as_bytes());
    }
    framed(kind::HEADERS, &section)
}

/// The statuses and the content of a stream that comes in pieces of this length.
fn read(bytes: &[u8], piece: usize, is_head: bool) -> Result<(Vec<u16>, Vec<u8>), Fault> {
    let (mut reader, mut sections) = (Reader::new(is_head), Sections::default());
    let (mut statuses, mut content) = (Vec::new(), Vec::new());
    for mut rest in bytes.chunks(piece.max(1)) {
        while !rest.is_empty() {
            match reader.receive(&mut rest, &mut sections)? {
                Some(Part::Head(status)) => statuses.push(status),
                Some(Part::Data(data)) => content.extend_from_slice(data),
                None => assert!(rest.is_empty()),
            }
        }
    }
    assert_eq!(reader.has_begun(), !statuses.is_empty());
    reader.end()?;
    Ok((statuses, content))
}

#[test]
fn a_response_is_read_whatever_its_pieces() {
    let all = [
        head(&[(":status", "103"), ("link", "</a>")]),
        framed(0x21, b"grease"),
        head(&[(":status", "200"), ("content-length", "8"), ("server", "a")]),
        framed(kind::DATA, b"01234"),
        framed(kind::DATA, b""),
        framed(kind::DATA, b"567"),
        head(&[("x-sum", "1")]),
    ]
    .concat();
    for piece in 1..=all.len() {
        let wanted = Ok((vec![200], b"01234567".to_vec()));
        assert_eq!(read(&all, piece, false), wanted, "{piece}");
    }
}

#[test]
fn a_response_without_content_says_how_long_it_would_be() {
    let length = ("content-length", "9");
    for (status, is_head) in [("200", true), ("304", false), ("204", false)] {
        let none = head(&[(":status", status), length]);
        let number: u16 = status.parse().unwrap();
        assert_eq!(read(&none, 9, is_head), Ok((vec![number], vec![])));
        let some = [none, framed(kind::DATA, b"012345678")].concat();
        assert_eq!(read(&some, 9, is_head), Err(Fault::ContentLength));
    }
}

#[test]
fn what_is_no_response() {
    let ok = head(&[(":status", "200"), ("content-length", "3")]);
    let more = |frames: &[Vec<u8>]| [&ok[..], &frames.concat()].concat();
    for (bytes, fault) in [
        (Vec::new(), Fault::Incomplete),
        (head(&[(":status", "103")]), Fault::Incomplete),
        (head(&[("server", "a")]), Fault::Malformed),
        (head(&[(":status", "20")]), Fault::Malformed),
        (head(&[(":status", "101")]), Fault::Malformed),
        (head(&[(":status", "2000")]), Fault::Malformed),
        (
            head(&[(":status", "200"), (":status", "200")]),
            Fault::Malformed,
        ),
        (
            head(&[(":status", "200"), (":path", "/")]),
            Fault::Malformed,
        ),
        (
            head(&[(":status", "200"), ("Server", "a")]),
            Fault::Malformed,
        ),
        (
            head(&[(":status", "200"), ("content-length", "a")]),
            Fault::Malformed,
        ),
        (ok.clone(), Fault::ContentLength),
        (more(&[framed(kind::DATA, b"0123")]), Fault::ContentLength),
        (more(&[head(&[(":status", "200")])]), Fault::Malformed),
        (
            more(&[framed(kind::DATA, b"012"), head(&[]), head(&[])]),
            Fault::FrameUnexpected,
        ),
        (framed(kind::DATA, b"0"), Fault::FrameUnexpected),
        (framed(kind::PUSH_PROMISE, b"0"), Fault::FrameUnexpected),
        (framed(kind::SETTINGS, b""), Fault::FrameUnexpected),
        (framed(6, b""), Fault::FrameOfHttp2),
        (framed(kind::HEADERS, b""), Fault::Compression),
        (framed(kind::HEADERS, b"\x01\x00"), Fault::Compression),
        (ok[..ok.len() - 1].to_vec(), Fault::FrameTruncated),
    ] {
        assert_eq!(read(&bytes, bytes.len(), false), Err(fault), "{bytes:x?}");
        assert_eq!(read(&bytes, 1, false), Err(fault), "{bytes:x?}");
    }
}

proptest! {
    /// A section that is remembered says what one says that is read for the first time.
    #[test]
    fn sections_are_remembered_as_they_were(
        responses in proptest::collection::vec((200u16..600, 0usize..40, any::<bool>()), 1..20),
    ) {
        let mut sections = Sections::default();
        for (status, len, says) in responses {
            let (status_text, len_text) = (status.to_string(), len.to_string());
            let mut fields = vec![(":status", &status_text[..])];
            if says {
                fields.push(("content-length", &len_text));
            }
            let has_content = !matches!(status, 204 | 304);
            let content = vec![b'x'; if has_content { len } else { 0 }];
            let bytes = [head(&fields), framed(kind::DATA, &content)].concat();
            let (mut reader, mut rest, mut came) = (Reader::default(), &bytes[..], Vec::new());
            while let Some(part) = reader.receive(&mut rest, &mut sections).unwrap() {
                match part {
                    Part::Head(came) => prop_assert_eq!(came, status),
                    Part::Data(data) => came.extend_from_slice(data),
                }
            }
            prop_assert_eq!((reader.end(), came), (Ok(()), content));
        }
    }
}
