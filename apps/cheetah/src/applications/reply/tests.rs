use exos_buf::Buffer;
use exos_testing::Random;

use super::*;

/// A record of an application's.
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let len = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, len[0], len[1], 0, 0][..], content].concat()
}

const OUT: u8 = 6;
const ERR: u8 = 7;

fn end() -> Vec<u8> {
    record(3, &[0; 8])
}

/// What comes of bytes that come in pieces of these lengths.
#[derive(Debug, PartialEq, Eq)]
struct Whole {
    head: Option<Head>,
    content: Vec<u8>,
    warnings: Vec<String>,
    is_over: bool,
}

fn read(bytes: &[u8], mut step: impl FnMut() -> usize) -> Result<Whole, ReplyError> {
    let mut reply = Reply::default();
    let (mut head, mut content, mut warnings) = (None, Vec::new(), Vec::new());
    let mut rest = bytes;
    while !rest.is_empty() && !reply.is_over() {
        let part = &rest[..rest.len().min(step())];
        let (count, found) = reply.take(part, |_| false, &mut content)?;
        assert!(count == part.len() || reply.is_over());
        head = head.or(found);
        warnings.extend(reply.take_warnings());
        rest = &rest[count..];
    }
    let is_over = reply.is_over();
    Ok(Whole {
        head,
        content,
        warnings,
        is_over,
    })
}

#[test]
fn an_answer_is_the_same_wherever_its_records_are_cut() {
    let mut random = Random(7);
    let text = b"Status: 201\r\nContent-Type: a/b\r\nX: y\r\n\r\n\r\nthe content\n";
    for _ in 0..300 {
        let (mut bytes, mut rest) = (Vec::new(), &text[..]);
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(1 + random.below(rest.len()));
            bytes.extend(record(OUT, part));
            bytes.extend(record(ERR, b"said\n"));
            rest = behind;
        }
        bytes.extend(end());
        let whole = read(&bytes, || usize::MAX).unwrap();
        assert_eq!(whole.content, b"\r\nthe content\n");
        assert_eq!(whole.head.as_ref().map(|head| head.code), Some(201));
        assert!(whole.is_over && !whole.warnings.is_empty());
        let cut = read(&bytes, || 1 + random.below(30)).unwrap();
        assert_eq!(cut, whole);
    }
}

#[test]
fn what_is_no_answer_is_an_error() {
    let endless = |line: &[u8]| record(OUT, &line.repeat(60_000 / line.len()));
    for (bytes, wanted) in [
        (end(), ReplyError::NoHead),
        (
            [record(OUT, b"A: b\r\n"), end()].concat(),
            ReplyError::NoHead,
        ),
        (endless(b"A"), ReplyError::HeadLength),
        (
            endless(b"A: b\r\n"),
            ReplyError::Head(HeadError::TooManyFields),
        ),
        (record(3, &[0, 0, 0, 0, 2, 0, 0, 0]), ReplyError::Overloaded),
        (record(3, &[0, 0, 0, 0, 3, 0, 0, 0]), ReplyError::Refused(3)),
        (
            record(OUT, b"nonsense\n"),
            ReplyError::Head(HeadError::Syntax),
        ),
        (
            b"no record at all".to_vec(),
            ReplyError::Record(RecordError::Version(b'n')),
        ),
    ] {
        assert_eq!(read(&bytes, || usize::MAX), Err(wanted));
    }
}

#[test]
fn warnings_are_lines_without_controls_and_not_endless() {
    let bytes = [
        record(ERR, b"\x1b[31mred\r\n\n"),
        record(ERR, b"cut"),
        record(ERR, b" off"),
        record(OUT, b"\n"),
        end(),
    ];
    let whole = read(&bytes.concat(), || usize::MAX).unwrap();
    assert_eq!(whole.warnings, [" [31mred", "cut off"]);
    let long = record(ERR, &[&[b'x'; 5000][..], b"\n"].concat());
    let bytes = [long.repeat(WARNINGS_MAX + 5), record(OUT, b"\n"), end()].concat();
    let whole = read(&bytes, || usize::MAX).unwrap();
    assert_eq!(whole.warnings.len(), WARNINGS_MAX);
    assert!(
        whole
            .warnings
            .iter()
            .all(|line| line.len() == WARNING_LEN_MAX)
    );
}

