//! A request that goes to an upstream, and whose answer may be kept: what it asks with, and what is gathered of the answer.
//!
//! ```text
//!   asked ──304, of what is kept──> its fields are renewed, and it is sent
//!     ├─────5xx, or none at all───> what is kept is sent, if it will do for that
//!     ├─────an answer to be kept──> gathered beside its client ──whole──> kept
//!     └─────any other─────────────> passed on; those who wait for it go to the upstream themselves
//! ```

use std::rc::Rc;
use std::sync::Arc;

use exos_inet::Instant;

use super::answers::{Answers, Ticket};
use super::directives::Directives;
use super::keeping::Errand;
use super::key::{name, push_values};
use super::record::{Answer, Record, lines, name_of};
use super::reuse::{Why, will_do_for_error};
use super::rules::CacheRules;
use super::said::Said;
use super::storing::{Asked, Made, Unkept, age_at_arrival, terms};
use crate::applications::head::Head;
use crate::limits::ANSWER_LINES_LEN_MAX;
use crate::message::request::Request;

/// A request on its way to an upstream.
#[derive(Debug)]
pub struct Fetch {
    ticket: Ticket,
    rules: Arc<CacheRules>,
    why: Why,
    asked: Asked,
    directives: Directives,
    /// What is kept, and would do if an upstream says that it holds.
    stale: Option<Rc<Answer>>,
    /// The validators in the request are ours, and its client's were left out.
    asks_by_ours: bool,
    begun_secs: u64,
    gathering: Option<Box<Gathering>>,
    /// Others hear by themselves what became of it.
    is_told: bool,
    /// What Cache-Status says of its answer.
    outcome: Outcome,
}

/// What became of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Unknown,
    Kept,
    Unkept(Unkept),
}

/// An answer on its way to be kept.
#[derive(Debug)]
struct Gathering {
    record: Record,
    content: Vec<u8>,
    /// What its head says that there will be.
    length: Option<u64>,
}

/// How what was found out about a request begins its way to an upstream.
#[derive(Debug)]
pub struct Begin {
    /// The rule.
    pub rules: Arc<CacheRules>,
    /// Why it goes there.
    pub why: Why,
    /// What its Cache-Control says.
    pub directives: Directives,
    /// It has a credential.
    pub has_authorization: bool,
    /// What is kept for it.
    pub stale: Option<Rc<Answer>>,
    /// Its client has validators of its own.
    pub is_conditional: bool,
    /// The present time.
    pub now_secs: u64,
}

/// What an answer that has begun means for what is kept.
#[derive(Debug)]
pub enum Heard {
    /// It goes to its client.
    PassOn,
    /// This goes to its client instead.
    Use(Rc<Answer>),
}

impl Fetch {
    /// A request begins.
    pub fn new(ticket: Ticket, begin: Begin) -> Fetch {
        let Begin {
            rules,
            why,
            directives,
            has_authorization,
            stale,
            is_conditional,
            now_secs,
        } = begin;
        let can_ask = |answer: &Rc<Answer>| answer.record.said.has_validator();
        Fetch {
            asks_by_ours: is_conditional || stale.as_ref().is_some_and(can_ask),
            ticket,
            rules,
            why,
            asked: Asked {
                no_store: directives.no_store,
                has_authorization,
            },
            directives,
            stale,
            begun_secs: now_secs,
            gathering: None,
            is_told: false,
            outcome: Outcome::Unknown,
        }
    }

