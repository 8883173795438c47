//! What is kept of an upstream's answer, as it is sent: which part of it a request gets, and the head before that.

use std::ops::Range;

use exos_buf::{Buffer, Slice};

use super::conditional;
use super::opening::{self, Manner, Persistence};
use super::range::{self, Parts};
use crate::caching::record::{Answer, Head, name_of};
use crate::message::Status;
use crate::message::http2::push_lines;
use crate::message::request::{Method, Request};

/// What of an answer that is kept a request gets.
pub(in crate::http) enum Part {
    Whole,
    Unchanged,
    Some(Range<usize>),
    Outside,
}

/// RFC 9111 §4.3.2 and RFC 9110 §13.2.2, of an answer that is 200.
pub(in crate::http) fn part_of(answer: &Answer, request: &Request<'_, '_>) -> Part {
    let record = &answer.record;
    if !request.conditional || record.code != 200 {
        return Part::Whole;
    }
    let tag = record.said.tag.as_deref();
    let modified = record.said.modified.as_ref();
    let names = conditional::tags(request, "if-none-match", |member| {
        tag.is_some_and(|tag| conditional::opaque(member) == conditional::opaque(tag))
    });
    let is_known = names.unwrap_or_else(|| {
        let since = conditional::date(request, "if-modified-since");
        since.is_some_and(|since| modified.is_some_and(|(_, at)| *at <= since))
    });
    if is_known {
        return Part::Unchanged;
    }
    let (Some(value), Method::Get) = (conditional::range(request), request.method) else {
        return Part::Whole;
    };
    let mut holds = conditional::values(request, "if-range");
    let is_version = holds.next().is_none_or(|value| {
        let is_strong_tag = tag.is_some_and(|tag| tag == value && !tag.starts_with(b"W/"));
        // RFC 9110 §8.8.2.2: a date is strong that was past when the answer was made.
        let is_date =
            modified.is_some_and(|(text, at)| **text == *value && at + 1 < record.date_secs);
        is_strong_tag || is_date
    });
    let len = answer.body().len();
    match range::parse(value, len as u64) {
        _ if !is_version => Part::Whole,
        Parts::Unsatisfiable => Part::Outside,
        // Several parts would need a body of their own: the whole is what may be sent as well.
        Parts::Some(parts) => match &parts[..] {
            [part] => Part::Some(part.start as usize..part.end as usize),
            _ => Part::Whole,
        },
        Parts::Ignored => Part::Whole,
    }
}

/// What a head says beside what the answer itself does.
pub(in crate::http) struct Says<'a> {
    /// The status.
    pub(in crate::http) status: Status,
    /// About the connection.
    pub(in crate::http) how: Manner,
    /// What rules set, as lines.
    pub(in crate::http) fields: Option<&'a Slice>,
    /// The line of Cache-Status; nothing where the answer was there and would do.
    pub(in crate::http) cache: Option<&'a str>,
    /// Where HTTP/3 is spoken; empty where that is not to be said.
    pub(in crate::http) alternative: &'a str,
    /// The present time.
    pub(in crate::http) now_secs: u64,
}

/// What comes before the content: two slices, which in HTTP/2 are the parts of its header block.
pub(in crate::http) fn head(answer: &Answer, part: &Part, says: &Says<'_>) -> Head {
    let &Says {
        status,
        how,
        fields,
        cache,
        alternative,
        now_secs,
    } = says;
    let record = &answer.record;
    let mut lines = fields.map_or(Vec::new(), |fields| fields.as_bytes().to_vec());
    let is_set = |name: &[u8]| {
        let set = fields.map_or(&b""[..], Slice::as_bytes);
        set.split(|&b| b == b'\n')
            .any(|line| name_of(line).eq_ignore_ascii_case(name))
    };
    let len = answer.body().len();
    for line in answer.lines() {
        let name = name_of(line);
        let is_length = name.eq_ignore_ascii_case(b"content-length");
        let is_of_content = name
            .get(..8)
            .is_some_and(|it| it.eq_ignore_ascii_case(b"content-"));
        let is_left_out = match part {
            Part::Whole => false,
            Part::Some(_) => is_length,
            Part::Unchanged => is_of_content && !name.eq_ignore_ascii_case(b"content-location"),
            Part::Outside => is_of_content,
        };
        if !is_left_out && !is_set(name) {
            lines.extend_from_slice(line);
        }
    }
    let age = record.age(now_secs).as_secs();
    let left = record.terms.fresh.as_secs() as i64 - age as i64;
    let own = match part {
        Part::Some(range) => format!(
            "Content-Range: bytes {}-{}/{len}\r\nContent-Length: {}\r\n",
            range.start,
            range.end - 1,
            range.len()
        ),
        Part::Outside => format!("Content-Range: bytes */{len}\r\nContent-Length: 0\r\n"),
        Part::Whole | Part::Unchanged => String::new(),
    };
    lines.extend(own.into_bytes());
    lines.extend(format!("Age: {age}\r\n").into_bytes());
    match cache {
        Some(said) => lines.extend_from_slice(said.as_bytes()),
        None => lines.extend(format!("Cache-Status: exos; hit; ttl={left}\r\n").into_bytes()),
    }
    if !alternative.is_empty() {
        lines.extend(format!("Alt-Svc: {alternative}\r\n").into_bytes());
    }
    let (first, second) = match how.persistence {
        Persistence::Http2 => {
            let mut block = Vec::with_capacity(lines.len());
            push_lines(&mut block, &lines);
            (opening::block(record.date_secs, status.code()), block)
        }
        persistence => {
            let (code, reason) = (status.code(), status.reason());
            let text = opening::text(record.date_secs, code, reason, persistence);
            lines.extend_from_slice(b"\r\n");
            (text.into_bytes(), lines)
        }
    };
    [first, second].map(|bytes| Buffer::from(bytes).into())
}
