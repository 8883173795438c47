//! What all connections of a thread share: the sites, what is sent for them, the log and the status pages.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use exos_buf::Slice;

use super::asking::Asking;
use super::attempt::Attempt;
use super::counters::Counters;
use super::exchange::Exchange;
use super::logging::log_answer;
use super::response::opening::{Manner, Persistence};
use super::sending::Sender;
use crate::acme::Acme;
use crate::caching::Answers;
use crate::log::{Log, LoggedRequest, Unfinished};
use crate::message::request::{FieldStore, Method, parse};
use crate::message::{Fault, Status};
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
    /// What is kept of upstreams' answers.
    pub(super) answers: Answers,
    /// Requests that are to be asked of upstreams for nobody.
    pub(super) refreshes: VecDeque<Box<Asking>>,
    /// Memory in which an application is asked.
    pub(super) words: Vec<u8>,
    /// The answer to OPTIONS.
    allowed: Document,
    log: Option<Log>,
    status_pages: Option<StatusPages>,
    /// What authorities ask that give certificates.
    acme: Option<Arc<Acme>>,
    /// How often what is served may have changed: in the upper half how often all was exchanged, in the lower what has changed since.
    changes: u64,
}

impl Server {
    /// A server of one site or several; `now_secs` is the time in seconds since 1970 (UTC).
    pub fn new(sites: impl Into<Sites>, now_secs: u64) -> Server {
        Server {
            sites: sites.into(),
            sender: Sender::new(now_secs),
            answers: Answers::default(),
            refreshes: VecDeque::new(),
            words: Vec::new(),
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
        self.answers.clear();
        let sites: Sites = sites.into();
        let sites = sites.instead_of(&self.sites);
        std::mem::replace(&mut self.sites, sites)
    }

    /// Changes what a site serves from now on, by its number; responses under way keep what they have.
    pub fn change_site(&mut self, site: usize, change: Change) {
        if change.is_about_answers() {
            return self.answers.apply(site, &change);
        }
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

    // Refusals and pages.

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

    pub(super) fn send_page(
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
    pub(super) fn is_status_host(&self, host: Option<&[u8]>) -> bool {
        self.status_pages.is_some() && host.is_some_and(is_address)
    }

    /// Whether a status page is asked for by an address, which no certificate is for: it needs no HTTPS.
    pub(super) fn is_status(&mut self, host: Option<&[u8]>, path: &[u8], peer: IpAddr) -> bool {
        let is_host = self.is_status_host(host);
        let pages = self.status_pages.as_mut().filter(|_| is_host);
        pages.is_some_and(|pages| pages.find(path, peer).is_some())
    }

    /// Where no site has anything, there may be a status page: that it would be refused with this status says so.
    pub(super) fn status_page(
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
