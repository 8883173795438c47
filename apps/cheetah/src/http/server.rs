//! What all connections of a thread share: the sites, the openings of this second, the error
//! pages, and the counters. It turns a request into slices.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::rc::Rc;

use exos_buf::{Buffer, Slice};

use super::accept::Accepted;
use super::opening::{Openings, Persistence};
use super::range::{self, Parts};
use super::request::{Body, Method, Request};
use super::tail::{Piece, Tail};
use super::target::{Target, encode};
use super::{Counters, Fault, Status, conditional, page};
use crate::limits::BODY_SKIP_LEN_MAX;
use crate::log::{Asked, Log};
use crate::site::long::Long;
use crate::site::{Change, Document, Entry, SitePath, Sites};
use crate::status::StatusPages;

/// The HTTP server of one thread.
///
/// Call [`set_time`](Server::set_time) once per turn of the event loop; hand the bytes of each
/// connection to its own [`ServerConnection`](super::ServerConnection).
#[derive(Debug)]
pub struct Server {
    sites: Sites,
    pub(super) openings: Openings,
    pages: Box<[Document]>,
    /// The answer to OPTIONS.
    allowed: Document,
    counters: Counters,
    /// The status of the response made last.
    pub(super) status: Status,
    pub(super) log: Option<Log>,
    pub(super) status_pages: Option<StatusPages>,
    /// Response heads are made for each response.
    pub(super) heads_afresh: bool,
    /// Who asks, where a log or status pages want to know.
    pub(super) peer: IpAddr,
    /// What the request presented last waits for.
    pub(super) wanted: Option<(usize, SitePath)>,
    /// The next request has waited for its document.
    has_waited: bool,
    /// What could not be read: requests for it are refused rather than kept waiting.
    failed: Option<(usize, SitePath)>,
    /// The file that it waits for to be open.
    pub(super) unopened: Option<Rc<Long>>,
    /// What follows the response made last.
    pub(super) tail: Option<Tail>,
}

/// How the connection goes on after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// Another request may follow, after `skip` bytes of body.
    pub(super) persistent: bool,
    pub(super) skip: u64,
}

impl Server {
    /// A server of one site or several; `now_secs` is the time in seconds since 1970 (UTC).
    pub fn new(sites: impl Into<Sites>, now_secs: u64) -> Server {
        Server {
            sites: sites.into(),
            openings: Openings::new(now_secs),
            pages: Status::ALL.into_iter().map(page::of).collect(),
            allowed: page::allowed(),
            counters: Counters::new(),
            status: Status::Ok,
            log: None,
            status_pages: None,
            heads_afresh: false,
            peer: Ipv4Addr::UNSPECIFIED.into(),
            wanted: None,
            has_waited: false,
            failed: None,
            unopened: None,
            tail: None,
        }
    }

    /// Sets the time in seconds since 1970 (UTC) for the Date field; costs a comparison when the
    /// second is the same.
    #[inline]
    pub fn set_time(&mut self, now_secs: u64) {
        self.openings.set_time(now_secs);
    }

    /// What is served.
    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    /// What is served, to be changed between turns; responses under way keep what they have.
    pub fn sites_mut(&mut self) -> &mut Sites {
        &mut self.sites
    }

    /// Serves other documents from now on, and returns those until now; responses under way keep theirs.
    pub fn set_sites(&mut self, sites: impl Into<Sites>) -> Sites {
        let sites: Sites = sites.into();
        let sites = sites.instead_of(&self.sites);
        std::mem::replace(&mut self.sites, sites)
    }

    /// Changes what a site serves from now on, by its number; responses under way keep what they have.
    pub fn change_site(&mut self, site: usize, change: Change) {
        self.sites.get_mut(site).apply(change);
    }

    /// What the connection waits for that was told to wait last: the number of a site and a document's path.
    pub fn take_wanted(&mut self) -> Option<(usize, SitePath)> {
        self.wanted.take()
    }

    /// Refuses requests for a document with 500 from now on, because it could not be read; `None` ends that.
    pub fn set_failed(&mut self, document: Option<(usize, SitePath)>) {
        self.failed = document;
    }

    /// Says whether the request that is presented next has waited for its document: that was a miss, not a hit.
    pub fn set_has_waited(&mut self, has_waited: bool) {
        self.has_waited = has_waited;
    }

    /// What has been answered so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// An error response that does not belong to a parsed request, such as 408 when a request
    /// does not arrive in time or 503 when there are too many connections. Always the last one.
    /// `bytes` are what came of a request.
    pub fn refuse(&mut self, status: Status, bytes: &[u8], out: &mut Vec<Slice>) {
        let before = out.len();
        let page = self.page(status, self.sites.default_number());
        // RFC 9110 §9.3.2: no content for HEAD, whatever else is wrong with it.
        let rest = if bytes.starts_with(b"HEAD ") {
            page.fields()
        } else {
            page.whole()
        };
        self.push(status, Persistence::Close, [rest], out);
        if self.log.is_some() {
            self.log_answer(Asked::Bytes(bytes), &out[before..]);
        }
    }

