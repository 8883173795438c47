//! Requests answered in the kernel (`exos::requests`): which there are, and that what they are answered with is what the server would
//! answer now.
//!
//! A request that came whole is answered by the server, and then rendered once more for the kernel. All are rendered again
//! when the second or anything that is served has changed: so dates, validators and documents are those of the server.

use exos::requests::Requests;
use exos_inet::Instant;

use crate::http::Server;

/// Requests of a turn that are looked at.
const TURN_MAX: usize = 16;

/// Which requests the kernel is to answer.
#[derive(Debug, Default)]
pub(crate) struct InKernel {
    /// Whole requests that clients have sent in this turn.
    asked: Vec<Box<[u8]>>,
    secs: u64,
    changes: u64,
}

impl InKernel {
    /// A client's bytes were one whole request, that a short document answers.
    pub(crate) fn note(&mut self, request: &[u8]) {
        let is_short = request.len() <= Requests::REQUEST_MAX;
        if is_short && self.asked.len() < TURN_MAX {
            self.asked.push(request.into());
        }
    }

    /// Has the kernel's answers be the server's. True when a second has gone by since.
    pub(crate) fn turn(
        &mut self,
        now: Instant,
        unix_secs: u64,
        server: &mut Server,
        requests: &mut Requests,
    ) -> bool {
        let is_another_second = self.secs != unix_secs;
        let changes = server.changes();
        if is_another_second || self.changes != changes {
            (self.secs, self.changes) = (unix_secs, changes);
            for request in requests.all() {
                renew(now, server, requests, &request);
            }
        }
        if is_another_second {
            count(server, requests);
        }
        for request in std::mem::take(&mut self.asked) {
            if requests.has_place_for(now, &request) {
                renew(now, server, requests, &request);
            }
        }
        is_another_second
    }
}

fn renew(now: Instant, server: &mut Server, requests: &mut Requests, request: &[u8]) {
    match server.render(request, Requests::RESPONSE_MAX) {
        Some(rendered) => requests.put(now, request, &rendered.bytes, rendered.closes),
        None => requests.forget(now, request),
    }
}

/// Counts what the kernel has answered as the server's own.
pub(crate) fn count(server: &mut Server, requests: &mut Requests) {
    for answered in requests.answered() {
        server.count_rendered(&answered.response, answered.count);
    }
}
