//! A request on its way to the answer, and how its connection goes on behind that.

use exos_buf::Slice;

use super::attempt::Attempt;
use super::response::opening::{Manner, Persistence};
use crate::limits::BODY_SKIP_LEN_MAX;
use crate::message::request::{Body, Method, Request};
use crate::site::Document;

/// How the connection goes on after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// Another request may follow, after `skip` bytes of body.
    pub(super) persistent: bool,
    pub(super) skip: u64,
    /// The rules of access let everybody have it.
    pub(super) is_for_all: bool,
}

/// Whether the connection goes on after a request, and how much of a body comes first.
#[inline]
pub(super) fn what_follows(request: &Request) -> Answered {
    match request.body {
        Body::Length(0) => Answered {
            persistent: request.persistent,
            skip: 0,
            is_for_all: true,
        },
        // A client that waits for leave to send may or may not send after the final answer.
        Body::Length(skip) if skip <= BODY_SKIP_LEN_MAX => Answered {
            persistent: request.persistent && !request.expects_continue,
            skip,
            is_for_all: true,
        },
        Body::Length(_) | Body::Chunked | Body::UnknownCoding => Answered {
            persistent: false,
            skip: 0,
            is_for_all: true,
        },
    }
}

/// Where a request leads.
#[derive(Clone, Copy)]
pub(super) struct Resource<'a> {
    /// The site that answers.
    pub(super) site: usize,
    /// The path, if its rules count.
    pub(super) path: Option<&'a [u8]>,
}

/// A request on its way to the answer.
pub(super) struct Exchange<'a, 'b, 'f> {
    pub(super) request: &'a Request<'b, 'f>,
    pub(super) answered: Answered,
    pub(super) resource: Resource<'a>,
    pub(super) attempt: &'a Attempt<'a>,
    /// Whose password let it in, where the rules of access want one.
    pub(super) user: Option<Box<[u8]>>,
}

impl Exchange<'_, '_, '_> {
    #[inline]
    pub(super) fn manner(&self) -> Manner {
        Manner {
            persistence: Persistence::of(self.request.version, self.answered.persistent),
            is_encrypted: self.attempt.is_encrypted,
        }
    }

    /// What HEAD is answered with.
    #[inline]
    pub(super) fn without_body(&self, document: &Document) -> Option<Slice> {
        (self.request.method == Method::Head).then(|| document.fields())
    }
}
