//! What the log, the status pages and rules about access are told of who asks, and the log of each response.

use std::net::IpAddr;

use exos_buf::{Buffer, Slice};
use exos_inet::Instant;

use super::opening::{self, Persistence};
use super::request::Request;
use super::{Server, Status};
use crate::log::{Answer, Asked, Log};
use crate::status::StatusPages;

impl<'a> Asked<'a> {
    /// A request with a whole head.
    pub(super) fn of(request: &'a Request<'a, 'a>) -> Asked<'a> {
        Asked::Request {
            method: request.method_name,
            target: request.target,
            minor_version: request.minor_version,
            fields: request.fields,
        }
    }
}

impl Server {
    /// Shows these pages from now on, where a site has nothing at their path.
    pub fn set_status_pages(&mut self, pages: StatusPages) {
        self.status_pages = Some(pages);
    }

    /// The status pages, if there are any.
    #[inline]
    pub fn status_pages_mut(&mut self) -> Option<&mut StatusPages> {
        self.status_pages.as_mut()
    }

    /// True when [`begin`](Server::begin) must be called before the bytes of a connection are handed over.
    #[inline]
    pub fn wants_peer(&self) -> bool {
        self.log.is_some() || self.status_pages.is_some() || self.sites().has_access_rules()
    }

    /// What follows is asked by `peer`; the first bytes of it came at `begun`.
    pub fn begin(&mut self, peer: IpAddr, begun: Instant) {
        (self.peer, self.begun) = (peer, begun);
        if let Some(log) = &mut self.log {
            log.begin(peer, begun);
        }
    }

    /// Gives each response to a log from now on.
    pub fn set_log(&mut self, log: Log) {
        self.log = Some(log);
    }

    /// The log, if there is one.
    #[inline]
    pub fn log_mut(&mut self) -> Option<&mut Log> {
        self.log.as_mut()
    }

    /// The log, if there is one.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Makes the head of each response when it is sent, from now on.
    pub fn make_heads_afresh(&mut self) {
        self.heads_afresh = true;
    }

    /// Puts a head made for this response alone in the place of that of the last one in `out`, from `begin` on: its
    /// first lines formatted, its fields copied behind them.
    #[inline(never)]
    pub(super) fn make_head_afresh(
        &self,
        status: Status,
        how: Persistence,
        begin: usize,
        out: &mut Vec<Slice>,
    ) {
        let response: Vec<Slice> = out.drain(begin..).collect();
        let opening = opening::make(self.openings.now_secs(), status, how);
        let mut head = opening.as_bytes().to_vec();
        let mut left = head_len(&response) - response[0].len();
        let mut body = Vec::new();
        for slice in &response[1..] {
            let of_head = slice.len().min(left);
            left -= of_head;
            head.extend_from_slice(&slice.as_bytes()[..of_head]);
            body.extend((of_head < slice.len()).then(|| slice.sub(of_head..slice.len())));
        }
        out.push(Buffer::from(head).into());
        out.extend(body);
    }

    /// Tells the log of the response made last, behind which this many bytes of a file follow.
    #[inline(never)]
    pub(super) fn log_answer(&mut self, asked: Asked<'_>, response: &[Slice], tail_len: u64) {
        let answer = Answer {
            asked,
            status: self.status,
            head_len: head_len(response),
            len: response.iter().map(Slice::len).sum::<usize>() + tail_len as usize,
        };
        if let Some(log) = &mut self.log {
            log.answered(&answer);
        }
    }
}

/// The length of a response's head. It ends with an empty line, which is within one slice: the line before it is of
/// the same document's or part's fields.
fn head_len(response: &[Slice]) -> usize {
    let mut before = 0;
    for slice in response {
        if let Some(end) = end_of_head(slice.as_bytes()) {
            return before + end;
        }
        before += slice.len();
    }
    before
}

/// Where the empty line ends, looking at every fourth byte or so.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let mut at = 3;
    loop {
        at += match bytes.get(at)? {
            b'\n' if bytes[..=at].ends_with(b"\r\n\r\n") => return Some(at + 1),
            b'\r' | b'\n' => 1,
            _ => 4,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_head_is_found_wherever_it_is() {
        for len in 0..40 {
            let head = [&vec![b'x'; len][..], b"\r\n\r\n"].concat();
            for body in [&b""[..], b"\r\n\r\n", b"body"] {
                let bytes = [&head, body].concat();
                assert_eq!(end_of_head(&bytes), Some(len + 4), "{bytes:?}");
            }
            assert_eq!(end_of_head(&head[..len + 3]), None);
        }
    }
}
