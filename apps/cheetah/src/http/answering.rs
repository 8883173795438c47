//! A request's way to its answer: to an authority that asks whether a name leads here, to HTTPS, past the rules of access, to an
//! application, or to a document, in this order.

use exos_buf::Slice;

use super::admission::{Admitted, admit};
use super::attempt::Attempt;
use super::choice::{Choice, choose};
use super::exchange::{Answered, Exchange, Resource, what_follows};
use super::logging::{Told, log_answer};
use super::missing::Missing;
use super::outcome::{Response, Unanswered};
use super::response::tail::Tail;
use super::server::Server;
use crate::log::{LoggedRequest, Unfinished};
use crate::message::request::{Method, Request};
use crate::message::target::{Target, encode, https_url};
use crate::message::{Fault, Status};
use crate::site::page;

impl Server {
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
        if let Some(log) = self.log_mut() {
            let tail_len = tail.as_ref().map_or(0, |tail| tail.len());
            let response = &out[before..];
            let asked = LoggedRequest::of(request);
            let told = Told {
                status,
                cache: answered.logged,
            };
            log_answer(log, asked, told, response, tail_len, attempt, lines);
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
        if let (Some(acme), Ok(target)) = (self.acme(), &target)
            && !request.is_tunnel()
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
        let is_safe = request.method.is_safe() && !request.is_tunnel();
        if attempt.is_early && attempt.on_stream.is_some() && !is_safe {
            // Streams do not wait for each other, so its client is to ask again (RFC 8470 §5.2).
            exchange.answered.is_for_all = false;
            return Ok(Response {
                status: self.refuse_with(Status::TooEarly, None, &exchange, out),
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
        if request.is_tunnel() {
            return Ok(self.refuse_tunnel(&exchange, out));
        }
        self.send_chosen(exchange, &target, site, host, out)
    }

    /// Nobody speaks the protocol there: any success would be the beginning of the tunnel.
    fn refuse_tunnel(&mut self, exchange: &Exchange, out: &mut Vec<Slice>) -> Response {
        let fault = Fault::ProtocolUnknown;
        self.sender.counters.faults[fault as usize] += 1;
        Response {
            status: self.refuse_with(fault.status(), None, exchange, out),
            answered: exchange.answered,
            tail: None,
        }
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
}
