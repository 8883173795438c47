//! Parts of a document: the Range field, and the parts of the answer (RFC 9110 §14, §15.3.7).
//!
//! Parts that overlap, or between which less lies than the head of a part takes, are sent as one. A
//! field that asks for more parts than anybody needs is ignored, as §17.15 advises: the whole
//! document costs us less.

use std::ops::Range;

use exos_buf::Buffer;

use super::tail::Piece;
use crate::limits::{RANGE_GAP_LEN, RANGES_MAX};
use crate::site::Document;

/// What a Range field means for a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Nothing: it is of another unit, malformed, or asks for too much. The whole is sent.
    Ignored,
    /// None of it lies within the document: 416.
    Unsatisfiable,
    /// These bytes, in this order, none empty, none touching another.
    Some(Vec<Range<u64>>),
}

impl Parts {
    /// What is left of this for a document that `is_coded`. A body of several parts could not say
    /// that each part is coded, and not the whole of it: then the document is sent instead.
    pub fn of_one_body(self, is_coded: bool) -> Parts {
        match self {
            Parts::Some(parts) if is_coded && parts.len() > 1 => Parts::Ignored,
            parts => parts,
        }
    }
}

/// Reads the value of a Range field, for a document of `len` bytes.
pub fn parse(value: &[u8], len: u64) -> Parts {
    let Some(set) = strip_unit(value) else {
        return Parts::Ignored;
    };
    let mut parts = Vec::new();
    let mut members = 0;
    for member in crate::message::request::list(set) {
        members += 1;
        let Some(range) = one(member, len).filter(|_| members <= RANGES_MAX) else {
            return Parts::Ignored;
        };
        if !range.is_empty() {
            join(&mut parts, range);
        }
    }
    match (members, parts.is_empty()) {
        (0, _) => Parts::Ignored,
        (_, true) => Parts::Unsatisfiable,
        (_, false) => Parts::Some(parts),
    }
}

/// What follows `bytes=`; names of units are not case-sensitive (§14.1).
fn strip_unit(value: &[u8]) -> Option<&[u8]> {
    let equals = value.iter().position(|&b| b == b'=')?;
    let (unit, set) = (&value[..equals], &value[equals + 1..]);
    unit.eq_ignore_ascii_case(b"bytes").then_some(set)
}

/// One member of the set, cut to the document; empty when nothing of it lies within. `None` when it
/// is malformed (§14.1.1).
fn one(member: &[u8], len: u64) -> Option<Range<u64>> {
    let dash = member.iter().position(|&b| b == b'-')?;
    let (first, last) = (&member[..dash], &member[dash + 1..]);
    if first.is_empty() {
        return Some(len - number(last)?.min(len)..len);
    }
    let first = number(first)?;
    let end = match last {
        b"" => len,
        _ => number(last)?.checked_add(1).filter(|&end| end > first)?,
    };
    Some(first.min(len)..end.min(len))
}

/// Digits as a number. One that is too large for us is larger than any document.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let value = |n: u64, &d: &u8| n.saturating_mul(10).saturating_add(u64::from(d - b'0'));
    // One is added to it: the largest number is left out.
    is_number.then(|| digits.iter().fold(0, value).min(u64::MAX - 1))
}

/// Adds a part, as one with those that it touches, at the place of the first of them.
fn join(parts: &mut Vec<Range<u64>>, mut new: Range<u64>) {
    let touches = |a: &Range<u64>, b: &Range<u64>| {
        a.start <= b.end.saturating_add(RANGE_GAP_LEN)
            && b.start <= a.end.saturating_add(RANGE_GAP_LEN)
    };
    let mut place = parts.len();
    while let Some(at) = parts.iter().position(|part| touches(part, &new)) {
        let old = parts.remove(at);
        new = new.start.min(old.start)..new.end.max(old.end);
        place = place.min(at);
    }
    parts.insert(place.min(parts.len()), new);
}

/// What follows the opening of a 206: fields, and the bytes of the parts, which are not copied. `parts` is
/// not empty and lies within the document, as [`parse`] gives it.
pub fn response(document: &Document, parts: &[Range<u64>]) -> Vec<Piece> {
    match parts {
        [part] => single(document, part),
        _ => multiple(document, parts),
    }
}

fn single(document: &Document, part: &Range<u64>) -> Vec<Piece> {
    let fields = format!(
        "{}{}Content-Length: {}\r\n",
        document.content_fields(),
        content_range(part, document.content_len()),
        part.end - part.start,
    );
    vec![
        Piece::Bytes(Buffer::from(fields).into()),
        Piece::Bytes(document.validators()),
        part_of(document, part),
    ]
}

