//! Requests, whole and in pieces, and what breaks the rules.

use exos_http3::frame::{self, kind};
use exos_http3::heads::Heads;
use exos_http3::limits::SECTION_LEN_MAX;
use exos_http3::qpack::encoder::section;
use exos_http3::request::{Part, Reader};
use exos_http3::{Fault, varint};

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a.example"),
    (":path", "/a?b"),
];

fn framed(kind: u64, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::push(&mut out, kind, content);
    out
}

fn head(more: &[(&str, &str)]) -> Vec<u8> {
    framed(kind::HEADERS, &section(&[&GET[..], more].concat()))
}

/// The path and the body that a stream has which comes in pieces of this length.
fn read(bytes: &[u8], piece: usize) -> Result<(Vec<u8>, Vec<u8>), Fault> {
    let (mut reader, mut path, mut body) = (Reader::default(), Vec::new(), Vec::new());
    let mut heads = Heads::default();
    for mut piece in bytes.chunks(piece) {
        while !piece.is_empty() {
            let (taken, part) = reader.receive(piece, &mut heads)?;
            match part {
                Some(Part::Head(head)) => path.extend_from_slice(head.request().path().unwrap()),
                Some(Part::Data(data)) => body.extend_from_slice(data),
                Some(Part::Trailers(fields)) => {
                    for (name, value) in fields.iter() {
                        body.extend([b" ", name, b"=", value].concat());
                    }
                }
                None => assert_eq!(taken, piece.len()),
            }
            piece = &piece[taken..];
        }
    }
    reader.end()?;
    Ok((path, body))
}

#[test]
fn a_request_is_read_whatever_its_pieces() {
    let grease = framed(0x1f * 7 + 0x21, b"grease");
    let all = [
        &grease[..],
        &head(&[("content-length", "8"), ("priority", "u=1")]),
        &framed(kind::DATA, b"01234"),
        &framed(kind::DATA, b""),
        &grease,
        &framed(kind::DATA, b"567"),
        &framed(kind::HEADERS, &section(&[("x-sum", "1")])),
        &grease,
    ]
    .concat();
    for piece in 1..=all.len() {
        let read = read(&all, piece);
        assert_eq!(
            read,
            Ok((b"/a?b".to_vec(), b"01234567 x-sum=1".to_vec())),
            "{piece}"
        );
    }
}

#[test]
fn what_breaks_the_rules_is_a_fault() {
    let mut long = Vec::new();
    frame::push_head(&mut long, kind::HEADERS, SECTION_LEN_MAX as u64 + 1);
    let mut waste = Vec::new();
    frame::push_head(&mut waste, 0x21, varint::MAX);
    let data = framed(kind::DATA, b"12");
    let trailers = framed(kind::HEADERS, &section(&[("a", "b")]));
    let pseudo = framed(kind::HEADERS, &section(&[(":path", "/")]));
    let mut tunnel = [&GET[..], &[(":protocol", "websocket")]].concat();
    tunnel[0].1 = "CONNECT";
    let tunnel = framed(kind::HEADERS, &section(&tunnel));
    for (parts, fault) in [
        (vec![], Fault::Incomplete),
        (vec![data.clone()], Fault::FrameUnexpected),
        (vec![head(&[]), framed(2, b"")], Fault::FrameOfHttp2),
        (
            vec![head(&[]), framed(kind::SETTINGS, b"")],
            Fault::FrameUnexpected,
        ),
        (vec![framed(kind::HEADERS, b"")], Fault::Compression),
        (
            vec![framed(kind::HEADERS, b"\x02\x00\x80")],
            Fault::Compression,
        ),
        (
            vec![framed(kind::HEADERS, &section(&GET[..2]))],
            Fault::Malformed,
        ),
        (vec![head(&[("connection", "close")])], Fault::Malformed),
        (vec![head(&[("a", "b\r\nc")])], Fault::Malformed),
        (vec![head(&[]), pseudo], Fault::Malformed),
        (
            vec![head(&[]), trailers.clone(), data.clone()],
            Fault::FrameUnexpected,
        ),
        (
            vec![head(&[]), trailers.clone(), trailers.clone()],
            Fault::FrameUnexpected,
        ),
        (
            vec![tunnel, data.clone(), trailers.clone()],
            Fault::FrameUnexpected,
        ),
        (
            vec![head(&[("content-length", "1")]), data.clone()],
            Fault::ContentLength,
        ),
        (
            vec![head(&[("content-length", "3")]), data.clone()],
            Fault::ContentLength,
        ),
        (vec![head(&[]), data[..3].to_vec()], Fault::FrameTruncated),
        (vec![head(&[])[..9].to_vec()], Fault::FrameTruncated),
        (vec![long], Fault::SectionTooLong),
        (vec![waste], Fault::WasteFlood),
    ] {
        let all = parts.concat();
        for piece in [1, 7, all.len().max(1)] {
            assert_eq!(read(&all, piece), Err(fault), "{parts:x?}");
        }
    }
}

#[test]
fn fields_beyond_the_limit_are_told() {
    let long = "x".repeat(1000);
    let more: Vec<(&str, &str)> = (0..20).map(|_| ("a", &*long)).collect();
    let mut reader = Reader::default();
    let bytes = head(&more);
    let mut heads = Heads::default();
    let (_, part) = reader.receive(&bytes, &mut heads).unwrap();
    let Some(Part::Head(head)) = part else {
        panic!("a head");
    };
    assert!(head.is_too_long());
    assert_eq!(head.request().path(), Some(&b"/a?b"[..]));
}
