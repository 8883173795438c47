//! Checks made by a stack: connections of its own to the servers.
//!
//! They come from ports that no flow gets ([`CHECK_PORTS`]), one after the other. A connection is given up as soon as enough was
//! heard, so that nothing is left of it on either side.

use std::collections::HashMap;
use std::net::SocketAddr;

use exos_buf::Buffer;
use exos_inet::tcp::{ConnectionId, Event, EventSet, Options, Reason};
use exos_inet::{Instant, Stack};

use super::checks::{Checks, Target};
use super::question::{Answer, Failure};
use super::rule::{Kind, Rule};
use crate::limits::{CHECK_BUFFER_LEN, CHECK_PORTS};

/// How a check has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Of which server.
    pub server: u16,
    /// Whether it has passed.
    pub result: Result<(), Failure>,
    /// What it is taken for from now on, if that is another than before.
    pub is_well: Option<bool>,
}

/// A check that is under way.
struct Probe {
    /// A number that no other has, and in its last 16 bits the server's place.
    token: u64,
    connection: ConnectionId,
    end: SocketAddr,
    answer: Answer,
}

/// Has the checks made.
pub struct Prober {
    checks: Checks,
    /// By the server's place.
    under_way: HashMap<u16, Probe>,
    tokens: u64,
    outcomes: Vec<Outcome>,
}

impl Prober {
    /// Checks by this rule, of nobody yet.
    pub fn new(rule: Rule) -> Self {
        Self {
            checks: Checks::new(rule),
            under_way: HashMap::new(),
            tokens: 0,
            outcomes: Vec::new(),
        }
    }

    /// Checks these servers from now on.
    pub fn set_targets(&mut self, now: Instant, stack: &mut Stack, targets: &[Target]) {
        self.checks.set_targets(now, targets);
        let targets: HashMap<u16, SocketAddr> = targets.iter().map(|t| (t.server, t.end)).collect();
        self.under_way.retain(|server, probe| {
            let stays = targets.get(server) == Some(&probe.end);
            if !stays {
                stack.tcp.abort(probe.connection);
            }
            stays
        });
    }

    /// How servers are checked.
    pub fn rule(&self) -> &Rule {
        self.checks.rule()
    }

    /// Takes up what the stack has heard, and begins what is due.
    pub fn turn(&mut self, now: Instant, stack: &mut Stack) {
        while let Some(event) = stack.poll_event() {
            self.handle_event(stack, event);
        }
        while let Some(server) = self.checks.poll_late(now) {
            self.end(stack, server, Err(Failure::Silent));
        }
        while let Some(target) = self.checks.poll_begin(now) {
            self.begin(now, stack, &target);
        }
    }

    /// How a check has ended.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop()
    }

    /// When to call [`turn`](Self::turn) next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.checks.poll_timeout()
    }

    fn begin(&mut self, now: Instant, stack: &mut Stack, target: &Target) {
        self.tokens += 1;
        let ports = CHECK_PORTS.len() as u64;
        let port = CHECK_PORTS.start + (self.tokens % ports) as u16;
        let source = SocketAddr::new(target.ours, port);
        let options = Options::with_receive_buffer(CHECK_BUFFER_LEN);
        let Ok(connection) = stack.tcp.connect(now, Some(source), target.end, &options) else {
            self.end(stack, target.server, Err(Failure::Unreachable));
            return;
        };
        let token = self.tokens << 16 | u64::from(target.server);
        stack.tcp.set_token(connection, token);
        let probe = Probe {
            token,
            connection,
            end: target.end,
            answer: Answer::default(),
        };
        self.under_way.insert(target.server, probe);
    }

    fn handle_event(&mut self, stack: &mut Stack, event: Event) {
        let server = event.token as u16;
        let probe = self.under_way.get_mut(&server);
        let Some(probe) = probe.filter(|probe| probe.token == event.token) else {
            return;
        };
        let is_over = event.set.contains(EventSet::CLOSED);
        let is_whole = is_over || event.set.contains(EventSet::FINISHED);
        let result = match &self.checks.rule().kind {
            Kind::Tcp if event.set.contains(EventSet::CONNECTED) => Some(Ok(())),
            Kind::Tcp => None,
            Kind::Http(question) => {
                if event.set.contains(EventSet::CONNECTED) {
                    let text = question.text(probe.end).into_bytes();
                    stack.tcp.send(probe.connection, Buffer::from(text).whole());
                }
                let readable = stack.tcp.readable(probe.connection);
                probe.answer.extend(readable);
                let count = readable.len();
                stack.tcp.consume(probe.connection, count);
                let has_come = is_whole || count > 0;
                has_come
                    .then(|| question.judge(&mut probe.answer, is_whole))
                    .flatten()
            }
        };
        // A reset tells more than that nothing was said.
        let failure = failure_of(event.reason);
        match result {
            Some(Err(Failure::CutOff)) | None if is_over => self.end(stack, server, Err(failure)),
            Some(result) => self.end(stack, server, result),
            None => {}
        }
    }

    /// A check is over, also one that could not begin.
    fn end(&mut self, stack: &mut Stack, server: u16, result: Result<(), Failure>) {
        if let Some(probe) = self.under_way.remove(&server) {
            stack.tcp.abort(probe.connection);
        }
        let is_well = self.checks.ended(server, result.is_ok());
        self.outcomes.push(Outcome {
            server,
            result,
            is_well,
        });
    }
}

fn failure_of(reason: Reason) -> Failure {
    match reason {
        Reason::Refused => Failure::Refused,
        Reason::TimedOut => Failure::Silent,
        Reason::Unreachable => Failure::Unreachable,
        Reason::Done | Reason::Reset | Reason::Aborted => Failure::CutOff,
    }
}