    /// The validators that its request has: of what is kept. Those of its client are left out where there is any result: without any the
    /// whole is asked for, which then is there for others too.
    pub fn validators(&self) -> Option<Validators<'_>> {
        let said = self.stale.as_ref().map(|stale| &stale.record.said);
        self.asks_by_ours.then(|| Validators {
            tag: said.and_then(|it| it.tag.as_deref()),
            modified: said.and_then(|it| Some(&*it.modified.as_ref()?.0)),
        })
    }

    /// The head of an answer has come to this request.
    pub fn hear(
        &mut self,
        head: &Head,
        request: &Request<'_, '_>,
        answers: &mut Answers,
        now: Instant,
        now_secs: u64,
    ) -> Heard {
        let Some(said) = &head.said else {
            return Heard::PassOn;
        };
        if head.code == 304
            && let Some(stale) = self.stale.take()
        {
            answers.counters.revalidated += 1;
            return Heard::Use(self.renew(&stale, head, said, answers, now_secs));
        }
        if matches!(head.code, 500 | 502..=504)
            && let Some(stale) = self.take_for_error(now_secs)
        {
            answers.counters.stale += 1;
            return Heard::Use(stale);
        }
        answers.counters.misses += 1;
        match self.record(head, said, request, now_secs) {
            Ok(record) => {
                self.gathering = Some(Box::new(Gathering {
                    record,
                    content: Vec::new(),
                    length: head.length,
                }));
                self.outcome = Outcome::Kept;
            }
            Err(why) => self.give_up(why, answers, now),
        }
        Heard::PassOn
    }

    /// Whether what is kept will do where no upstream has given an answer; it is taken then.
    pub fn take_for_error(&mut self, now_secs: u64) -> Option<Rc<Answer>> {
        let stale = self.stale.take()?;
        let record = &stale.record;
        let will_do = will_do_for_error(&record.terms, record.age(now_secs), &self.directives);
        will_do.then_some(stale)
    }

    /// An upstream has said that what is kept still holds.
    fn renew(
        &self,
        stale: &Rc<Answer>,
        head: &Head,
        said: &Said,
        answers: &mut Answers,
        now_secs: u64,
    ) -> Rc<Answer> {
        let record = &stale.record;
        let age = age_at_arrival(said, self.begun_secs, now_secs);
        let date_secs = said.date.unwrap_or(now_secs);
        let lines = kept_lines(&head.fields);
        let is_short = lines.len() <= ANSWER_LINES_LEN_MAX;
        // What it says together with what was said before.
        let renewed = record.renewed(said, &lines, age, now_secs);
        let made = Made { date_secs, age };
        let kept = terms(self.asked, record.code, &renewed.said, made, &self.rules);
        let Some(terms) = kept.ok().filter(|_| is_short) else {
            answers.forget(self.ticket.wanted.0, record.key.clone());
            return stale.clone();
        };
        let renewed = Record { terms, ..renewed };
        let errand = Errand::Renew {
            site: self.ticket.wanted.0,
            record: Box::new(renewed.clone()),
        };
        answers.send(&self.ticket, errand);
        Rc::new(Answer::new(Arc::new(renewed)))
    }

    /// What is kept of an answer, but for its content.
    fn record(
        &self,
        head: &Head,
        said: &Said,
        request: &Request<'_, '_>,
        now_secs: u64,
    ) -> Result<Record, Unkept> {
        let date_secs = said.date.unwrap_or(now_secs);
        let age = age_at_arrival(said, self.begun_secs, now_secs);
        let made = Made { date_secs, age };
        let terms = terms(self.asked, head.code, said, made, &self.rules)?;
        let names = said.vary.names().ok_or(Unkept::Vary)?;
        let mut values = Vec::new();
        if !push_values(&mut values, names, request.fields) {
            return Err(Unkept::Vary);
        }
        if head
            .length
            .is_some_and(|length| length > self.rules.answer_len_max)
        {
            return Err(Unkept::Length);
        }
        let lines = kept_lines(&head.fields);
        if lines.len() > ANSWER_LINES_LEN_MAX {
            return Err(Unkept::Length);
        }
        let key = &self.ticket.wanted.1;
        Ok(Record {
            key: key.clone(),
            name: name(key, &values),
            names: names.into(),
            values: values.into(),
            rules: self.rules.clone(),
            code: head.code,
            lines: lines.into(),
            body: Vec::new().into(),
            terms,
            born_secs: now_secs.saturating_sub(age.as_secs()),
            date_secs,
            said: said.clone(),
        })
    }

    /// A part of the answer's content has come.
    pub fn gather(&mut self, content: &[u8], answers: &mut Answers, now: Instant) {
        let Some(gathering) = &mut self.gathering else {
            return;
        };
        let len = gathering.content.len() + content.len();
        let is_short = len as u64 <= self.rules.answer_len_max;
        if is_short && answers.gather(&self.ticket, content.len()) {
            gathering.content.extend_from_slice(content);
        } else {
            self.give_up(Unkept::Length, answers, now);
        }
    }

    /// The answer is whole: it is kept.
    pub fn keep(&mut self, answers: &mut Answers) {
        let Some(gathering) = self.gathering.take() else {
            return;
        };
        let Gathering {
            mut record,
            content,
            length,
        } = *gathering;
        answers.ungather(&self.ticket, content.len());
        if length.is_some_and(|length| length != content.len() as u64) {
            return;
        }
        let length = format!("Content-Length: {}\r\n", content.len());
        record.lines = [record.lines.as_slice(), length.as_bytes()].concat().into();
        record.body = content.into();
        let errand = Errand::Keep {
            site: self.ticket.wanted.0,
            record: Box::new(record),
            forgotten: self.ticket.forgotten,
        };
        if answers.send(&self.ticket, errand) {
            answers.counters.kept += 1;
            answers.end(&self.ticket, true);
            self.is_told = true;
        }
    }

    fn give_up(&mut self, why: Unkept, answers: &mut Answers, now: Instant) {
        self.outcome = Outcome::Unkept(why);
        answers.counters.unkept += 1;
        // What speaks against one request says nothing of others.
        if why != Unkept::Authorization {
            answers.pass(&self.ticket, now);
        }
        if let Some(gathering) = self.gathering.take() {
            answers.ungather(&self.ticket, gathering.content.len());
        }
    }

    /// The request is over, however it ended.
    pub fn end(mut self, answers: &mut Answers) {
        if let Some(gathering) = self.gathering.take() {
            answers.ungather(&self.ticket, gathering.content.len());
        }
        if !self.is_told {
            answers.end(&self.ticket, false);
        }
    }

    /// What Cache-Status says of an answer that comes from the upstream (RFC 9211).
    pub fn status(&self) -> String {
        let stored = match self.outcome {
            Outcome::Kept => "; stored",
            Outcome::Unknown | Outcome::Unkept(_) => "",
        };
        let why = self.why.token();
        format!("Cache-Status: exos; fwd={why}{stored}\r\n")
    }
}

/// The validators of a request to an upstream.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// The entity tag, as it is written.
    pub tag: Option<&'a [u8]>,
    /// When it was changed, as it is written.
    pub modified: Option<&'a [u8]>,
}

/// The lines that are kept: not its age, which is counted from then on, and no status of another cache's.
fn kept_lines(all: &[u8]) -> Vec<u8> {
    let is_kept = |line: &&[u8]| {
        let name = name_of(line);
        !name.eq_ignore_ascii_case(b"age")
    };
    lines(all).filter(is_kept).collect::<Vec<_>>().concat()
}
