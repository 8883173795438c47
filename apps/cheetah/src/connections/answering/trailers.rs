//! Fields behind bodies (RFC 9110 §6.5): which of a request's an upstream gets, and which of an answer's the client.

use std::mem::take;

use super::{Answering, Upload};
use crate::applications::proxy::request::goes_on_behind;
use crate::applications::reply::Framing;
use crate::applications::trailers::{chunked, passed_on};
use crate::connections::shared::Shared;
use crate::http::Asking;

impl Answering {
    /// A body has been collected: what is behind it goes to an upstream with it, in chunks, for HTTP/1.1 has no other place for that.
    pub(super) fn keep_trailers(&mut self, shared: &mut Shared) {
        let Upload::Chunked(body) = &mut self.upload else {
            return;
        };
        let lines = body.take_trailers();
        let lines = going_on(&lines, &self.asking, shared);
        if !lines.is_empty() {
            self.upload = Upload::Whole(chunked(&take(&mut body.content), &lines), 0);
            self.is_chunked = true;
        }
    }

    /// Of the lines behind an answer those that its client gets, and how many fields it does not. `on_stream` they have a place of their own.
    pub(super) fn trailers_of_answer(&self, lines: &[u8], on_stream: bool) -> (Vec<u8>, u64) {
        if lines.is_empty() {
            return (Vec::new(), 0);
        }
        let has_place = match self.begun.map(|begun| begun.framing) {
            Some(Framing::Chunked) => true,
            Some(Framing::Close) => on_stream,
            Some(Framing::Without | Framing::Length(_) | Framing::Tunnel) | None => false,
        };
        let is_taken = has_place && self.asking.takes_trailers();
        passed_on(lines, |name| is_taken && !self.asking.is_set(name))
    }
}

/// Of the lines behind a request's body those that its upstream gets.
pub(super) fn going_on(lines: &[u8], asking: &Asking, shared: &mut Shared) -> Vec<u8> {
    if lines.is_empty() {
        return Vec::new();
    }
    let proxy = asking.asked.application.proxy.as_ref();
    let applications = &shared.applications;
    let takes_chunks = applications.takes_chunks(&asking.asked.application);
    let goes_on =
        |name: &str| takes_chunks && proxy.is_some_and(|proxy| goes_on_behind(name, proxy));
    let (lines, left_out) = passed_on(lines, goes_on);
    shared.counters.trailers_left_out += left_out;
    lines
}
