//! Requests that applications answer: which they are, and what is said to their clients.
//!
//! Their bodies, and the bytes of answers, are the caller's to move; here they get the lines that make a response of ours.

use std::net::IpAddr;

use exos_buf::Slice;

use super::asking::{Asking, Said};
use super::attempt::Attempt;
use super::exchange::Exchange;
use super::kept::Consulted;
use super::kept::role::Use;
use super::logging::log_answer;
use super::outcome::{Response, Unanswered};
use super::server::Server;
use crate::applications::heads::Known;
use crate::applications::proxy;
use crate::applications::reply::Framing;
use crate::applications::{Application, Asked};
use crate::limits::{OPENING_LEN, WORDS_LEN_KEPT};
use crate::log::{Answer, Unfinished};
use crate::message::http2::push_lines;
use crate::message::request::{Body, Request};
use crate::message::{Fault, Status};

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
        let keeps = match self.consult(&mut exchange, site, path, &asked, out) {
            Consulted::Answered(response) => return Ok(response),
            Consulted::Waits(missing) => return Err(missing.into()),
            Consulted::Goes(keeps) => keeps,
        };
        let server_name = self.sites.own_name(site).cloned();
        let more_fields = self.sites.get_mut(site).rule_fields(path);
        let mut asking = Asking::new(asked, exchange, site, server_name, more_fields);
        asking.keeps = keeps;
        asking.tell_early(request, &mut self.words);
        Err(Unanswered::Asks(Box::new(asking)))
    }

    /// An application has been asked: what that was said in is used again, where it is no more than others need.
    pub(crate) fn use_again(&mut self, words: Vec<u8>) {
        if (1..=WORDS_LEN_KEPT).contains(&words.capacity()) {
            self.words = words;
        }
    }

    /// The head of a response that an application gives, with room for `content_len` bytes behind it.
    pub(crate) fn application_head(
        &mut self,
        asking: &Asking,
        known: &Known,
        framing: Framing,
        persistent: bool,
        content_len: usize,
    ) -> Vec<u8> {
        let head = &known.head;
        let code = asking.told(head.code);
        self.sender.counters.count_code(code);
        let has_streams = asking.version.has_streams();
        // The head of a change of protocol says itself what the connection is for from here on.
        let how = asking.manner(persistent || framing == Framing::Tunnel);
        let room = OPENING_LEN + head.fields.len() + asking.more_fields().map_or(0, Slice::len);
        let mut out = Vec::with_capacity(room + content_len);
        self.sender.push_opening(code, &head.reason, how, &mut out);
        if has_streams {
            let mut lines = Vec::with_capacity(room);
            push_fields(&mut lines, asking, known, framing);
            push_lines(&mut out, &lines);
            return out;
        }
        push_fields(&mut out, asking, known, framing);
        out.extend_from_slice(b"\r\n");
        out
    }

    /// The head of a response that an application gives, where all of it is ready: for a client of HTTP/1.
    pub(crate) fn ready_head(
        &mut self,
        asking: &Asking,
        known: &Known,
        persistent: bool,
    ) -> Option<[Slice; 2]> {
        let is_plain = !asking.version.has_streams() && matches!(asking.keeps, Use::None);
        let (status, lines) = known.ready.as_ref().filter(|_| is_plain)?;
        let opening = self.sender.opening(*status, asking.manner(persistent))?;
        Some([opening, lines.clone()])
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
            .page(status, self.sites.get_or_default(asking.site()));
        let rest = match asking.asks_head() {
            true => page.fields(),
            false => page.whole(),
        };
        let rest = asking.more_fields().cloned().into_iter().chain([rest]);
        self.sender
            .push(status, asking.manner(persistent), rest, out);
        let response = &out[before..];
        if let Some(log) = self.log_mut() {
            let attempt = Attempt::default().of(asking.peer(), asking.begun(), asking.begun());
            let mut attempt = attempt.on_stream(Some(asking.version));
            attempt.tls = asking.tls();
            attempt.is_early = asking.is_early();
            asking
                .with_logged(|asked| log_answer(log, asked, status, response, 0, &attempt, lines));
        }
    }

    /// The line of what an application has answered.
    pub(super) fn log_application(&mut self, asking: &Asking, said: Said, lines: &mut Unfinished) {
        let Some(log) = self.log_mut() else {
            return;
        };
        asking.with_logged(|asked| {
            let answer = Answer {
                peer: asking.peer(),
                begun: asking.begun(),
                asked,
                code: said.code,
                head_len: said.head_len,
                len: said.len,
                cache: asking.keeps.logged(),
                tls: asking.tls().map(|about| &**about),
                is_early: asking.is_early(),
            };
            log.answered(&answer, lines);
        });
    }
}

/// The fields of an application's answer, as lines.
fn push_fields(out: &mut Vec<u8>, asking: &Asking, known: &Known, framing: Framing) {
    out.extend_from_slice(asking.more_fields().map_or(&b""[..], Slice::as_bytes));
    out.extend_from_slice(&known.head.fields);
    if let Use::Fetch(fetch) = &asking.keeps {
        out.extend_from_slice(fetch.status().as_bytes());
    }
    framing.push_fields(known.head.code, known.length, out);
}

/// What refuses a request whatever the application says.
fn check(request: &Request, application: &Application) -> Result<(), Fault> {
    match request.body {
        // A tunnel, and what shows a client's secrets to scripts in pages (RFC 9110 §9.3.8).
        _ if matches!(request.method_name, "CONNECT" | "TRACE") => Err(Fault::MethodNotAllowed),
        _ if request.is_tunnel()
            && !proxy::request::upgrades(request, application.proxy.as_ref()) =>
        {
            Err(Fault::ProtocolUnknown)
        }
        Body::UnknownCoding => Err(Fault::CodingUnknown),
        Body::Length(length) if length > application.body_max => Err(Fault::BodyTooLong),
        _ if request.expects_unknown => Err(Fault::ExpectationUnknown),
        Body::Length(_) | Body::Chunked => Ok(()),
    }
}

#[cfg(test)]
#[path = "applications/tests.rs"]
mod tests;
