//! What all connections of a thread share: the sites, what is sent for them, the log and the status pages. It turns a
//! request into slices: `admission` says whether its client may have anything, `choice` what the request leads to,
//! `sending` what is sent of that.

use std::net::IpAddr;
use std::sync::Arc;

use exos_buf::Slice;

use super::admission::{Admitted, admit};
use super::choice::{Choice, choose};
use super::counters::Counters;
use super::exchange::{Answered, Exchange, Resource, what_follows};
use super::head;
use super::missing::{Attempt, Missing, Unanswered};
use super::opening::{Manner, Persistence};
use super::sending::Sender;
use super::tail::Tail;
use crate::acme::Acme;
use crate::log::{Answer, Log, LoggedRequest, Unfinished};
use crate::message::request::{FieldStore, Method, Request, parse};
use crate::message::target::{Target, encode, https_url};
use crate::message::{Fault, Status, Version};
use crate::site::hosts::is_address;
use crate::site::{Change, Document, Sites, page};
use crate::status::StatusPages;

/// The HTTP server of one thread.
///
/// Call [`set_time`](Server::set_time) once per turn of the event loop; hand the bytes of each
/// connection to its own [`ServerConnection`](super::ServerConnection).
#[derive(Debug)]
pub struct Server {
    pub(super) sites: Sites,
    pub(super) sender: Sender,
    /// The answer to OPTIONS.
    allowed: Document,
    pub(super) log: Option<Log>,
    status_pages: Option<StatusPages>,
    /// What authorities ask that give certificates.
    acme: Option<Arc<Acme>>,
    /// How often what is served may have changed: in the upper half how often all was exchanged, in the lower what has changed since.
    changes: u64,
}

/// What a request was answered with: the slices are in the caller's list.
pub(super) struct Response {
    pub(super) status: Status,
    pub(super) answered: Answered,
    /// What follows the slices.
    pub(super) tail: Option<Box<Tail>>,
}

impl Server {
    /// A server of one site or several; `now_secs` is the time in seconds since 1970 (UTC).
    pub fn new(sites: impl Into<Sites>, now_secs: u64) -> Server {
        Server {
            sites: sites.into(),
            sender: Sender::new(now_secs),
            allowed: page::allowed(),
            log: None,
            status_pages: None,
            acme: None,
            changes: 0,
        }
    }

    // Before there are connections.

    /// Gives each response to a log from now on.
    pub fn set_log(&mut self, log: Log) {
        self.log = Some(log);
    }

    /// Shows these pages from now on, where a site has nothing at their path.
    pub fn set_status_pages(&mut self, pages: StatusPages) {
        self.status_pages = Some(pages);
    }

    /// Answers what authorities ask that give certificates.
    pub fn set_acme(&mut self, acme: Arc<Acme>) {
        self.acme = Some(acme);
    }

    /// Makes the head of each response when it is sent, from now on.
    pub fn make_heads_afresh(&mut self) {
        self.sender.make_heads_afresh();
    }

    // Between turns.

    /// Sets the time in seconds since 1970 (UTC) for the Date field; costs a comparison when the
    /// second is the same.
    #[inline]
    pub fn set_time(&mut self, now_secs: u64) {
        self.sender.set_time(now_secs);
    }

    /// Serves other documents from now on, and returns those until now; responses under way keep theirs.
    pub fn set_sites(&mut self, sites: impl Into<Sites>) -> Sites {
        self.changes = ((self.changes >> 32) + 1) << 32;
        let sites: Sites = sites.into();
        let sites = sites.instead_of(&self.sites);
        std::mem::replace(&mut self.sites, sites)
    }

    /// Changes what a site serves from now on, by its number; responses under way keep what they have.
    pub fn change_site(&mut self, site: usize, change: Change) {
        self.changes += 1;
        self.sites.get_mut(site).apply(change);
    }

    /// This many bytes of responses have been taken by their clients.
    #[inline]
    pub(crate) fn count_taken(&mut self, len: u64) {
        self.sender.counters.response_bytes += len;
    }

    // Getters.

    /// What is served.
    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    /// What is served, to be changed between turns; responses under way keep what they have.
    pub fn sites_mut(&mut self) -> &mut Sites {
        self.changes += 1;
        &mut self.sites
    }

