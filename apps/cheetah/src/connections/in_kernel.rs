//! Requests answered in the kernel (`exos::requests`): which there are, that what they are answered with is what the server would
//! answer now, and that they are counted and logged as its own.
//!
//! A request that came whole is answered by the server, and then rendered once more for the kernel. All are rendered again
//! when the second or anything that is served has changed: so dates, validators and documents are those of the server. For another second
//! that is done over several turns; what has changed is in all of them before the server sends any of it.
//!
//! Of several cores each renders what it was asked for, while it has heard of the same changes as the interface's first one, which renders
//! all again, counts, and logs what the kernel reports. What the kernel had sent on a connection that goes up is logged by the core that
//! gets it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exos::clock;
use exos::requests::{Named, Requests, Response, reduce};
use exos_inet::Instant;

use super::sent::{Sent, SentByKernel};
use crate::http::Server;
use crate::log::{self, Line, Log};

/// Requests of a turn that are looked at.
const TURN_MAX: usize = 16;
/// Requests of a turn that are rendered again for another date: some hundred microseconds.
const RENEWED_MAX: usize = 64;
/// Reports of a turn that are written.
const REPORTS_MAX: usize = 256;

/// What the cores of an interface have together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    /// What the first core has heard of, where all is rendered with that.
    changes: u64,
    lines: Lines,
}

/// Which requests the kernel is to answer.
#[derive(Debug)]
pub(crate) struct InKernel {
    common: Common,
    /// This is the first core.
    leads: bool,
    /// The longest request that the kernel answers.
    request_max: usize,
    /// Whole requests that clients have sent in this turn.
    asked: Vec<Box<[u8]>>,
    /// To be rendered again.
    due: Vec<Box<[u8]>>,
    /// There may be more reports than were written.
    has_reports: bool,
    secs: u64,
    changes: u64,
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

impl Common {
    /// Nothing is left half done by the one that panics with it.
    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InKernel {
    /// On a core.
    pub(crate) fn new(common: Common, requests: &Requests) -> Self {
        Self {
            common,
            leads: requests.core() == 0,
            request_max: requests.request_max(),
            asked: Vec::new(),
            due: Vec::new(),
            has_reports: false,
            secs: 0,
            changes: 0,
        }
    }

    /// A client's bytes were one whole request, that a short document answers.
    pub(crate) fn note(&mut self, request: &[u8]) {
        let is_short = request.len() <= self.request_max;
        if is_short && self.asked.len() < TURN_MAX {
            self.asked.push(request.into());
        }
    }

    /// Hears of responses whose connections have come to the stack.
    pub(super) fn hear_of_sent(
        &mut self,
        log: Option<&Log>,
        requests: &mut Requests,
        all: &mut SentByKernel,
    ) {
        while let Some(sent) = requests.poll_sent() {
            let noted = self.common.lock();
            let line = |named: &Named| {
                let line = noted.lines.of(named.note)?;
                Some(log?.line_like(line, &named.logged))
            };
            let logged = sent.reported.as_ref();
            let sent_here = Sent {
                len: sent.len as u64,
                logged: logged.map(|(named, begun)| (line(named), *begun)),
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
        self.write(now, unix_secs, server, requests);
        let (is_another_second, changes) = (self.secs != unix_secs, server.changes());
        let has_changed = self.changes != changes;
        // What another second has left is not left again.
        let is_late = is_another_second && !self.due.is_empty();
        if self.leads && (is_another_second || has_changed) {
            // What other cores render from now on is of the same, and what they have rendered is among these.
            self.common.lock().changes = changes;
            self.due = requests.all();
        }
        let most = if has_changed || is_late {
            usize::MAX
        } else {
            RENEWED_MAX
        };
        for request in self.due.drain(self.due.len().saturating_sub(most)..) {
            let mut noted = self.common.lock();
            // Not one that has gone meanwhile: it would never be idle for long.
            if requests.is_answered(&request) {
                renew(now, server, requests, &request, &mut noted);
            }
        }
        if self.leads && is_another_second {
            count(server, requests);
            self.common.lock().lines.forget_old(now);
        }
        (self.secs, self.changes) = (unix_secs, changes);
        self.answer_asked(now, server, requests);
        is_another_second
    }

    /// Whether the next turn has something to do already.
    pub(super) fn is_behind(&self) -> bool {
        self.has_reports || !self.due.is_empty()
    }

    fn answer_asked(&mut self, now: Instant, server: &mut Server, requests: &mut Requests) {
        for request in std::mem::take(&mut self.asked) {
            // So that those are answered, too, which differ in what no answer depends on.
            let reduced = reduce(&request).map(|reduced| reduced.request);
            let reduced = reduced.filter(|reduced| **reduced != *request);
            self.answer(now, server, requests, &request);
            reduced.inspect(|reduced| self.answer(now, server, requests, reduced));
        }
    }

    fn answer(&self, now: Instant, server: &mut Server, requests: &mut Requests, request: &[u8]) {
        let mut noted = self.common.lock();
        if !requests.has_place_for(now, request) {
            return requests.make_room_for(now, request);
        }
        if noted.changes == server.changes() {
            renew(now, server, requests, request, &mut noted);
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
        self.write(now, unix_secs, server, requests);
        while self.has_reports {
            self.write(now, unix_secs, server, requests);
        }
    }

    /// Writes the lines of some of the answers whose end was reported to this core.
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
        let (mut written, mut today) = (0, None);
        while written < REPORTS_MAX
            && let Some(report) = requests.poll_report()
        {
            written += 1;
            let today = *today.get_or_insert_with(clock::unix_time);
            let told = log::Told {
                peer: report.peer,
                logged: &report.named.logged,
                unix_secs: today.saturating_sub(now - report.ended).as_secs(),
                time: report.ended - report.begun,
                is_taken: report.is_taken,
            };
            // For each, so that other cores do not wait for all.
            let noted = self.common.lock();
            log.answered_by_others(noted.lines.of(report.named.note), &told);
        }
        self.has_reports = written == REPORTS_MAX;
        if written > 0 {
            log.set_time(now, unix_secs);
        }
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
        let prepared = Prepared { line, at: now };
        self.of_notes.insert(self.last, prepared);
        self.notes.insert(request.into(), self.last);
        self.last
    }

    /// The line that was noted so.
    fn of(&self, note: u32) -> Option<&Line> {
        self.of_notes.get(&note).map(|prepared| &prepared.line)
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

/// Has the kernel answer a request as the server would now.
fn renew(
    now: Instant,
    server: &mut Server,
    requests: &mut Requests,
    request: &[u8],
    noted: &mut Noted,
) {
    match server.render(request, Requests::RESPONSE_MAX) {
        Some(rendered) => {
            let note = noted.lines.note(now, request, rendered.line);
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

/// Counts what the kernel has answered as the server's own.
fn count(server: &mut Server, requests: &mut Requests) {
    for answered in requests.answered() {
        server.count_rendered(&answered.response, answered.count);
    }
}
