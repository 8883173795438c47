//! What all connections of a thread share: the site, the openings of this second, the error
//! pages, and the counters. It turns a request into slices.

use std::rc::Rc;

use exos_buf::Slice;

use super::opening::{Openings, Persistence};
use super::range::{self, Parts};
use super::request::{Body, Method, Request};
use super::target::{Target, encode};
use super::{Fault, Status, conditional};
use crate::limits::BODY_SKIP_LEN_MAX;
use crate::site::{Document, Entry, Site};

/// The HTTP server of one thread.
///
/// Call [`set_time`](Server::set_time) once per turn of the event loop; hand the bytes of each
/// connection to its own [`ServerConnection`](super::ServerConnection).
#[derive(Debug)]
pub struct Server {
    site: Rc<Site>,
    openings: Openings,
    pages: Box<[Document]>,
    /// The answer to OPTIONS.
    allowed: Document,
    counters: Counters,
}

/// What has been answered so far.
#[derive(Debug)]
pub struct Counters {
    responses: [u64; Status::ALL.len()],
    faults: [u64; Fault::ALL.len()],
    /// Bytes of all responses, heads included.
    pub response_bytes: u64,
}

/// How the connection goes on after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// Another request may follow, after `skip` bytes of body.
    pub(super) persistent: bool,
    pub(super) skip: u64,
}

impl Server {
    /// A server of a site; `now_secs` is the time in seconds since 1970 (UTC).
    pub fn new(site: Rc<Site>, now_secs: u64) -> Server {
        Server {
            site,
            openings: Openings::new(now_secs),
            pages: Status::ALL.into_iter().map(page).collect(),
            allowed: Document::page(ALLOW, ""),
            counters: Counters {
                responses: [0; _],
                faults: [0; _],
                response_bytes: 0,
            },
        }
    }

    /// Sets the time in seconds since 1970 (UTC) for the Date field; costs a comparison when the
    /// second is the same.
    #[inline]
    pub fn set_time(&mut self, now_secs: u64) {
        self.openings.set_time(now_secs);
    }

    /// The documents served.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Serves other documents from now on; responses under way keep theirs.
    pub fn set_site(&mut self, site: Rc<Site>) {
        self.site = site;
    }

    /// What has been answered so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// An error response that does not belong to a parsed request, such as 408 when a request
    /// does not arrive in time or 503 when there are too many connections. Always the last one.
    pub fn refuse(&mut self, status: Status, out: &mut Vec<Slice>) {
        let page = self.pages[status as usize].clone();
        self.push(status, Persistence::Close, [page.whole()], out);
    }

    pub(super) fn refuse_fault(&mut self, fault: Fault, out: &mut Vec<Slice>) {
        self.counters.faults[fault as usize] += 1;
        self.refuse(fault.status(), out);
    }

    /// Answers a request whose end is certain.
    #[inline]
    pub(super) fn answer(&mut self, request: &Request, out: &mut Vec<Slice>) -> Answered {
        let mut answered = what_follows(request);
        match self.choose(request) {
            Ok(Choice::Send(document)) if !request.conditional => {
                let (status, document) = (Status::Ok, document.clone());
                self.send(status, &document, request, answered, out);
            }
            Ok(Choice::Send(document)) => {
                let document = document.clone();
                self.send_conditionally(&document, request, answered, out);
            }
            Ok(Choice::Redirect(location)) => {
                let page = redirect(&location);
                self.send(Status::MovedPermanently, &page, request, answered, out);
            }
            Ok(Choice::Allow) => {
                let page = self.allowed.clone();
                self.send(Status::Ok, &page, request, answered, out);
            }
            Ok(Choice::Refuse(status)) => self.send_page(status, request, answered, out),
            Err(fault) => {
                self.counters.faults[fault as usize] += 1;
                answered.persistent &= fault.is_survivable();
                self.send_page(fault.status(), request, answered, out);
            }
        }
        answered
    }

