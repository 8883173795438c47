//! How an answer becomes slices: preconditions and parts of a document, heads and bodies, and how the connection goes on.

use std::ops::Range;

use exos_buf::{Buffer, Slice};

use super::Server;
use crate::http::missing::Attempt;
use crate::http::opening::Persistence;
use crate::http::range::{self, Parts};
use crate::http::request::{Body, Method, Request};
use crate::http::tail::Piece;
use crate::http::{Status, conditional, page};
use crate::limits::BODY_SKIP_LEN_MAX;
use crate::site::Document;

/// How the connection goes on after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Answered {
    /// Another request may follow, after `skip` bytes of body.
    pub(in crate::http) persistent: bool,
    pub(in crate::http) skip: u64,
}

/// Whether the connection goes on after a request, and how much of a body comes first.
#[inline]
pub(super) fn what_follows(request: &Request) -> Answered {
    match request.body {
        Body::Length(0) => Answered {
            persistent: request.persistent,
            skip: 0,
        },
        // A client that waits for leave to send may or may not send after the final answer.
        Body::Length(skip) if skip <= BODY_SKIP_LEN_MAX => Answered {
            persistent: request.persistent && !request.expects_continue,
            skip,
        },
        Body::Length(_) | Body::Chunked | Body::UnknownCoding => Answered {
            persistent: false,
            skip: 0,
        },
    }
}

/// Where a request leads.
#[derive(Clone, Copy)]
pub(in crate::http) struct Resource<'a> {
    /// The site that answers.
    pub(in crate::http) site: usize,
    /// The path, if its rules count.
    pub(in crate::http) path: Option<&'a [u8]>,
}

/// A request on its way to the answer.
pub(in crate::http) struct Exchange<'a, 'b, 'f> {
    pub(in crate::http) request: &'a Request<'b, 'f>,
    pub(in crate::http) answered: Answered,
    pub(in crate::http) resource: Resource<'a>,
    pub(in crate::http) attempt: Attempt<'a>,
}

impl Exchange<'_, '_, '_> {
    #[inline]
    pub(in crate::http) fn persistence(&self) -> Persistence {
        match (self.answered.persistent, self.request.minor_version) {
            (false, _) => Persistence::Close,
            (true, 0) => Persistence::KeepAlive,
            (true, _) => Persistence::Implied,
        }
    }

    /// What HEAD is answered with.
    #[inline]
    fn without_body(&self, document: &Document) -> Option<Slice> {
        (self.request.method == Method::Head).then(|| document.fields())
    }
}

/// What a request for a document is answered with, all its fields considered.
pub(in crate::http) enum Decision {
    NotModified,
    PreconditionFailed,
    RangeNotSatisfiable,
    Whole,
    Parts(Vec<Range<u64>>),
}

impl Server {
    /// Preconditions, then parts (RFC 9110 §13.2.2).
    pub(in crate::http) fn decide(&self, document: &Document, request: &Request) -> Decision {
        if !request.conditional {
            return Decision::Whole;
        }
        match conditional::evaluate(request, document) {
            Status::NotModified => Decision::NotModified,
            Status::PreconditionFailed => Decision::PreconditionFailed,
            _ => match self.parts(document, request) {
                Parts::Ignored => Decision::Whole,
                Parts::Unsatisfiable => Decision::RangeNotSatisfiable,
                Parts::Some(parts) => Decision::Parts(parts),
            },
        }
    }

    /// Sends what was decided, of a document in memory, or of the fields of any.
    pub(in crate::http) fn send_decided(
        &mut self,
        document: &Document,
        decision: Decision,
        exchange: &Exchange,
        out: &mut Vec<Slice>,
    ) {
        match decision {
            Decision::NotModified => {
                let rest = [document.validators()];
                self.push(Status::NotModified, exchange.persistence(), rest, out);
            }
            Decision::PreconditionFailed => {
                let status = Status::PreconditionFailed;
                let page = self.page(status, exchange.resource.site);
                self.send_page(status, &page, None, exchange, out);
            }
            Decision::RangeNotSatisfiable => {
                let status = Status::RangeNotSatisfiable;
                let field = page::content_range(document.content_len());
                let field = Some(Buffer::from(field).into());
                let page = self.page(status, exchange.resource.site);
                self.send_page(status, &page, field, exchange, out);
            }
            Decision::Whole => self.send(Status::Ok, document, exchange, out),
            Decision::Parts(parts) => {
                let rest = range::response(document, &parts);
                let rest = rest.into_iter().filter_map(Piece::into_slice);
                self.push(Status::PartialContent, exchange.persistence(), rest, out);
            }
        }
    }

    /// The parts that a request asks for; only GET has any (§14.2).
    fn parts(&self, document: &Document, request: &Request) -> Parts {
        match conditional::range(request) {
            Some(value)
                if request.method == Method::Get
                    && conditional::range_applies(request, document, self.openings.now_secs()) =>
            {
                let parts = range::parse(value, document.content_len());
                parts.of_one_body(document.is_coded())
            }
            _ => Parts::Ignored,
        }
    }

    /// Sends what is no document, with the fields that rules add where it was asked for, and one field more.
    pub(in crate::http) fn send_page(
        &mut self,
        status: Status,
        page: &Document,
        field: Option<Slice>,
        exchange: &Exchange,
        out: &mut Vec<Slice>,
    ) {
        let Resource { site, path } = exchange.resource;
        let rules = path.and_then(|path| self.sites.get_mut(site).rule_fields(path));
        let rest = exchange.without_body(page).unwrap_or_else(|| page.whole());
        let rest = rules.into_iter().chain(field).chain([rest]);
        self.push(status, exchange.persistence(), rest, out);
    }

    #[inline]
    pub(super) fn send(
        &mut self,
        status: Status,
        document: &Document,
        exchange: &Exchange,
        out: &mut Vec<Slice>,
    ) {
        let rest = exchange.without_body(document);
        let rest = rest.unwrap_or_else(|| document.whole());
        self.push(status, exchange.persistence(), [rest], out);
    }

    #[inline]
    pub(in crate::http) fn push(
        &mut self,
        status: Status,
        how: Persistence,
        rest: impl IntoIterator<Item = Slice>,
        out: &mut Vec<Slice>,
    ) {
        let begin = out.len();
        out.push(self.openings.get(status, how));
        out.extend(rest);
        if self.heads_afresh {
            self.make_head_afresh(status, how, begin, out);
        }
        self.status = status;
        self.counters.responses[status as usize] += 1;
    }

    /// This many bytes of responses have been taken by their clients.
    #[inline]
    pub(crate) fn count_taken(&mut self, len: u64) {
        self.counters.response_bytes += len;
    }
}
