//! Requests answered in the kernel (`exos::requests`): which there are, that what they are answered with is what the server would
//! answer now, and that they are counted and logged as its own.
//!
//! A request that came whole is answered by the server, and then rendered once more for the kernel. All are rendered again
//! when the second or anything that is served has changed: so dates, validators and documents are those of the server.

use std::collections::HashMap;

use exos::clock;
use exos::requests::{Requests, Response};
use exos_inet::Instant;

use super::sent::{Sent, SentByKernel};
use crate::http::Server;
use crate::log::{Line, Told};

/// Requests of a turn that are looked at.
const TURN_MAX: usize = 16;

/// Which requests the kernel is to answer.
#[derive(Debug, Default)]
pub(crate) struct InKernel {
    /// Whole requests that clients have sent in this turn.
    asked: Vec<Box<[u8]>>,
    secs: u64,
    changes: u64,
    lines: Lines,
}

/// What the log says of answers.
#[derive(Debug, Default)]
struct Lines {
    /// By the notes of responses, which count up.
    of_notes: HashMap<u32, Prepared>,
    /// The note of what a request was last answered with.
    notes: HashMap<Box<[u8]>, u32>,
    last: u32,
    /// The last turn of a second.
    turned: Instant,
}

#[derive(Debug)]
struct Prepared {
    line: Line,
    /// When it was last rendered.
    at: Instant,
}

impl InKernel {
    /// A client's bytes were one whole request, that a short document answers.
    pub(crate) fn note(&mut self, request: &[u8]) {
        let is_short = request.len() <= Requests::REQUEST_MAX;
        if is_short && self.asked.len() < TURN_MAX {
            self.asked.push(request.into());
        }
    }

    /// Hears of responses whose connections have come to the stack.
    pub(super) fn hear_of_sent(&mut self, requests: &mut Requests, all: &mut SentByKernel) {
        while let Some(sent) = requests.poll_sent() {
            let prepared = self.lines.of_notes.get(&sent.note);
            let line = prepared.map(|prepared| prepared.line.clone());
            let sent_here = Sent {
                len: sent.len as u64,
                logged: sent.begun.map(|begun| (line, begun)),
                closes: sent.closes,
            };
            all.insert(sent.connection, sent_here);
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
        self.lines.write(now, unix_secs, server, requests);
        let is_another_second = self.secs != unix_secs;
        let changes = server.changes();
        if is_another_second || self.changes != changes {
            (self.secs, self.changes) = (unix_secs, changes);
            for request in requests.all() {
                self.renew(now, server, requests, &request);
            }
        }
        if is_another_second {
            count(server, requests);
            self.lines.forget_old(now);
        }
        for request in std::mem::take(&mut self.asked) {
            if requests.has_place_for(now, &request) {
                self.renew(now, server, requests, &request);
            }
        }
        is_another_second
    }

    fn renew(
        &mut self,
        now: Instant,
        server: &mut Server,
        requests: &mut Requests,
        request: &[u8],
    ) {
        match server.render(request, Requests::RESPONSE_MAX) {
            Some(rendered) => {
                let note = self.lines.note(now, request, rendered.line);
                let response = Response {
                    bytes: &rendered.bytes,
                    closes: rendered.closes,
                    note,
                };
                requests.put(now, request, response);
            }
            None => requests.forget(now, request),
        }
    }

    /// The kernel answers no more: what it did is counted and logged.
    pub(crate) fn end(
        &mut self,
        now: Instant,
        unix_secs: u64,
        server: &mut Server,
        requests: &mut Requests,
    ) {
        count(server, requests);
        self.lines.write(now, unix_secs, server, requests);
    }
}

impl Lines {
    /// The note of a response with this line.
    fn note(&mut self, now: Instant, request: &[u8], line: Option<Line>) -> u32 {
        let Some(line) = line else {
            return 0;
        };
        let before = self.notes.get(request).copied();
        let known = before.and_then(|note| self.of_notes.get_mut(&note));
        if let (Some(note), Some(known)) = (before, known)
            && known.line == line
        {
            known.at = now;
            return note;
        }
        self.last = self.last.wrapping_add(1);
        self.of_notes.insert(self.last, Prepared { line, at: now });
        self.notes.insert(request.into(), self.last);
        self.last
    }

    /// Writes those of answers whose end the kernel has reported.
    fn write(
        &mut self,
        now: Instant,
        unix_secs: u64,
        server: &mut Server,
        requests: &mut Requests,
    ) {
        let Some(log) = server.log_mut() else {
            return;
        };
        let Some(mut report) = requests.poll_report() else {
            return;
        };
        let today = clock::unix_time();
        loop {
            let told = Told {
                peer: report.peer,
                unix_secs: today.saturating_sub(now - report.ended).as_secs(),
                time: report.ended - report.begun,
                is_taken: report.is_taken,
            };
            let prepared = self.of_notes.get(&report.note);
            log.answered_by_others(prepared.map(|prepared| &prepared.line), &told);
            let Some(next) = requests.poll_report() else {
                break;
            };
            report = next;
        }
        log.set_time(now, unix_secs);
    }

    /// Forgets, a second later, what nothing is reported of any more.
    fn forget_old(&mut self, now: Instant) {
        let since = std::mem::replace(&mut self.turned, now);
        self.of_notes
            .retain(|_, prepared| since - prepared.at < Requests::REPORTED_TIME);
        self.notes
            .retain(|_, note| self.of_notes.contains_key(note));
    }
}

/// Counts what the kernel has answered as the server's own.
fn count(server: &mut Server, requests: &mut Requests) {
    for answered in requests.answered() {
        server.count_rendered(&answered.response, answered.count);
    }
}
