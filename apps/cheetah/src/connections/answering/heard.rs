//! What has come of an answer, in parts: of a connection what one read has brought, of a link its pieces.

use exos_application::asking::Part as Linked;
use exos_inet::Instant;
use exos_inet::tcp::Reason;

use super::Answering;
use super::failure::{Failure, tell_warnings};
use crate::applications::heads::{Heads, Known};
use crate::applications::pool::Upstream;
use crate::applications::reply::{Content, ReplyError};
use crate::connections::shared::Shared;
use crate::limits::{APPLICATION_HEAD_LEN_MAX, APPLICATION_READ_LEN};

/// A part of what has come of an answer.
pub(super) struct Part {
    /// Answers before the last one.
    pub(super) interim: Vec<u8>,
    /// The head, if that is whole now.
    pub(super) head: Option<Known>,
    /// Content behind that.
    pub(super) content: Content,
    /// Lines behind all of that.
    pub(super) trailers: Vec<u8>,
}

/// The next part of what has come of an answer. Nothing when there is none.
pub(super) fn next_part(
    upstream: Upstream,
    answering: &mut Answering,
    shared: &mut Shared,
    now: Instant,
) -> Result<Option<Part>, Failure> {
    let carriers = shared.applications.carriers();
    let part = match upstream {
        Upstream::Fastcgi(connection) | Upstream::Http(connection) => {
            let reason = carriers.end_of(upstream);
            let bytes = carriers.readable(connection);
            let bytes = &bytes[..bytes.len().min(APPLICATION_READ_LEN)];
            if bytes.is_empty() {
                // Some answers end with their connection.
                let is_end = reason.is_some_and(|reason| answering.hearing.ends_with(reason));
                return if is_end {
                    Ok(Some(Part::END))
                } else {
                    match carriers.session_failure(upstream) {
                        Some(why) => Err(Failure::Session(why)),
                        None => nothing(reason),
                    }
                };
            }
            let taken = take_bytes(bytes, answering);
            taken.map(|(count, part)| {
                carriers.consume(connection, count);
                part
            })
        }
        Upstream::Request(request) => {
            let Some(part) = carriers.take_part(request) else {
                return nothing(carriers.end_of(upstream));
            };
            take_linked(part, answering, &mut shared.heads)
        }
    };
    tell_warnings(answering, &mut shared.applications, now);
    part.map(Some).map_err(Failure::Reply)
}

impl Part {
    /// Of an answer that has ended there is nothing else.
    const END: Part = Part {
        interim: Vec::new(),
        head: None,
        content: Content::NONE,
        trailers: Vec::new(),
    };
}

/// Takes what a connection has brought: how much of it, and what it says.
fn take_bytes(bytes: &[u8], answering: &mut Answering) -> Result<(usize, Part), ReplyError> {
    let asking = &answering.asking;
    let mut content = Vec::with_capacity(bytes.len());
    let is_set = |name: &str| asking.is_set(name);
    let taken = answering.hearing.take(bytes, is_set, &mut content)?;
    let part = Part {
        interim: taken.interim,
        head: taken.head.map(Known::from),
        content: Content::Bytes(content),
        trailers: taken.trailers,
    };
    Ok((taken.count, part))
}

/// Takes what a link has brought: a head and what is behind it leave together, and so does the end.
fn take_linked(
    linked: Linked,
    answering: &mut Answering,
    heads: &mut Heads,
) -> Result<Part, ReplyError> {
    answering.hearing.take_part(&linked.said, linked.is_last);
    let set = answering.asking.more_fields();
    let len = linked.head.as_ref().map_or(0, |head| head.bytes.len());
    if len > APPLICATION_HEAD_LEN_MAX {
        return Err(ReplyError::HeadLength);
    }
    let head = linked.head.map(|head| heads.parse(&head, set));
    Ok(Part {
        head: head.transpose().map_err(ReplyError::Head)?,
        content: linked.content.map_or(Content::NONE, Content::from),
        ..Part::END
    })
}

/// Nothing has come: an error where nothing will.
fn nothing<T>(end: Option<Reason>) -> Result<Option<T>, Failure> {
    match end {
        Some(reason) => Err(Failure::Ended(reason)),
        None => Ok(None),
    }
}
