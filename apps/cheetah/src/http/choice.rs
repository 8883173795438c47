//! What a request leads to: a document, a page, a refusal, or waiting.

use super::attempt::Attempt;
use crate::limits::BODY_SKIP_LEN_MAX;
use crate::message::Version;
use crate::message::accept::Accepted;
use crate::message::request::{Body, Method, Request};
use crate::message::target::{Target, encode};
use crate::message::{Fault, Status};
use crate::site::{Document, Entry, SitePath, Sites, page};

pub(super) enum Choice<'a> {
    Send(&'a Document),
    Page(Status, Document),
    /// Say which methods there are.
    Allow,
    Refuse(Status),
    /// Answer when the document has been read.
    Wait(SitePath),
}

/// What a request for a site, if one is named so, leads to.
#[inline]
pub(super) fn choose<'s>(
    sites: &'s Sites,
    request: &Request,
    target: &Result<Target, Fault>,
    site: Option<usize>,
    attempt: &Attempt,
) -> Result<Choice<'s>, Fault> {
    check(request)?;
    let asks_what = request.method == Method::Options;
    if asks_what && request.target == b"*" {
        return Ok(Choice::Allow);
    }
    let Target { path, query, .. } = target.as_ref().map_err(|&fault| fault)?;
    let Some(site) = site else {
        return Ok(Choice::Refuse(Status::MisdirectedRequest));
    };
    let (number, site) = (site, sites.get(site));
    let scripts = &site.settings().applications;
    Ok(match site.find(path) {
        // Applications were looked for before; what none of them runs is nobody's to read.
        Some(Entry::Document(_) | Entry::Listed(..)) if scripts.is_script(path) => {
            Choice::Refuse(Status::Forbidden)
        }
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

/// What refuses a request whatever its target.
#[inline]
fn check(request: &Request) -> Result<(), Fault> {
    match request.method {
        Method::Get | Method::Head | Method::Options => {}
        Method::NotOffered => return Err(Fault::MethodNotAllowed),
        Method::Unknown => return Err(Fault::MethodUnknown),
    }
    match request.body {
        // A body of HTTP/2 has its end without a length.
        Body::Chunked if request.version == Version::Http2 => {}
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