/// Parts with a head each, as `multipart/byteranges` (§14.6). The boundary is made of the hash of the
/// content, so that no content can hold its own; of a long file it is the hash of its version, which a content would
/// have to guess.
fn multiple(document: &Document, parts: &[Range<u64>]) -> Vec<Piece> {
    let tag = text(document.entity_tag()).trim_matches('"');
    let content_type = document.content_fields();
    let len = document.content_len();
    let bytes = |text: String| Piece::Bytes(Buffer::from(text).into());
    let mut out = vec![Piece::Bytes(document.validators())];
    for (n, part) in parts.iter().enumerate() {
        let line_end = if n == 0 { "" } else { "\r\n" };
        let range = content_range(part, len);
        let head = format!("{line_end}--exos-{tag}\r\n{content_type}{range}\r\n");
        out.extend([bytes(head), part_of(document, part)]);
    }
    out.push(bytes(format!("\r\n--exos-{tag}--\r\n")));
    let content_len: u64 = out[1..].iter().map(Piece::len).sum();
    let fields = format!(
        "Content-Type: multipart/byteranges; boundary=exos-{tag}\r\nContent-Length: {content_len}\r\n"
    );
    out.insert(0, bytes(fields));
    out
}

fn part_of(document: &Document, part: &Range<u64>) -> Piece {
    match document.long() {
        Some(_) => Piece::File(part.clone()),
        None => Piece::Bytes(document.body().sub(part.start as usize..part.end as usize)),
    }
}

/// The field that says which part it is (§14.4).
fn content_range(part: &Range<u64>, len: u64) -> String {
    format!(
        "Content-Range: bytes {}-{}/{len}\r\n",
        part.start,
        part.end - 1
    )
}

/// Fields are made of text.
fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
}

/// The field that a 416 has: how long the document is (RFC 9110 §14.4).
pub(crate) fn length_field(len: u64) -> String {
    format!("Content-Range: bytes */{len}\r\n")
}

#[cfg(test)]
#[expect(
    clippy::single_range_in_vec_init,
    reason = "lists of one part are meant"
)]
mod tests {
    use super::*;

    fn parts(value: &str, len: u64) -> Parts {
        parse(value.as_bytes(), len)
    }

    fn some(value: &str, len: u64, want: &[Range<u64>]) {
        assert_eq!(
            parts(value, len),
            Parts::Some(want.to_vec()),
            "{value} of {len}"
        );
    }

    /// The examples of §14.1.2, and what lies at the edges.
    #[test]
    fn ranges_are_cut_to_the_document() {
        const LEN: u64 = 10_000;
        some("bytes=0-499", LEN, &[0..500]);
        some("bytes=500-999", LEN, &[500..1000]);
        some("bytes=-500", LEN, &[9500..10_000]);
        some("bytes=9500-", LEN, &[9500..10_000]);
        some("bytes=0-0,-1", LEN, &[0..1, 9999..10_000]);
        some("BYTES= 0-0 , -1", LEN, &[0..1, 9999..10_000]);
        some("bytes=9999-20000", LEN, &[9999..10_000]);
        some("bytes=-20000", LEN, &[0..10_000]);
        some("bytes=0-99999999999999999999999999", LEN, &[0..10_000]);
        some("bytes=,,0-1,", LEN, &[0..2]);
        some("bytes=20000-,5-5", LEN, &[5..6]);
    }

    #[test]
    fn nothing_within_is_unsatisfiable() {
        for (value, len) in [
            ("bytes=10-", 10),
            ("bytes=-0", 10),
            ("bytes=0-", 0),
            ("bytes=-5", 0),
        ] {
            assert_eq!(parts(value, len), Parts::Unsatisfiable, "{value} of {len}");
        }
        let far = format!("bytes={}-", u64::MAX);
        assert_eq!(parts(&far, 10), Parts::Unsatisfiable);
    }

    #[test]
    fn what_is_no_range_is_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "lines=0-1",
            "bytes=5",
            "bytes=a-b",
            "bytes=5-4",
            "bytes=-",
            "bytes=1 -2",
            "bytes=+1-2",
            "bytes=0x1-2",
            "bytes=0-1,x",
            "bytes=1--2",
        ] {
            assert_eq!(parts(value, 10), Parts::Ignored, "{value:?}");
        }
    }

    #[test]
    fn touching_parts_are_one_at_the_place_of_the_first() {
        some(
            "bytes=5000-5999,0-9,6000-6999",
            10_000,
            &[5000..7000, 0..10],
        );
        some("bytes=0-9,20-29", 10_000, &[0..30]);
        some("bytes=0-9,2000-2009,5-2005", 10_000, &[0..2010]);
        some("bytes=2000-2009,0-9", 10_000, &[2000..2010, 0..10]);
    }

    #[test]
    fn too_many_parts_are_the_whole() {
        let set = |n: usize| -> String {
            let members: Vec<String> = (0..n).map(|i| format!("{0}-{0}", i * 1000)).collect();
            format!("bytes={}", members.join(","))
        };
        assert!(
            matches!(parts(&set(RANGES_MAX), 1 << 20), Parts::Some(p) if p.len() == RANGES_MAX)
        );
        assert_eq!(parts(&set(RANGES_MAX + 1), 1 << 20), Parts::Ignored);
    }
}