    /// Another number when what is served may have changed; the same one on all cores that have heard of the same changes.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn counters_mut(&mut self) -> &mut Counters {
        &mut self.sender.counters
    }

    /// Counts from these on; gives those until now.
    pub(super) fn put_counters_back(&mut self, before: Counters) -> Counters {
        std::mem::replace(&mut self.sender.counters, before)
    }

    /// What has been answered so far.
    pub fn counters(&self) -> &Counters {
        &self.sender.counters
    }

    /// What gets certificates, where they come by themselves.
    pub fn acme(&self) -> Option<&Arc<Acme>> {
        self.acme.as_ref()
    }

    /// The log, if there is one.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// The log, if there is one.
    #[inline]
    pub fn log_mut(&mut self) -> Option<&mut Log> {
        self.log.as_mut()
    }

    /// HTTP/3 is spoken at this port, which responses by HTTPS say from now on.
    pub fn announce_http3(&mut self, port: u16) {
        self.sender.announce_http3(port);
    }

    /// The status pages, if there are any.
    #[inline]
    pub fn status_pages_mut(&mut self) -> Option<&mut StatusPages> {
        self.status_pages.as_mut()
    }

    // Requests.

    /// An error response that does not belong to a parsed request. Always the last one. `bytes` are what came of a
    /// request; its line for the log is queued on `lines`.
    pub(super) fn refuse(
        &mut self,
        status: Status,
        bytes: &[u8],
        attempt: &Attempt,
        lines: &mut Unfinished,
        out: &mut Vec<Slice>,
    ) {
        let before = out.len();
        let site = self.sites.get(self.sites.default_number());
        let page = self.sender.page(status, site);
        // RFC 9110 §9.3.2: no content for HEAD, whatever else is wrong with it.
        let rest = if bytes.starts_with(b"HEAD ") {
            page.fields()
        } else {
            page.whole()
        };
        let persistence = match attempt.on_stream {
            Some(_) => Persistence::Http2,
            None => Persistence::Close,
        };
        let how = Manner {
            persistence,
            is_encrypted: attempt.is_encrypted,
        };
        self.sender.push(status, how, [rest], out);
        if let Some(log) = &mut self.log {
            let response = &out[before..];
            let mut store = FieldStore::new();
            let asked = match parse(bytes, &mut store) {
                Ok(Some(request)) if let Some(version) = attempt.on_stream => {
                    request.asked_by(version)
                }
                _ => {
                    let asked = LoggedRequest::Bytes(bytes);
                    return log_answer(log, asked, status, response, 0, attempt, lines);
                }
            };
            let asked = LoggedRequest::of(&asked);
            log_answer(log, asked, status, response, 0, attempt, lines);
        }
    }

    pub(super) fn refuse_fault(
        &mut self,
        fault: Fault,
        bytes: &[u8],
        attempt: &Attempt,
        lines: &mut Unfinished,
        out: &mut Vec<Slice>,
    ) {
        self.sender.counters.faults[fault as usize] += 1;
        self.refuse(fault.status(), bytes, attempt, lines, out);
    }

    /// Answers a request whose end is certain, unless it waits for a document. Gives its status, and what follows the slices, too; the
    /// line for the log is queued on `lines`.
    #[inline]
    pub(super) fn answer(
        &mut self,
        request: &Request,
        attempt: &Attempt,
        lines: &mut Unfinished,
        out: &mut Vec<Slice>,
    ) -> Result<(Answered, Status, Option<Box<Tail>>), Unanswered> {
        let before = out.len();
        let Response {
            status,
            answered,
            tail,
        } = self.respond(request, attempt, out)?;
        if let Some(log) = &mut self.log {
            let tail_len = tail.as_ref().map_or(0, |tail| tail.len());
            let response = &out[before..];
            let asked = LoggedRequest::of(request);
            log_answer(log, asked, status, response, tail_len, attempt, lines);
        }
        Ok((answered, status, tail))
    }

    #[inline]
    fn respond(
        &mut self,
        request: &Request,
        attempt: &Attempt,
        out: &mut Vec<Slice>,
    ) -> Result<Response, Unanswered> {
        let target = Target::parse(request.target);
        let host = target.as_ref().ok().and_then(|target| target.authority);
        let host = host.or(request.host);
        let site = self.sites.find(host);
        let resource = Resource {
            site: site.unwrap_or(self.sites.default_number()),
            // Rules are those of the site that the request is for.
            path: target
                .as_ref()
                .ok()
                .filter(|_| site.is_some())
                .map(|t| &*t.path),
        };
        let mut exchange = Exchange {
            request,
            answered: what_follows(request),
            resource,
            attempt,
            user: None,
        };
        if let (Some(acme), Ok(target)) = (&self.acme, &target)
            && let Some(answer) = acme.challenges().document(&target.path)
        {
            // Before all rules, for it is no document of the site: an authority asks whether the name leads here.
            exchange.answered.is_for_all = false;
            exchange.resource.path = None;
            let page = page::plain(&answer);
            let status = self.send_page(Status::Ok, &page, &exchange, out);
            return Ok(Response {
                status,
                answered: exchange.answered,
                tail: None,
            });
        }
        if !attempt.is_encrypted
            && let (Some(number), Ok(target)) = (site, &target)
            && let Some(port) = self.sites.get(number).settings().https_only
            && !self.is_status(host, &target.path, attempt.peer)
        {
            exchange.answered.is_for_all = false;
            // The site's fields are for what it answers by HTTPS (RFC 6797 §7.2).
            exchange.resource.path = None;
            return Ok(self.send_to_https(port, host, target, &exchange, out));
        }
        if self.sites.has_access_rules()
            && let Ok(target) = &target
            && (site.is_some() || self.is_status_host(host))
        {
            let rules = self.sites.get(resource.site);
            match admit(rules, &target.path, &exchange, &mut self.sender.counters) {
                Admitted::Yes { is_for_all, user } => {
                    exchange.answered.is_for_all = is_for_all;
                    exchange.user = user;
                }
                Admitted::Waits(missing) => return Err(missing.into()),
                Admitted::No(status, field) => {
                    exchange.answered.is_for_all = false;
                    let status = self.refuse_with(status, Some(field), &exchange, out);
                    return Ok(Response {
                        status,
                        answered: exchange.answered,
                        tail: None,
                    });
                }
            }
        }
        if self.sites.has_applications()
            && let (Some(site), Ok(target)) = (site, &target)
            && let Some(asked) = self.asked(site, &target.path, target.query, attempt.peer)
        {
            return self.ask(exchange, site, &target.path, asked, out);
        }
        self.send_chosen(exchange, &target, site, host, out)
    }

    /// Sends a plain request to where it would be encrypted.
    fn send_to_https(
        &mut self,
        port: u16,
        host: Option<&[u8]>,
        target: &Target,
        exchange: &Exchange,
        out: &mut Vec<Slice>,
    ) -> Response {
        let path = encode(&target.path, target.query);
        let site = exchange.resource.site;
        // A name of the site's is kept; any other is not one to send anybody to.
        let kept = host.filter(|host| self.sites.is_name_of(host, site));
        let own = self.sites.own_name(site).map(|name| &**name);
        let host = kept.or(own).or(host);
        let status = match (exchange.request.method, https_url(host, port, &path)) {
            (_, None) => self.refuse_with(Status::BadRequest, None, exchange, out),
            // Browsers repeat only what they ask for as GET (RFC 9110 §15.4.2).
            (Method::Get | Method::Head, Some(url)) => {
                let page = page::redirect(Status::MovedPermanently, &url);
                self.send_page(Status::MovedPermanently, &page, exchange, out)
            }
            (_, Some(url)) => {
                let page = page::redirect(Status::PermanentRedirect, &url);
                self.send_page(Status::PermanentRedirect, &page, exchange, out)
            }
        };
        Response {
            status,
            answered: exchange.answered,
            tail: None,
        }
    }

    /// Sends what a request that is admitted is for, or why it gets nothing.
    #[inline]
    fn send_chosen(
        &mut self,
        mut exchange: Exchange,
        target: &Result<Target, Fault>,
        site: Option<usize>,
        host: Option<&[u8]>,
        out: &mut Vec<Slice>,
    ) -> Result<Response, Unanswered> {
        let (request, attempt) = (exchange.request, exchange.attempt);
        let is_first_time = !attempt.has_waited;
        let mut tail = None;
        let (sender, sites) = (&mut self.sender, &mut self.sites);
        let status = match choose(sites, request, target, site, attempt) {
            Ok(Choice::Send(document)) if let Some(long) = document.long() => {
                let (document, long) = (document.clone(), long.clone());
                let sent = sender.send_long(&document, &long, &exchange, sites, out)?;
                tail = sent.1;
                sent.0
            }
            Ok(Choice::Send(document)) => {
                let document = document.clone();
                document.buffer().note_use();
                sender.counters.cache_hits += u64::from(is_first_time);
                if request.conditional {
                    let decision = sender.decide(&document, request);
                    sender.send_decided(&document, decision, &exchange, sites, out)
                } else {
                    sender.send(&document, &exchange, out)
                }
            }
            Ok(Choice::Wait(path)) => {
                sender.counters.cache_misses += u64::from(is_first_time);
                return Err(Missing::document(exchange.resource.site, path).into());
            }
            Ok(Choice::Allow) => self.send_allowed(&exchange, out),
            Ok(Choice::Page(status, page)) => self.send_page(status, &page, &exchange, out),
            Ok(Choice::Refuse(status)) => {
                let path = target.as_ref().ok().map(|target| &*target.path);
                match self.status_page(status, host, path, &exchange) {
                    Some(page) => self.send_page(Status::Ok, &page, &exchange, out),
                    None => self.refuse_with(status, None, &exchange, out),
                }
            }
            Err(fault) => {
                sender.counters.faults[fault as usize] += 1;
                exchange.answered.persistent &= fault.is_survivable();
                self.refuse_with(fault.status(), None, &exchange, out)
            }
        };
        Ok(Response {
            status,
            answered: exchange.answered,
            tail,
        })
    }

    pub(super) fn refuse_with(
        &mut self,
        status: Status,
        field: Option<Slice>,
        exchange: &Exchange,
        out: &mut Vec<Slice>,
    ) -> Status {
        self.sender
            .refuse(status, field, exchange, &mut self.sites, out)
    }

    /// The answer to OPTIONS.
    pub(super) fn send_allowed(&mut self, exchange: &Exchange, out: &mut Vec<Slice>) -> Status {
        let page = self.allowed.clone();
        self.send_page(Status::Ok, &page, exchange, out)
    }

    fn send_page(
        &mut self,
        status: Status,
        page: &Document,
        exchange: &Exchange,
        out: &mut Vec<Slice>,
    ) -> Status {
        self.sender
            .send_page(status, page, None, exchange, &mut self.sites, out)
    }

    /// Whether status pages are seen by a host that is no site's: by an address, for which no name of somebody else's stands. The
    /// rules of the default site are about them.
    fn is_status_host(&self, host: Option<&[u8]>) -> bool {
        self.status_pages.is_some() && host.is_some_and(is_address)
    }

    /// Whether a status page is asked for by an address, which no certificate is for: it needs no HTTPS.
    fn is_status(&mut self, host: Option<&[u8]>, path: &[u8], peer: IpAddr) -> bool {
        let is_host = self.is_status_host(host);
        let pages = self.status_pages.as_mut().filter(|_| is_host);
        pages.is_some_and(|pages| pages.find(path, peer).is_some())
    }

    /// Where no site has anything, there may be a status page: that it would be refused with this status says so.
    fn status_page(
        &mut self,
        status: Status,
        host: Option<&[u8]>,
        path: Option<&[u8]>,
        exchange: &Exchange,
    ) -> Option<Document> {
        match status {
            Status::NotFound => {}
            Status::MisdirectedRequest if self.is_status_host(host) => {}
            _ => return None,
        }
        let pages = self.status_pages.as_mut()?;
        let page = pages.find(path?, exchange.attempt.peer)?;
        Some(match exchange.request.method {
            Method::Options => self.allowed.clone(),
            _ => page.clone(),
        })
    }
}

impl<'a> LoggedRequest<'a> {
    /// A request with a whole head.
    pub(super) fn of(request: &'a Request<'a, 'a>) -> LoggedRequest<'a> {
        LoggedRequest::Request {
            method: request.method_name,
            target: request.target,
            version: request.version,
            fields: request.fields,
        }
    }
}

/// Queues the line of a response, behind which this many bytes of a file follow.
#[inline(never)]
pub(super) fn log_answer(
    log: &mut Log,
    asked: LoggedRequest<'_>,
    status: Status,
    response: &[Slice],
    tail_len: u64,
    attempt: &Attempt,
    lines: &mut Unfinished,
) {
    let version = attempt.on_stream.unwrap_or(Version::Http11);
    let answer = Answer {
        peer: attempt.peer,
        begun: attempt.begun,
        asked,
        code: status.code(),
        head_len: head::len_of(response, version),
        len: response.iter().map(Slice::len).sum::<usize>() + tail_len as usize,
        tls: attempt.tls.map(Arc::as_ref),
    };
    log.answered(&answer, lines);
}