#[test]
fn content_ends_as_its_client_understands() {
    use Version::{Http2, Http10, Http11};
    let head = |code, length| Head {
        code,
        reason: "".into(),
        length,
        fields: Vec::new(),
        said: None,
    };
    for (head, asks_head, version, fields, body) in [
        (
            head(200, None),
            false,
            Http11,
            "Transfer-Encoding: chunked\r\n",
            "3\r\nabc\r\n0\r\n\r\n",
        ),
        (head(200, None), false, Http10, "", "abc"),
        (
            head(200, Some(3)),
            false,
            Http11,
            "Content-Length: 3\r\n",
            "abc",
        ),
        (
            head(200, Some(2)),
            false,
            Http10,
            "Content-Length: 2\r\n",
            "ab",
        ),
        (
            head(200, Some(9)),
            true,
            Http11,
            "Content-Length: 9\r\n",
            "",
        ),
        (head(200, None), true, Http11, "", ""),
        (head(200, None), false, Http2, "", "abc"),
        (
            head(200, Some(3)),
            false,
            Http2,
            "Content-Length: 3\r\n",
            "abc",
        ),
        (head(204, Some(3)), false, Http11, "", ""),
        (head(304, Some(3)), false, Http11, "", ""),
    ] {
        let mut framing = Framing::of(head.code, head.length, asks_head, version);
        let (mut said, mut out) = (Vec::new(), Vec::new());
        framing.push_fields(head.code, head.length, &mut said);
        let mut behind = Vec::new();
        let mut nothing = Content::NONE;
        assert!(framing.frame(&mut nothing, &mut out, &mut behind));
        assert!(out.is_empty() && behind.is_empty());
        // Of both kinds of content.
        let mut twin = (framing, out.clone(), behind.clone());
        let mut content = Content::Bytes(b"abc".to_vec());
        let is_all = framing.frame(&mut content, &mut out, &mut behind);
        assert_eq!(is_all, head.length != Some(2));
        let mut slice = Content::Slice(Buffer::from_static(b"abc").whole());
        let is_all_too = twin.0.frame(&mut slice, &mut twin.1, &mut twin.2);
        assert_eq!((is_all, &out, &behind), (is_all_too, &twin.1, &twin.2));
        framing.end(b"", &mut behind).unwrap();
        let (Content::Bytes(bytes), len) = (content, slice.len()) else {
            unreachable!("it stays what it is")
        };
        assert_eq!(bytes.len(), len);
        out.extend(bytes);
        out.extend(behind);
        assert_eq!(
            (&*said, &*out),
            (fields.as_bytes(), body.as_bytes()),
            "{head:?}"
        );
    }
    let mut end = Vec::new();
    Framing::Chunked.end(b"X: y\r\n", &mut end).unwrap();
    assert_eq!(end, b"0\r\nX: y\r\n\r\n");
    let short = Framing::Length(1).end(b"", &mut Vec::new());
    assert_eq!(short, Err(ReplyError::Short));
}

/// A request is asked again only where not a byte came, and a connection is kept only where none is owed.
#[test]
fn what_has_come_of_records_is_known() {
    let mut content = Vec::new();
    let mut reply = Reply::default();
    assert!(reply.is_fresh());
    let said = record(ERR, b"said\n");
    reply.take(&said[..3], |_| false, &mut content).unwrap();
    assert!(!reply.is_fresh());
    let mut padded = end();
    padded[6] = 2;
    let answer = [record(OUT, b"A: b\r\n\r\n"), padded].concat();
    let mut reply = Reply::default();
    reply.take(&answer, |_| false, &mut content).unwrap();
    assert!(reply.is_over() && !reply.is_at_a_record());
    let answer = [record(OUT, b"A: b\r\n\r\n"), end()].concat();
    let mut reply = Reply::default();
    reply.take(&answer, |_| false, &mut content).unwrap();
    assert!(reply.is_over() && reply.is_at_a_record());
}
