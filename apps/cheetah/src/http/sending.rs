//! How an answer becomes slices: heads and bodies, of documents, of parts of them, and of pages.

use exos_buf::{Buffer, Slice};

use super::counters::Counters;
use super::exchange::{Exchange, Resource};
use super::response::decision::{Decision, decide};
use super::response::opening::{Manner, Openings, Persistence};
use super::response::tail::Piece;
use super::response::{head, range};
use crate::message::http2::push_lines;
use crate::message::request::{Method, Request};
use crate::message::{Status, Version};
use crate::site::{Document, Site, Sites, page};

/// What all responses of a thread share, whatever they answer.
#[derive(Debug)]
pub(super) struct Sender {
    openings: Openings,
    /// Response heads are made for each response.
    heads_afresh: bool,
    /// By status, for sites that have none of their own.
    pages: Box<[Document]>,
    pub(super) counters: Counters,
}

impl Sender {
    pub(super) fn new(now_secs: u64) -> Sender {
        Sender {
            openings: Openings::new(now_secs),
            heads_afresh: false,
            pages: Status::ALL.into_iter().map(page::of).collect(),
            counters: Counters::new(),
        }
    }

    /// Costs a comparison when the second is the same.
    #[inline]
    pub(super) fn set_time(&mut self, now_secs: u64) {
        self.openings.set_time(now_secs);
    }

    /// HTTP/3 is spoken at this port, which responses by HTTPS say from now on.
    pub(super) fn announce_http3(&mut self, port: u16) {
        self.openings.announce_http3(port);
    }

    /// What responses by HTTPS say of HTTP/3; empty where that is nothing.
    pub(super) fn alternative(&self, is_encrypted: bool) -> &str {
        self.openings.alternative(is_encrypted)
    }

    /// Appends the opening of a response with any status and reason.
    pub(super) fn push_opening(&mut self, code: u16, reason: &str, how: Manner, out: &mut Vec<u8>) {
        self.openings.push(code, reason, how, out);
    }

    /// The opening of a response of others, which counts; nothing where heads are made for each response.
    pub(super) fn opening(&mut self, status: Status, how: Manner) -> Option<Slice> {
        if self.heads_afresh {
            return None;
        }
        self.counters.responses[status as usize] += 1;
        Some(self.openings.get(status, how))
    }

    /// The time in seconds since 1970 (UTC).
    pub(super) fn now_secs(&self) -> u64 {
        self.openings.now_secs()
    }

    /// Makes the head of each response when it is sent, from now on.
    pub(super) fn make_heads_afresh(&mut self) {
        self.heads_afresh = true;
    }

    /// Decides about a document, now.
    pub(super) fn decide(&self, document: &Document, request: &Request) -> Decision {
        decide(document, request, self.openings.now_secs())
    }

    /// Sends what was decided, of a document in memory, or of the fields of any.
    pub(super) fn send_decided(
        &mut self,
        document: &Document,
        decision: Decision,
        exchange: &Exchange,
        sites: &mut Sites,
        out: &mut Vec<Slice>,
    ) -> Status {
        match decision {
            Decision::NotModified if exchange.request.version.has_streams() => {
                let block = document.validators_block();
                let is_encrypted = exchange.attempt.is_encrypted;
                self.push_block(Status::NotModified, is_encrypted, block, None, out)
            }
            Decision::NotModified => {
                let rest = [document.validators()];
                self.push(Status::NotModified, exchange.manner(), rest, out)
            }
            Decision::PreconditionFailed => {
                self.refuse(Status::PreconditionFailed, None, exchange, sites, out)
            }
            Decision::RangeNotSatisfiable => {
                let field = range::length_field(document.content_len());
                let field = Some(Buffer::from(field).into());
                self.refuse(Status::RangeNotSatisfiable, field, exchange, sites, out)
            }
            Decision::Whole => self.send(document, exchange, out),
            Decision::Parts(parts) => {
                let rest = range::response(document, &parts);
                let rest = rest.into_iter().filter_map(Piece::into_slice);
                self.push(Status::PartialContent, exchange.manner(), rest, out)
            }
        }
    }

