//! What a request leads to: a document, a page, a refusal, or waiting.

use super::Server;
use crate::http::accept::Accepted;
use crate::http::missing::Attempt;
use crate::http::request::{Body, Method, Request};
use crate::http::target::{Target, encode};
use crate::http::{Fault, Status, page};
use crate::limits::BODY_SKIP_LEN_MAX;
use crate::site::{Document, Entry, SitePath};

pub(super) enum Choice<'a> {
    Send(&'a Document),
    Page(Status, Document),
    /// Say which methods there are.
    Allow,
    Refuse(Status),
    /// Answer when the document has been read.
    Wait(SitePath),
}

impl Server {
    #[inline]
    pub(super) fn choose(
        &self,
        request: &Request,
        target: &Result<Target, Fault>,
        site: Option<usize>,
        attempt: Attempt,
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
            Some(Entry::Listed(path, _)) if attempt.has_failed(number, path) => {
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
    pub(super) fn other(&self, choice: Choice, site: usize) -> (Status, Document) {
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

    /// Where no site has anything, there may be a status page.
    pub(super) fn status_page(
        &mut self,
        path: Option<&[u8]>,
        request: &Request,
    ) -> Option<Document> {
        let peer = self.peer;
        let page = self.status_pages.as_mut()?.find(path?, peer)?;
        Some(match request.method {
            Method::Options => self.allowed.clone(),
            _ => page.clone(),
        })
    }

    /// A page, or the refusal where there is none.
    pub(super) fn or_refuse(
        &self,
        page: Option<Document>,
        status: Status,
        site: usize,
    ) -> (Status, Document) {
        match page {
            Some(page) => (Status::Ok, page),
            None => (status, self.page(status, site)),
        }
    }
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
