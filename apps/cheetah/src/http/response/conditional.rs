//! Preconditions: whether a document or its parts are sent, are already known, or are the wrong version.
//!
//! Evaluated in the order of RFC 9110 §13.2.2. Entity tags are compared whole: ours are strong,
//! made from the content or, of a long file, from its version; so a weak tag from the client matches only If-None-Match (§8.8.3.2).

use std::time::{Duration, UNIX_EPOCH};

use crate::message::Status;
use crate::message::request::{self, Request};
use crate::site::Document;

/// `Ok`, `NotModified` or `PreconditionFailed` for a GET or HEAD of a document.
pub fn evaluate(request: &Request, document: &Document) -> Status {
    let tag = document.entity_tag();
    // Step 1, and step 2 when there is no If-Match.
    let is_refused = match tags(request, "if-match", |member| member == tag) {
        Some(matches) => !matches,
        None => {
            date(request, "if-unmodified-since").is_some_and(|at| document.modified_secs() > at)
        }
    };
    if is_refused {
        return Status::PreconditionFailed;
    }
    // Step 3, and step 4 when there is no If-None-Match.
    let is_known = match tags(request, "if-none-match", |member| opaque(member) == tag) {
        Some(matches) => matches,
        None => is_unmodified(request, document),
    };
    if is_known {
        Status::NotModified
    } else {
        Status::Ok
    }
}

/// Whether the parts asked for are of this version, so that they are sent, rather than the whole
/// (If-Range, §13.1.5). Only strong validators count: a date that is the same to the letter, and no
/// longer the present second, in which the document may change again (§8.8.2.2); and not the date
/// of a document with variants, which may share it.
pub fn range_applies(request: &Request, document: &Document, now_secs: u64) -> bool {
    let mut values = values(request, "if-range");
    match (values.next(), values.next()) {
        (None, _) => true,
        (Some(value), None) => {
            let is_strong = document.modified_secs() < now_secs && !document.varies();
            value == document.entity_tag() || (value == document.last_modified() && is_strong)
        }
        (Some(_), Some(_)) => false,
    }
}

/// The value of the Range field, if there is one and no more.
pub fn range<'b>(request: &Request<'b, '_>) -> Option<&'b [u8]> {
    let mut values = values(request, "range");
    values.next().filter(|_| values.next().is_none())
}

/// Whether a field of entity tags names the document; `None` without such a field.
pub(in crate::http) fn tags(
    request: &Request,
    name: &str,
    is_match: impl Fn(&[u8]) -> bool,
) -> Option<bool> {
    let mut values = values(request, name).peekable();
    values.peek()?;
    Some(values.any(|value| value == b"*" || request::list(value).any(&is_match)))
}

fn is_unmodified(request: &Request, document: &Document) -> bool {
    // Clients send back what they were sent: equal text needs no parsing.
    let sent = document.last_modified();
    values(request, "if-modified-since").any(|value| value == sent)
        || date(request, "if-modified-since").is_some_and(|at| document.modified_secs() <= at)
}

/// A date field in any of the three formats (RFC 9110 §5.6.7), in seconds since 1970. One that is
/// no date, or is there twice, counts for nothing (§13.1.3).
pub(in crate::http) fn date(request: &Request, name: &str) -> Option<u64> {
    let mut values = values(request, name);
    let value = values.next().filter(|_| values.next().is_none())?;
    let time = httpdate::parse_http_date(str::from_utf8(value).ok()?).ok()?;
    Some(
        time.duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO)
            .as_secs(),
    )
}

pub(in crate::http) fn values<'b>(
    request: &Request<'b, '_>,
    name: &str,
) -> impl Iterator<Item = &'b [u8]> {
    let named = request
        .fields
        .iter()
        .filter(move |field| field.name.eq_ignore_ascii_case(name));
    named.map(|field| field.value.trim_ascii())
}

/// A tag without its mark of weakness.
pub(in crate::http) fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}
