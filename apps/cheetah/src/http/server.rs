//! What all connections of a thread share: the sites, the openings of this second, the error pages, and the counters. It
//! turns a request into slices: `admission` says whether its client may have anything, `choice` what the request leads to, `sending` what is sent of that.

mod admission;
mod choice;
mod sending;

use std::net::{IpAddr, Ipv4Addr};

use exos_buf::Slice;
use exos_inet::Instant;

pub(super) use sending::{Answered, Decision, Exchange};

use super::missing::{Attempt, Missing};
use super::opening::{Openings, Persistence};
use super::request::Request;
use super::tail::Tail;
use super::target::Target;
use super::{Counters, Fault, Status, page};
use crate::log::{Asked, Log};
use crate::site::hosts::is_address;
use crate::site::{Change, Document, Sites};
use crate::status::StatusPages;
use admission::Admitted;
use choice::Choice;
use sending::{Place, what_follows};

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
    /// The client, and since when it asks, where a log, status pages or rules about access want to know.
    pub(super) peer: IpAddr,
    pub(super) begun: Instant,
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
            begun: Instant::START,
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
            self.log_answer(Asked::Bytes(bytes), &out[before..], 0);
        }
    }

    pub(super) fn refuse_fault(&mut self, fault: Fault, bytes: &[u8], out: &mut Vec<Slice>) {
        self.counters.faults[fault as usize] += 1;
        self.refuse(fault.status(), bytes, out);
    }

    /// Answers a request whose end is certain, unless it waits for a document. Gives what follows the slices, too.
    #[inline]
    pub(super) fn answer(
        &mut self,
        request: &Request,
        attempt: Attempt,
        out: &mut Vec<Slice>,
    ) -> Result<(Answered, Option<Box<Tail>>), Box<Missing>> {
        let before = out.len();
        let (answered, tail) = self.respond(request, attempt, out)?;
        if self.log.is_some() {
            let tail_len = tail.as_ref().map_or(0, |tail| tail.len());
            self.log_answer(Asked::of(request), &out[before..], tail_len);
        }
        Ok((answered, tail))
    }

    #[inline]
    fn respond(
        &mut self,
        request: &Request,
        attempt: Attempt,
        out: &mut Vec<Slice>,
    ) -> Result<(Answered, Option<Box<Tail>>), Box<Missing>> {
        let is_first_time = !attempt.has_waited;
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
            attempt,
        };
        if self.sites.has_access_rules()
            && let Ok(target) = &target
            && (site.is_some() || self.is_status_host(host.or(request.host)))
        {
            match self.admit(&target.path, &exchange) {
                Admitted::Yes => {}
                Admitted::Waits(missing) => return Err(missing),
                Admitted::No(status, field) => {
                    let page = self.page(status, place.site);
                    self.send_page(status, &page, Some(field), &exchange, out);
                    return Ok((answered, None));
                }
            }
        }
        let answered = match self.choose(request, &target, site, attempt) {
            Ok(Choice::Send(document)) if let Some(long) = document.long() => {
                let (document, long) = (document.clone(), long.clone());
                let tail = self.send_long(&document, &long, &exchange, out)?;
                return Ok((answered, tail));
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
                let page = self.status_page(place.path, request);
                let (status, page) = self.or_refuse(page, Status::NotFound, place.site);
                self.send_page(status, &page, None, &exchange, out);
                answered
            }
            Ok(Choice::Refuse(Status::MisdirectedRequest)) if self.status_pages.is_some() => {
                let target = target.as_ref().ok();
                let path = target.filter(|_| self.is_status_host(host.or(request.host)));
                let page = self.status_page(path.map(|t| &*t.path), request);
                let (status, page) = self.or_refuse(page, Status::MisdirectedRequest, place.site);
                self.send_page(status, &page, None, &exchange, out);
                answered
            }
            Ok(Choice::Wait(path)) => {
                self.counters.cache_misses += u64::from(is_first_time);
                return Err(Missing::document(place.site, path));
            }
            Ok(choice) => {
                let (status, page) = self.other(choice, place.site);
                self.send_page(status, &page, None, &exchange, out);
                answered
            }
            Err(fault) => self.refuse_request(fault, exchange, out),
        };
        Ok((answered, None))
    }

    /// Whether status pages are seen by a host that is no site's: by an address, for which no name of somebody else's stands. The
    /// rules of the default site are about them.
    fn is_status_host(&self, host: Option<&[u8]>) -> bool {
        self.status_pages.is_some() && host.is_some_and(is_address)
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
}