    /// The page of an error: the site's own, or else the server's.
    pub(super) fn page(&self, status: Status, site: &Site) -> Document {
        let own = site.error_page(status);
        own.unwrap_or(&self.pages[status as usize]).clone()
    }

    /// Sends the page of an error, with one field more.
    pub(super) fn refuse(
        &mut self,
        status: Status,
        field: Option<Slice>,
        exchange: &Exchange,
        sites: &mut Sites,
        out: &mut Vec<Slice>,
    ) -> Status {
        let page = self.page(status, sites.get(exchange.resource.site));
        self.send_page(status, &page, field, exchange, sites, out)
    }

    /// Sends what is no document, with the fields that rules add where it was asked for, and one field more.
    pub(super) fn send_page(
        &mut self,
        status: Status,
        page: &Document,
        field: Option<Slice>,
        exchange: &Exchange,
        sites: &mut Sites,
        out: &mut Vec<Slice>,
    ) -> Status {
        let Resource { site, path } = exchange.resource;
        let rules = path.and_then(|path| sites.get_mut(site).rule_fields(path));
        let rest = exchange.without_body(page).unwrap_or_else(|| page.whole());
        let rest = rules.into_iter().chain(field).chain([rest]);
        self.push(status, exchange.manner(), rest, out)
    }

    /// Sends a document in memory.
    #[inline]
    pub(super) fn send(
        &mut self,
        document: &Document,
        exchange: &Exchange,
        out: &mut Vec<Slice>,
    ) -> Status {
        if exchange.request.version.has_streams() {
            let body = (exchange.request.method != Method::Head).then(|| document.body());
            let (is_encrypted, block) = (exchange.attempt.is_encrypted, document.fields_block());
            return self.push_block(Status::Ok, is_encrypted, block, body, out);
        }
        let rest = exchange.without_body(document);
        if rest.is_none()
            && let Some(body) = document.lent_body()
        {
            let rest = [document.whole(), body];
            return self.push(Status::Ok, exchange.manner(), rest, out);
        }
        let rest = rest.unwrap_or_else(|| document.whole());
        self.push(Status::Ok, exchange.manner(), [rest], out)
    }

    /// Appends a response, and gives its status back.
    #[inline]
    pub(super) fn push(
        &mut self,
        status: Status,
        how: Manner,
        rest: impl IntoIterator<Item = Slice>,
        out: &mut Vec<Slice>,
    ) -> Status {
        if how.persistence == Persistence::Http2 {
            let rest: Vec<Slice> = rest.into_iter().collect();
            let (block, body) = http2_parts(&rest);
            self.push_block(status, how.is_encrypted, block, body, out);
            return status;
        }
        let begin = out.len();
        out.push(self.openings.get(status, how));
        out.extend(rest);
        if self.heads_afresh {
            let response: Vec<Slice> = out.drain(begin..).collect();
            let opening = self.openings.make(status, how);
            head::make_afresh(&opening, &response, out);
        }
        self.counters.responses[status as usize] += 1;
        status
    }

    /// Appends a response of HTTP/2: the two parts of its header block, and its body.
    #[inline]
    fn push_block(
        &mut self,
        status: Status,
        is_encrypted: bool,
        fields: Slice,
        body: impl IntoIterator<Item = Slice>,
        out: &mut Vec<Slice>,
    ) -> Status {
        let how = Manner {
            persistence: Persistence::Http2,
            is_encrypted,
        };
        out.extend([self.openings.get(status, how), fields]);
        out.extend(body.into_iter().filter(|slice| !slice.is_empty()));
        self.counters.responses[status as usize] += 1;
        status
    }
}

/// What follows an opening, fields as text and a body, as HTTP/2 has it.
fn http2_parts(rest: &[Slice]) -> (Slice, Vec<Slice>) {
    let mut left = head::len_of(rest, Version::Http11);
    let (mut lines, mut body) = (Vec::new(), Vec::new());
    for slice in rest {
        let of_head = slice.len().min(left);
        left -= of_head;
        slice.sub(0..of_head).append_to(&mut lines);
        body.extend((of_head < slice.len()).then(|| slice.sub(of_head..slice.len())));
    }
    let mut block = Vec::with_capacity(lines.len());
    push_lines(&mut block, &lines);
    (Buffer::from(block).into(), body)
}
