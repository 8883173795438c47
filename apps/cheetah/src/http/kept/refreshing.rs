//! What is kept and has become stale is asked for again while its clients are given it (RFC 5861 §3): by a request of the server's own,
//! for which nobody waits.
//!
//! It says what the request says that has found it stale, with the validators of what is kept in the place of its client's.

use std::rc::Rc;

use crate::applications::Asked;
use crate::applications::head::push_field;
use crate::caching::fetch::{Begin, Fetch};
use crate::caching::record::Answer;
use crate::caching::reuse::Why;
use crate::http::asking::Asking;
use crate::http::exchange::Exchange;
use crate::http::server::Server;
use crate::message::request::{Method, Request};

use super::{Consulting, Use};

impl Server {
    /// Has what a request has found stale be asked for again. False where that cannot be: the request is to ask itself.
    pub(super) fn begin_refresh(
        &mut self,
        consulting: &Consulting<'_>,
        exchange: &Exchange<'_, '_, '_>,
        (site, path, asked): (usize, &[u8], &Asked),
        stale: &Rc<Answer>,
    ) -> bool {
        let request = exchange.request;
        let is_fit = request.method == Method::Get
            && !consulting.is_partial
            && !consulting.has_authorization
            && !consulting.directives.no_store;
        if !is_fit {
            return false;
        }
        let peer = exchange.attempt.peer;
        let Some(ticket) = self.answers.begin_refresh(stale, site, peer) else {
            return false;
        };
        let begin = Begin {
            rules: consulting.rules.clone(),
            why: Why::Stale,
            directives: consulting.directives.clone(),
            has_authorization: false,
            stale: Some(stale.clone()),
            is_trusted: consulting.is_trusted,
            leaves_validators_out: consulting.is_conditional,
            now_secs: self.sender.now_secs(),
        };
        let fields = self.sites.get_mut(site).rule_fields(path);
        let mut asking = Asking::for_nobody(asked.clone(), exchange, site, fields);
        asking.head = head_of(request);
        asking.keeps = Use::Fetch(Box::new(Fetch::new(ticket, begin)));
        self.answers.counters.refreshes += 1;
        self.refreshes.push_back(Box::new(asking));
        true
    }

    /// The next request that is to be asked for nobody.
    pub(crate) fn poll_refresh(&mut self) -> Option<Box<Asking>> {
        self.refreshes.pop_front()
    }

    /// There is one.
    pub(crate) fn has_refreshes(&self) -> bool {
        !self.refreshes.is_empty()
    }
}

/// A request's head, as it would have come over HTTP/1.1.
fn head_of(request: &Request<'_, '_>) -> Box<[u8]> {
    let mut head = Vec::with_capacity(512);
    head.extend_from_slice(request.method_name.as_bytes());
    head.push(b' ');
    head.extend_from_slice(request.target);
    head.extend_from_slice(b" HTTP/1.1\r\n");
    for field in request.fields {
        push_field(&mut head, field.name, field.value);
    }
    head.extend_from_slice(b"\r\n");
    head.into()
}
