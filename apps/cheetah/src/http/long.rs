//! Responses whose content is that of a long file: decided as all others are, then given out in two parts, slices
//! and a [`Tail`].
//!
//! The file has to be open before the first byte of such a response is given out: until then nobody knows whether it
//! is still the version that the fields speak of. A request for one that is not open waits, as one for a document that
//! is not in memory does. HEAD, 304, 412 and 416 are of the fields alone, and never wait.

use std::collections::VecDeque;
use std::rc::Rc;

use exos_buf::Slice;

use super::exchange::Exchange;
use super::missing::Missing;
use super::response::decision::Decision;
use super::response::opening::Manner;
use super::response::range;
use super::response::tail::{Piece, Tail};
use super::sending::Sender;
use crate::message::Status;
use crate::message::request::Method;
use crate::site::long::{Long, OpenFile};
use crate::site::{Document, Sites};

impl Sender {
    /// Answers a request for a long file, unless it waits for that to be open. Gives its status, and what follows the slices.
    #[inline(never)]
    pub(super) fn send_long(
        &mut self,
        document: &Document,
        long: &Rc<Long>,
        exchange: &Exchange,
        sites: &mut Sites,
        out: &mut Vec<Slice>,
    ) -> Result<(Status, Option<Box<Tail>>), Box<Missing>> {
        let decision = self.decide(document, exchange.request);
        let (status, pieces) = match &decision {
            Decision::Whole if exchange.request.method == Method::Get => {
                let all = Piece::File(0..long.file().len());
                (Status::Ok, vec![Piece::Bytes(document.fields()), all])
            }
            Decision::Parts(parts) => (Status::PartialContent, range::response(document, parts)),
            _ => {
                let status = self.send_decided(document, decision, exchange, sites, out);
                return Ok((status, None));
            }
        };
        let (site, path) = (exchange.resource.site, long.file().path());
        match long.opened() {
            Some(file) => {
                let how = exchange.manner();
                let tail = self.push_with_tail(status, how, pieces, file, out);
                Ok((status, Some(Box::new(tail))))
            }
            None if exchange.attempt.has_failed(site, path) => {
                let status = Status::InternalServerError;
                Ok((self.refuse(status, None, exchange, sites, out), None))
            }
            None => Err(Box::new(Missing {
                document: (site, path.clone()),
                unopened: Some(long.clone()),
            })),
        }
    }

    /// Gives out what is in memory before the first piece of a file, and returns the rest.
    fn push_with_tail(
        &mut self,
        status: Status,
        how: Manner,
        pieces: Vec<Piece>,
        file: Rc<OpenFile>,
        out: &mut Vec<Slice>,
    ) -> Tail {
        let mut pieces = VecDeque::from(pieces);
        let mut slices = Vec::new();
        while let Some(Piece::Bytes(slice)) = pieces.front() {
            slices.push(slice.clone());
            pieces.pop_front();
        }
        self.push(status, how, slices, out);
        Tail { file, pieces }
    }
}
