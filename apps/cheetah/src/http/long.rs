//! Responses whose content is that of a long file: decided as all others are, then given out in two parts, slices
//! and a [`Tail`].
//!
//! The file has to be open before the first byte of such a response is given out: until then nobody knows whether it
//! is still the version that the fields speak of. A request for one that is not open waits, as one for a document that
//! is not in memory does. HEAD, 304, 412 and 416 are of the fields alone, and never wait.

use std::collections::VecDeque;
use std::rc::Rc;

use exos_buf::Slice;

use super::opening::Persistence;
use super::range;
use super::request::Method;
use super::server::{Answered, Decision, Exchange};
use super::tail::{Piece, Tail};
use super::{Server, Status};
use crate::site::Document;
use crate::site::long::{Long, OpenFile};

impl Server {
    /// The file that the request waits for which was told to wait last, if that has to be opened.
    pub fn take_unopened(&mut self) -> Option<Rc<Long>> {
        self.unopened.take()
    }

    /// What follows the response that was given out last.
    pub fn take_tail(&mut self) -> Option<Tail> {
        self.tail.take()
    }

    /// Bytes of what follows the response that was given out last.
    pub(super) fn tail_len(&self) -> u64 {
        self.tail.as_ref().map_or(0, Tail::len)
    }

    /// Answers a request for a long file; `None` when it waits for the file to be open.
    #[inline(never)]
    pub(super) fn send_long(
        &mut self,
        document: &Document,
        long: &Rc<Long>,
        exchange: &Exchange,
        out: &mut Vec<Slice>,
    ) -> Option<Answered> {
        let decision = self.decide(document, exchange.request);
        let (status, pieces) = match &decision {
            Decision::Whole if exchange.request.method == Method::Get => {
                let all = Piece::File(0..long.file().len());
                (Status::Ok, vec![Piece::Bytes(document.fields()), all])
            }
            Decision::Parts(parts) => (Status::PartialContent, range::response(document, parts)),
            _ => {
                self.send_decided(document, decision, exchange, out);
                return Some(exchange.answered);
            }
        };
        let place = (exchange.place.site, long.file().path().clone());
        match long.opened() {
            Some(file) => self.push_with_tail(status, exchange.persistence(), pieces, file, out),
            None if self.has_failed(place.0, &place.1) => {
                let page = self.page(Status::InternalServerError, place.0);
                self.send_page(Status::InternalServerError, &page, None, exchange, out);
            }
            None => {
                self.wanted = Some(place);
                self.unopened = Some(long.clone());
                return None;
            }
        }
        Some(exchange.answered)
    }

    /// Gives out what is in memory before the first piece of a file, and keeps the rest to be taken.
    fn push_with_tail(
        &mut self,
        status: Status,
        how: Persistence,
        pieces: Vec<Piece>,
        file: Rc<OpenFile>,
        out: &mut Vec<Slice>,
    ) {
        let mut pieces = VecDeque::from(pieces);
        let mut slices = Vec::new();
        while let Some(Piece::Bytes(slice)) = pieces.front() {
            slices.push(slice.clone());
            pieces.pop_front();
        }
        self.push(status, how, slices, out);
        let tail = Tail { file, pieces };
        self.tail = Some(tail);
    }
}