    pub(super) fn refuse_fault(&mut self, fault: Fault, bytes: &[u8], out: &mut Vec<Slice>) {
        self.counters.faults[fault as usize] += 1;
        self.refuse(fault.status(), bytes, out);
    }

    /// Answers a request whose end is certain; `None` when it waits for a document.
    #[inline]
    pub(super) fn answer(&mut self, request: &Request, out: &mut Vec<Slice>) -> Option<Answered> {
        let before = out.len();
        let answered = self.respond(request, out)?;
        if self.log.is_some() {
            self.log_answer(Asked::of(request), &out[before..]);
        }
        Some(answered)
    }

    #[inline]
    fn respond(&mut self, request: &Request, out: &mut Vec<Slice>) -> Option<Answered> {
        let is_first_time = !std::mem::take(&mut self.has_waited);
        let answered = what_follows(request);
        let target = Target::parse(request.target);
        let host = target.as_ref().ok().and_then(|target| target.authority);
        let site = self.sites.find(host.or(request.host));
        let place = Place {
            site: site.unwrap_or(self.sites.default_number()),
            // Rules are those of the site that the request is for.
            path: target
                .as_ref()
                .ok()
                .filter(|_| site.is_some())
                .map(|t| &*t.path),
        };
        let exchange = Exchange {
            request,
            answered,
            place,
        };
        Some(match self.choose(request, &target, site) {
            Ok(Choice::Send(document)) if document.long().is_some() => {
                let document = document.clone();
                let long = document.long()?;
                return self.send_long(&document, long, &exchange, out);
            }
            Ok(Choice::Send(document)) if !request.conditional => {
                let document = document.clone();
                document.buffer().note_use();
                self.counters.cache_hits += u64::from(is_first_time);
                self.send(Status::Ok, &document, &exchange, out);
                answered
            }
            Ok(Choice::Send(document)) => {
                let document = document.clone();
                document.buffer().note_use();
                self.counters.cache_hits += u64::from(is_first_time);
                let decision = self.decide(&document, request);
                self.send_decided(&document, decision, &exchange, out);
                answered
            }
            Ok(Choice::Refuse(Status::NotFound)) if self.status_pages.is_some() => {
                let (status, page) = self.status_page(place.path, request, place.site);
                self.send_page(status, &page, None, &exchange, out);
                answered
            }
            Ok(Choice::Wait(path)) => {
                self.counters.cache_misses += u64::from(is_first_time);
                self.wanted = Some((place.site, path));
                return None;
            }
            Ok(choice) => {
                let (status, page) = self.other(choice, place.site);
                self.send_page(status, &page, None, &exchange, out);
                answered
            }
            Err(fault) => self.refuse_request(fault, exchange, out),
        })
    }

