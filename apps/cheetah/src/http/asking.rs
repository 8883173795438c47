//! Requests that an application answers: which they are, and what becomes of its answer.
//!
//! The head of such a request is consumed, and kept beside what is asked. Its body, and the bytes of the answer, are the
//! caller's to move; here they get the lines that make a response of ours.

use std::net::IpAddr;
use std::sync::Arc;

use exos_buf::Slice;
use exos_inet::{Duration, Instant};

use super::exchange::Exchange;
use super::missing::Unanswered;
use super::opening::{self, Manner, Persistence};
use super::server::{Response, Server, log_answer};
use crate::applications::head::Head;
use crate::applications::proxy::{self, answer::Question};
use crate::applications::reply::Framing;
use crate::applications::variables::{self, About};
use crate::applications::{Address, Application, Asked};
use crate::limits::UPSTREAM_FRESH_TIME;
use crate::log::{Answer, LoggedRequest, Unfinished};
use crate::message::http2::push_lines;
use crate::message::request::{Body, FieldStore, Method, Request, parse};
use crate::message::{Fault, Status, Version};

/// A request that an application answers.
#[derive(Debug)]
pub struct Asking {
    /// What is asked, and of which.
    pub asked: Asked,
    /// The head as it came.
    pub head: Box<[u8]>,
    /// What comes behind it.
    pub body: Body,
    /// The client waits for leave before it sends the body.
    pub expects_continue: bool,
    /// It wants another request on this connection.
    pub persistent: bool,
    /// How it was asked.
    pub version: Version,
    asks_head: bool,
    /// It asks for nothing to be done (RFC 9110 §9.2.1), so that it may be asked twice.
    is_safe: bool,
    /// Asked twice it does what it does once (§9.2.2).
    is_idempotent: bool,
    /// It wants to change to another protocol.
    wants_upgrade: bool,
    site: usize,
    /// What that calls itself.
    server_name: Option<Arc<[u8]>>,
    /// The fields that rules set, as lines.
    more_fields: Option<Slice>,
    /// Whose password let it in.
    user: Option<Box<[u8]>>,
    peer: IpAddr,
    begun: Instant,
    is_encrypted: bool,
    /// What is known of the session of TLS that it came by.
    tls: Option<Arc<exos_tls::About>>,
}

/// What has been said of an application's answer.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Its status.
    pub code: u16,
    /// Bytes of the head.
    pub head_len: usize,
    /// Bytes of all.
    pub len: usize,
}

impl Asking {
    /// Who asks.
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    /// How the client knows where the answer ends.
    pub fn framing(&self, head: &Head) -> Framing {
        Framing::of(head, self.asks_head, self.version)
    }

    /// Whether a rule sets a field.
    pub fn is_set(&self, name: &str) -> bool {
        let lines = self.more_fields.as_ref().map_or(&b""[..], Slice::as_bytes);
        let mut names = lines
            .split(|&b| b == b'\n')
            .filter_map(|line| line.split(|&b| b == b':').next());
        names.any(|set| set.eq_ignore_ascii_case(name.as_bytes()))
    }

    /// The request has a body.
    pub fn has_body(&self) -> bool {
        self.body != Body::Length(0)
    }

    /// It may be asked once more if the application closes a connection without an answer (RFC 9110 §9.2.2). What FastCGI makes of
    /// a method is the script's.
    pub fn may_be_repeated(&self) -> bool {
        let is_proxied = self.asked.application.proxy.is_some();
        (self.is_safe || self.is_idempotent && is_proxied) && !self.has_body()
    }

    /// A connection that was kept will do, if it was used within this time.
    pub fn kept_within(&self) -> Option<Duration> {
        match &self.asked.application.proxy {
            _ if self.may_be_repeated() => Some(Duration::MAX),
            Some(_) => Some(UPSTREAM_FRESH_TIME),
            None => None,
        }
    }

    /// What the answer depends on.
    pub fn question(&self) -> Question {
        Question {
            asks_head: self.asks_head,
            wants_upgrade: self.wants_upgrade,
        }
    }

