//! The line of the log that a response gets.

use exos_buf::Slice;

use super::attempt::Attempt;
use super::response::head;
use crate::log::{Answer, Log, LoggedRequest, Unfinished};
use crate::message::request::Request;
use crate::message::{Status, Version};

impl<'a> LoggedRequest<'a> {
    /// A request with a whole head. One for a tunnel on a stream was asked by CONNECT, whatever its upstream is asked by.
    pub(super) fn of(request: &'a Request<'a, 'a>) -> LoggedRequest<'a> {
        LoggedRequest::Request {
            method: match request.is_tunnel() {
                true => "CONNECT",
                false => request.method_name,
            },
            target: request.target,
            version: request.version,
            fields: request.fields,
        }
    }
}

/// What the log says of how a request was answered.
#[derive(Clone, Copy)]
pub(super) struct Told {
    pub(super) status: Status,
    /// What a cache had to do with it, where one had.
    pub(super) cache: Option<&'static str>,
}

impl From<Status> for Told {
    fn from(status: Status) -> Told {
        Told {
            status,
            cache: None,
        }
    }
}

/// Queues the line of a response, behind which this many bytes of a file follow.
#[inline(never)]
pub(super) fn log_answer(
    log: &mut Log,
    asked: LoggedRequest<'_>,
    told: impl Into<Told>,
    response: &[Slice],
    tail_len: u64,
    attempt: &Attempt,
    lines: &mut Unfinished,
) {
    let version = attempt.on_stream.unwrap_or(Version::Http11);
    let Told { status, cache } = told.into();
    let answer = Answer {
        peer: attempt.peer,
        begun: attempt.begun,
        asked,
        code: status.code(),
        head_len: head::len_of(response, version),
        len: response.iter().map(Slice::len).sum::<usize>() + tail_len as usize,
        cache,
        tls: attempt.tls.map(|about| &**about),
        is_early: attempt.is_early,
    };
    log.answered(&answer, lines);
}