    #[inline]
    fn choose(
        &self,
        request: &Request,
        target: &Result<Target, Fault>,
        site: Option<usize>,
    ) -> Result<Choice<'_>, Fault> {
        check(request)?;
        let asks_what = request.method == Method::Options;
        if asks_what && request.target == b"*" {
            return Ok(Choice::Allow);
        }
        let Target { path, query, .. } = target.as_ref().map_err(|&fault| fault)?;
        let Some(site) = site else {
            return Ok(Choice::Refuse(Status::MisdirectedRequest));
        };
        let (number, site) = (site, self.sites.get(site));
        Ok(match site.find(path) {
            Some(Entry::Document(_) | Entry::Listed(..) | Entry::Directory) if asks_what => {
                Choice::Allow
            }
            Some(Entry::Document(variants)) => {
                Choice::Send(variants.choose(|| Accepted::of_request(request)))
            }
            Some(Entry::Listed(path, _)) if self.has_failed(number, path) => {
                Choice::Refuse(Status::InternalServerError)
            }
            Some(Entry::Listed(path, _)) => Choice::Wait(path.clone()),
            Some(Entry::Directory) => {
                let location = encode(&[path, &b"/"[..]].concat(), *query);
                let status = Status::MovedPermanently;
                Choice::Page(status, page::redirect(status, &location))
            }
            Some(Entry::Forbidden) => match site.listing(path) {
                Some(_) if asks_what => Choice::Allow,
                Some(page) => Choice::Page(Status::Ok, page),
                None => Choice::Refuse(Status::Forbidden),
            },
            None => match site.redirect(path, *query) {
                Some(_) if asks_what => Choice::Allow,
                Some((status, page)) => Choice::Page(status, page),
                None => Choice::Refuse(Status::NotFound),
            },
        })
    }

    /// What a choice other than a document is answered with.
    fn other(&self, choice: Choice, site: usize) -> (Status, Document) {
        match choice {
            Choice::Send(document) => (Status::Ok, document.clone()),
            Choice::Allow => (Status::Ok, self.allowed.clone()),
            Choice::Page(status, page) => (status, page),
            Choice::Refuse(status) => (status, self.page(status, site)),
            // Answered when it has come, not here.
            Choice::Wait(_) => {
                let status = Status::ServiceUnavailable;
                (status, self.page(status, site))
            }
        }
    }

    /// Where the site has nothing, there may be a status page.
    fn status_page(
        &mut self,
        path: Option<&[u8]>,
        request: &Request,
        site: usize,
    ) -> (Status, Document) {
        let peer = self.peer;
        let pages = self.status_pages.as_mut();
        let found = pages
            .zip(path)
            .and_then(|(pages, path)| pages.find(path, peer));
        match found.cloned() {
            Some(_) if request.method == Method::Options => (Status::Ok, self.allowed.clone()),
            Some(page) => (Status::Ok, page),
            None => (Status::NotFound, self.page(Status::NotFound, site)),
        }
    }

    pub(super) fn has_failed(&self, site: usize, path: &SitePath) -> bool {
        let failed = self.failed.as_ref();
        failed.is_some_and(|(of, failed)| *of == site && failed == path)
    }

    fn refuse_request(
        &mut self,
        fault: Fault,
        mut exchange: Exchange,
        out: &mut Vec<Slice>,
    ) -> Answered {
        self.counters.faults[fault as usize] += 1;
        exchange.answered.persistent &= fault.is_survivable();
        let page = self.page(fault.status(), exchange.place.site);
        self.send_page(fault.status(), &page, None, &exchange, out);
        exchange.answered
    }

    /// The page of an error: the site's own, or else the server's.
    pub(super) fn page(&self, status: Status, site: usize) -> Document {
        let own = self.sites.get(site).error_page(status);
        own.unwrap_or(&self.pages[status as usize]).clone()
    }

    /// Preconditions, then parts (RFC 9110 §13.2.2).
    pub(super) fn decide(&self, document: &Document, request: &Request) -> Decision {
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
    pub(super) fn send_decided(
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
                let page = self.page(status, exchange.place.site);
                self.send_page(status, &page, None, exchange, out);
            }
            Decision::RangeNotSatisfiable => {
                let status = Status::RangeNotSatisfiable;
                let field = page::content_range(document.content_len());
                let field = Some(Buffer::from(field).into());
                let page = self.page(status, exchange.place.site);
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
    pub(super) fn send_page(
        &mut self,
        status: Status,
        page: &Document,
        field: Option<Slice>,
        exchange: &Exchange,
        out: &mut Vec<Slice>,
    ) {
        let Place { site, path } = exchange.place;
        let rules = path.and_then(|path| self.sites.get_mut(site).rule_fields(path));
        let rest = exchange.without_body(page).unwrap_or_else(|| page.whole());
        let rest = rules.into_iter().chain(field).chain([rest]);
        self.push(status, exchange.persistence(), rest, out);
    }

    #[inline]
    fn send(
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
    pub(super) fn push(
        &mut self,
        status: Status,
        how: Persistence,
        rest: impl IntoIterator<Item = Slice>,
        out: &mut Vec<Slice>,
    ) {
        let before = out.len();
        out.push(self.openings.get(status, how));
        out.extend(rest);
        if self.heads_afresh {
            self.make_head_afresh(status, how, before, out);
        }
        let len: usize = out[before..].iter().map(Slice::len).sum();
        self.status = status;
        self.counters.responses[status as usize] += 1;
        self.count_bytes(len as u64);
    }

    #[inline]
    pub(super) fn count_bytes(&mut self, len: u64) {
        self.counters.response_bytes += len;
    }
}

/// What a request for a document is answered with, all its fields considered.
pub(super) enum Decision {
    NotModified,
    PreconditionFailed,
    RangeNotSatisfiable,
    Whole,
    Parts(Vec<Range<u64>>),
}

enum Choice<'a> {
    Send(&'a Document),
    Page(Status, Document),
    /// Say which methods there are.
    Allow,
    Refuse(Status),
    /// Answer when the document has been read.
    Wait(SitePath),
}

/// What refuses a request whatever its target.
#[inline]
fn check(request: &Request) -> Result<(), Fault> {
    match request.method {
        Method::Get | Method::Head | Method::Options => {}
        Method::NotOffered => return Err(Fault::MethodNotAllowed),
        Method::Unknown => return Err(Fault::MethodUnknown),
    }
    match request.body {
        Body::Chunked => return Err(Fault::BodyChunked),
        Body::UnknownCoding => return Err(Fault::CodingUnknown),
        Body::Length(length) if length > BODY_SKIP_LEN_MAX => return Err(Fault::BodyTooLong),
        Body::Length(_) => {}
    }
    if request.expects_unknown {
        Err(Fault::ExpectationUnknown)
    } else {
        Ok(())
    }
}

/// Whether the connection goes on after a request, and how much of a body comes first.
#[inline]
fn what_follows(request: &Request) -> Answered {
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
pub(super) struct Place<'a> {
    /// The site that answers.
    pub(super) site: usize,
    /// The path, if its rules count.
    pub(super) path: Option<&'a [u8]>,
}

/// A request on its way to the answer.
pub(super) struct Exchange<'a, 'b, 'f> {
    pub(super) request: &'a Request<'b, 'f>,
    pub(super) answered: Answered,
    pub(super) place: Place<'a>,
}

impl Exchange<'_, '_, '_> {
    #[inline]
    pub(super) fn persistence(&self) -> Persistence {
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