    /// What is sent there, before the body: a head of HTTP, or the request's variables. `keeps` has the connection stay open.
    /// Nothing where the head is none that is understood: then nothing is to be sent at all, for the body would be taken for a request.
    pub fn words(
        &self,
        to: &Address,
        ends: variables::Ends,
        length: Option<u64>,
        keeps: bool,
    ) -> Option<Vec<u8>> {
        let Some(proxy) = &self.asked.application.proxy else {
            return self.variables(ends, length);
        };
        let mut store = FieldStore::new();
        let request = parse(&self.head, &mut store).ok()??;
        let request = request.asked_by(self.version);
        let about = proxy::request::About {
            asked: &self.asked,
            proxy,
            to,
            peer: self.peer,
            length,
            is_encrypted: self.is_encrypted,
            tls: self.tls.as_deref(),
            keeps,
        };
        let mut out = Vec::with_capacity(self.head.len() + 256);
        proxy::request::push(&mut out, &request, &about);
        Some(out)
    }

    /// What the application is told: the request's variables, in FastCGI's form. Nothing where the head is none that is understood.
    pub fn variables(&self, ends: variables::Ends, length: Option<u64>) -> Option<Vec<u8>> {
        let mut store = FieldStore::new();
        let request = parse(&self.head, &mut store).ok()??;
        let request = request.asked_by(self.version);
        let about = About {
            asked: &self.asked,
            ends,
            length,
            server_name: self.server_name.as_deref(),
            user: self.user.as_deref(),
            is_encrypted: self.is_encrypted,
            tls: self.tls.as_deref(),
        };
        let mut out = Vec::with_capacity(2 * self.head.len());
        variables::push(&mut out, &request, &about);
        Some(out)
    }
}

impl Server {
    /// What a request for a path asks of an application, if it does. A redirect comes before that, and before a front a status
    /// page that the peer may see.
    pub(super) fn asked(
        &mut self,
        site: usize,
        path: &[u8],
        query: Option<&[u8]>,
        peer: IpAddr,
    ) -> Option<Asked> {
        let site = self.sites.get(site);
        let asked = site.settings().applications.find(path, site)?;
        let is_redirected = site.redirect(path, query).is_some();
        let pages = self.status_pages_mut().filter(|_| asked.is_front);
        let is_status_page = pages.is_some_and(|pages| pages.find(path, peer).is_some());
        (!is_redirected && !is_status_page).then_some(asked)
    }

    /// Has an application asked, or refuses what none can be asked.
    pub(super) fn ask(
        &mut self,
        mut exchange: Exchange<'_, '_, '_>,
        site: usize,
        path: &[u8],
        asked: Asked,
        out: &mut Vec<Slice>,
    ) -> Result<Response, Unanswered> {
        let request = exchange.request;
        exchange.answered.is_for_all = false;
        if let Err(fault) = check(request, &asked.application) {
            self.sender.counters.faults[fault as usize] += 1;
            exchange.answered.persistent &= fault.is_survivable();
            let status = self.refuse_with(fault.status(), None, &exchange, out);
            let answered = exchange.answered;
            return Ok(Response {
                status,
                answered,
                tail: None,
            });
        }
        let is_proxied = asked.application.proxy.is_some();
        if is_proxied && proxy::request::max_forwards(request) == Some(0) {
            // RFC 9110 §7.6.2: it is not to be passed on.
            let status = self.send_allowed(&exchange, out);
            let answered = exchange.answered;
            return Ok(Response {
                status,
                answered,
                tail: None,
            });
        }
        let upgrades = asked
            .application
            .proxy
            .as_ref()
            .is_some_and(|it| it.upgrades);
        let is_safe = matches!(request.method, Method::Get | Method::Head | Method::Options);
        Err(Unanswered::Asks(Box::new(Asking {
            asked,
            user: exchange.user,
            head: Box::default(),
            body: request.body,
            expects_continue: request.expects_continue,
            persistent: request.persistent,
            version: request.version,
            asks_head: request.method == Method::Head,
            is_safe,
            is_idempotent: is_safe || matches!(request.method_name, "PUT" | "DELETE"),
            wants_upgrade: upgrades && proxy::request::upgrade(request).is_some(),
            site,
            server_name: self.sites.own_name(site).cloned(),
            more_fields: self.sites.get_mut(site).rule_fields(path),
            peer: exchange.attempt.peer,
            begun: exchange.attempt.begun,
            is_encrypted: exchange.attempt.is_encrypted,
            tls: exchange.attempt.tls.cloned(),
        })))
    }

