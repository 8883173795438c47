//! What becomes of a request for a document: preconditions first, then parts (RFC 9110 §13.2.2).

use std::ops::Range;

use super::conditional;
use super::range::{self, Parts};
use crate::message::Status;
use crate::message::request::{Method, Request};
use crate::site::Document;

/// What a request for a document is answered with, all its fields considered.
pub(crate) enum Decision {
    NotModified,
    PreconditionFailed,
    RangeNotSatisfiable,
    Whole,
    Parts(Vec<Range<u64>>),
}

/// Decides about a document at a time in seconds since 1970.
pub(crate) fn decide(document: &Document, request: &Request, now_secs: u64) -> Decision {
    if !request.conditional {
        return Decision::Whole;
    }
    match conditional::evaluate(request, document) {
        Status::NotModified => Decision::NotModified,
        Status::PreconditionFailed => Decision::PreconditionFailed,
        _ => match parts(document, request, now_secs) {
            Parts::Ignored => Decision::Whole,
            Parts::Unsatisfiable => Decision::RangeNotSatisfiable,
            Parts::Some(parts) => Decision::Parts(parts),
        },
    }
}

/// The parts that a request asks for; only GET has any (§14.2).
fn parts(document: &Document, request: &Request, now_secs: u64) -> Parts {
    match conditional::range(request) {
        Some(value)
            if request.method == Method::Get
                && conditional::range_applies(request, document, now_secs) =>
        {
            let parts = range::parse(value, document.content_len());
            parts.of_one_body(document.is_coded())
        }
        _ => Parts::Ignored,
    }
}