    #[inline]
    fn choose(&self, request: &Request) -> Result<Choice<'_>, Fault> {
        check(request)?;
        let asks_what = request.method == Method::Options;
        if asks_what && request.target == b"*" {
            return Ok(Choice::Allow);
        }
        let target = Target::parse(request.target)?;
        Ok(match self.site.find(&target.path) {
            Some(Entry::Document(_) | Entry::Directory) if asks_what => Choice::Allow,
            Some(Entry::Document(document)) => Choice::Send(document),
            Some(Entry::Directory) => {
                let path = [&target.path, &b"/"[..]].concat();
                Choice::Redirect(encode(&path, target.query))
            }
            Some(Entry::Forbidden) => Choice::Refuse(Status::Forbidden),
            None => Choice::Refuse(Status::NotFound),
        })
    }

    /// Preconditions, then parts (RFC 9110 §13.2.2).
    fn send_conditionally(
        &mut self,
        document: &Document,
        request: &Request,
        answered: Answered,
        out: &mut Vec<Slice>,
    ) {
        match conditional::evaluate(request, document) {
            Status::NotModified => {
                let how = persistence(request, answered);
                self.push(Status::NotModified, how, [document.validators()], out);
            }
            Status::PreconditionFailed => {
                self.send_page(Status::PreconditionFailed, request, answered, out);
            }
            _ => match self.parts(document, request) {
                Parts::Ignored => self.send(Status::Ok, document, request, answered, out),
                Parts::Unsatisfiable => {
                    let page = unsatisfiable(document.body().len());
                    let status = Status::RangeNotSatisfiable;
                    self.send(status, &page, request, answered, out);
                }
                Parts::Some(parts) => {
                    let how = persistence(request, answered);
                    let rest = range::response(document, &parts);
                    self.push(Status::PartialContent, how, rest, out);
                }
            },
        }
    }

    /// The parts that a request asks for; only GET has any (§14.2).
    fn parts(&self, document: &Document, request: &Request) -> Parts {
        match conditional::range(request) {
            Some(value)
                if request.method == Method::Get
                    && conditional::range_applies(request, document, self.openings.now_secs()) =>
            {
                range::parse(value, document.body().len() as u64)
            }
            _ => Parts::Ignored,
        }
    }

    fn send_page(
        &mut self,
        status: Status,
        request: &Request,
        answered: Answered,
        out: &mut Vec<Slice>,
    ) {
        let page = self.pages[status as usize].clone();
        self.send(status, &page, request, answered, out);
    }

    #[inline]
    fn send(
        &mut self,
        status: Status,
        document: &Document,
        request: &Request,
        answered: Answered,
        out: &mut Vec<Slice>,
    ) {
        let rest = match request.method {
            Method::Head => document.fields(),
            _ => document.whole(),
        };
        self.push(status, persistence(request, answered), [rest], out);
    }

    #[inline]
    fn push(
        &mut self,
        status: Status,
        how: Persistence,
        rest: impl IntoIterator<Item = Slice>,
        out: &mut Vec<Slice>,
    ) {
        let before = out.len();
        out.push(self.openings.get(status, how));
        out.extend(rest);
        let len: usize = out[before..].iter().map(Slice::len).sum();
        self.counters.responses[status as usize] += 1;
        self.counters.response_bytes += len as u64;
    }
}

enum Choice<'a> {
    Send(&'a Document),
    Redirect(String),
    /// Say which methods there are.
    Allow,
    Refuse(Status),
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

#[inline]
fn persistence(request: &Request, answered: Answered) -> Persistence {
    match (answered.persistent, request.minor_version) {
        (false, _) => Persistence::Close,
        (true, 0) => Persistence::KeepAlive,
        (true, _) => Persistence::Implied,
    }
}

/// The methods that documents have.
const ALLOW: &str = "Allow: GET, HEAD, OPTIONS\r\n";

/// The page of a status; those of 200, 206 and 304 are never sent.
fn page(status: Status) -> Document {
    let fields = match status {
        Status::MethodNotAllowed => ALLOW, // RFC 9110 §15.5.6
        _ => "",
    };
    Document::page(fields, &page_text(status))
}

fn redirect(location: &str) -> Document {
    let fields = format!("Location: {location}\r\n");
    Document::page(&fields, &page_text(Status::MovedPermanently))
}

/// The page of a 416, which says how long the document is (RFC 9110 §14.4).
fn unsatisfiable(len: usize) -> Document {
    let fields = format!("Content-Range: bytes */{len}\r\n");
    Document::page(&fields, &page_text(Status::RangeNotSatisfiable))
}

fn page_text(status: Status) -> String {
    let (code, reason, explanation) = (status.code(), status.reason(), status.explanation());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<title>{code} {reason}</title>\n\
         <h1>{code} {reason}</h1>\n<p>{explanation}</p>\n</html>\n"
    )
}

impl Counters {
    /// Responses with a status.
    pub fn responses(&self, status: Status) -> u64 {
        self.responses[status as usize]
    }

    /// Requests refused for a fault.
    pub fn faults(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }

    /// Responses of any status.
    pub fn response_count(&self) -> u64 {
        self.responses.iter().sum()
    }

    /// All counters with their names.
    pub fn list(&self) -> Vec<(&'static str, u64)> {
        let responses = Status::ALL.map(|status| (status.counter(), self.responses(status)));
        let faults = Fault::ALL.map(|fault| (fault.counter(), self.faults(fault)));
        let bytes = ("http_response_bytes", self.response_bytes);
        responses.into_iter().chain(faults).chain([bytes]).collect()
    }
}