    /// The head of a response that an application gives.
    pub(crate) fn application_head(
        &mut self,
        asking: &Asking,
        head: &Head,
        framing: Framing,
        persistent: bool,
    ) -> Vec<u8> {
        self.sender.counters.count_code(head.code);
        let mut lines = match &asking.more_fields {
            Some(lines) => lines.as_bytes().to_vec(),
            None => Vec::new(),
        };
        lines.extend_from_slice(&head.fields);
        framing.push_fields(head, &mut lines);
        let alternative = self.sender.alternative(asking.is_encrypted);
        if !alternative.is_empty() {
            lines.extend_from_slice(format!("Alt-Svc: {alternative}\r\n").as_bytes());
        }
        let now_secs = self.sender.now_secs();
        if asking.version.has_streams() {
            let mut block = opening::block(now_secs, head.code);
            push_lines(&mut block, &lines);
            return block;
        }
        let how = match framing {
            // The head says what the connection is for from here on.
            Framing::Tunnel => Persistence::Implied,
            _ => manner(asking, persistent).persistence,
        };
        let mut out = opening::text(now_secs, head.code, &head.reason, how).into_bytes();
        out.append(&mut lines);
        out.extend_from_slice(b"\r\n");
        out
    }

    /// Answers a request that no application has answered.
    pub(super) fn refuse_asking(
        &mut self,
        status: Status,
        asking: &Asking,
        persistent: bool,
        lines: &mut Unfinished,
        out: &mut Vec<Slice>,
    ) {
        let before = out.len();
        let page = self
            .sender
            .page(status, self.sites.get_or_default(asking.site));
        let rest = match asking.asks_head {
            true => page.fields(),
            false => page.whole(),
        };
        let rest = asking.more_fields.clone().into_iter().chain([rest]);
        self.sender
            .push(status, manner(asking, persistent), rest, out);
        let response = &out[before..];
        if let Some(log) = &mut self.log {
            let attempt = super::Attempt::default().of(asking.peer, asking.begun, asking.begun);
            let mut attempt = attempt.on_stream(Some(asking.version));
            attempt.tls = asking.tls.as_ref();
            asking
                .with_logged(|asked| log_answer(log, asked, status, response, 0, &attempt, lines));
        }
    }

    /// The line of what an application has answered.
    pub(super) fn log_application(&mut self, asking: &Asking, said: Said, lines: &mut Unfinished) {
        let Some(log) = &mut self.log else {
            return;
        };
        asking.with_logged(|asked| {
            let answer = Answer {
                peer: asking.peer,
                begun: asking.begun,
                asked,
                code: said.code,
                head_len: said.head_len,
                len: said.len,
                tls: asking.tls.as_deref(),
            };
            log.answered(&answer, lines);
        });
    }
}

impl Asking {
    fn with_logged(&self, log: impl FnOnce(LoggedRequest<'_>)) {
        let mut store = FieldStore::new();
        match parse(&self.head, &mut store) {
            Ok(Some(request)) => log(LoggedRequest::of(&request.asked_by(self.version))),
            _ => log(LoggedRequest::Bytes(&self.head)),
        }
    }
}

fn manner(asking: &Asking, persistent: bool) -> Manner {
    Manner {
        persistence: Persistence::of(asking.version, persistent),
        is_encrypted: asking.is_encrypted,
    }
}

/// What refuses a request whatever the application says.
fn check(request: &Request, application: &Application) -> Result<(), Fault> {
    match request.body {
        // A tunnel, and what shows a client's secrets to scripts in pages (RFC 9110 §9.3.8).
        _ if matches!(request.method_name, "CONNECT" | "TRACE") => Err(Fault::MethodNotAllowed),
        Body::UnknownCoding => Err(Fault::CodingUnknown),
        Body::Length(length) if length > application.body_max => Err(Fault::BodyTooLong),
        _ if request.expects_unknown => Err(Fault::ExpectationUnknown),
        Body::Length(_) | Body::Chunked => Ok(()),
    }
}
