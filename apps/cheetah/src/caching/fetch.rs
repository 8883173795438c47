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

use super::answers::Answers;
use super::directives::Directives;
use super::keeping::Errand;
use super::key::{name, push_values};
use super::record::{Answer, Record, lines, name_of};
use super::reuse::{Why, will_do_for_error};
use super::rules::CacheRules;
use super::said::Said;
use super::storing::{Asked, Made, Unkept, age_at_arrival, terms};
use super::ticket::Ticket;
use crate::applications::head::Head;
use crate::applications::proxy::request::{Sent, Validators};
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
    is_trusted: bool,
    /// What is kept, and would do if an upstream says that it holds.
    stale: Option<Rc<Answer>>,
    /// The validators in the request are ours, and its client's were left out.
    asks_by_ours: bool,
    begun_secs: u64,
    gathering: Option<Box<Gathering>>,
    /// What Cache-Status says of its answer.
    outcome: Outcome,
}

/// What became of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Unknown,
    Kept,
    Unkept(Unkept),
    /// What was kept already was sent, for the upstream has said that it holds.
    Revalidated,
    /// What was kept already was sent, for there was no other.
    Stale,
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
    /// It comes from a proxy that is believed.
    pub is_trusted: bool,
    /// The validators of its client are left out, so that the whole is there for others too.
    pub leaves_validators_out: bool,
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
            is_trusted,
            leaves_validators_out,
            now_secs,
        } = begin;
        let can_ask = |answer: &Rc<Answer>| answer.record.said.has_validator();
        Fetch {
            asks_by_ours: leaves_validators_out || stale.as_ref().is_some_and(can_ask),
            ticket,
            rules,
            why,
            asked: Asked {
                no_store: directives.no_store,
                has_authorization,
            },
            directives,
            is_trusted,
            stale,
            begun_secs: now_secs,
            gathering: None,
            outcome: Outcome::Unknown,
        }
    }

    /// The validators that its request has instead of its client's: of what is kept, or none.
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
            self.outcome = Outcome::Revalidated;
            return Heard::Use(self.renew(&stale, head, said, answers, now_secs));
        }
        if matches!(head.code, 500 | 502..=504)
            && let Some(stale) = self.take_for_error(now_secs)
        {
            answers.counters.stale += 1;
            // Others have this too, and do not wait for the upstream.
            answers.pass(&self.ticket, now);
            return Heard::Use(stale);
        }
        answers.counters.misses += 1;
        match self.record(head, said, request, now_secs) {
            Ok(record) => {
                // One that is asked for each time is nobody else's answer.
                if record.terms.always_ask || record.age(now_secs) >= record.terms.fresh {
                    answers.pass(&self.ticket, now);
                }
                self.gathering = Some(Box::new(Gathering {
                    record,
                    content: Vec::new(),
                    length: head.length,
                }));
                self.outcome = Outcome::Kept;
            }
            Err(why) => {
                self.displace(head.code, why, answers);
                self.give_up(why, answers, now);
            }
        }
        Heard::PassOn
    }

    /// A whole answer that is not kept has come in the place of what is kept and stale: that will not do any more (RFC 9111 §4.3.3),
    /// but where it says that something has failed, which passes.
    fn displace(&mut self, code: u16, why: Unkept, answers: &mut Answers) {
        let passes = code >= 500 || matches!(code, 408 | 425 | 429);
        let is_one_s_own = why == Unkept::Authorization;
        let displaces = self.why == Why::Stale && !passes && !is_one_s_own;
        if displaces && self.stale.take().is_some() {
            answers.counters.forgotten += 1;
            answers.forget_of(&self.ticket);
        }
    }

    /// No upstream has given an answer: whether what is kept will do for that. Others do not wait for one either.
    pub fn fail(
        &mut self,
        answers: &mut Answers,
        now: Instant,
        now_secs: u64,
    ) -> Option<Rc<Answer>> {
        answers.pass(&self.ticket, now);
        let stale = self.take_for_error(now_secs)?;
        answers.counters.stale += 1;
        Some(stale)
    }

    /// Whether what is kept will do where no upstream has given an answer that is one; it is taken then.
    fn take_for_error(&mut self, now_secs: u64) -> Option<Rc<Answer>> {
        let stale = self.stale.take()?;
        let record = &stale.record;
        let will_do = will_do_for_error(&record.terms, record.age(now_secs), &self.directives);
        if !will_do {
            return None;
        }
        self.outcome = Outcome::Stale;
        Some(stale)
    }

    /// An upstream has said that what is kept still holds.
    fn renew(
        &mut self,
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
        // What it says together with what was said before.
        let renewed = record.renewed(said, &lines, age, now_secs);
        let made = Made { date_secs, age };
        let kept = terms(self.asked, record.code, &renewed.said, made, &self.rules);
        let is_short = renewed.lines.as_slice().len() <= ANSWER_LINES_LEN_MAX;
        let is_about_it = is_short && record.said.is_renewed_by(said);
        let Some(terms) = kept.ok().filter(|_| is_about_it) else {
            answers.forget_of(&self.ticket);
            return stale.clone();
        };
        let renewed = Record { terms, ..renewed };
        let errand = Errand::Renew {
            site: self.ticket.wanted.0,
            record: Box::new(renewed.clone()),
            forgotten: self.ticket.forgotten,
        };
        answers.send(&mut self.ticket, errand);
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
        let sent = Sent {
            fields: request.fields,
            is_trusted: self.is_trusted,
            withheld: &self.rules.withheld,
        };
        if !push_values(&mut values, names, sent) {
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
            identity: Arc::new(()),
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
        let code = gathering.record.code;
        let len = gathering.content.len() + content.len();
        let is_short = len as u64 <= self.rules.answer_len_max;
        if is_short && answers.gather(&mut self.ticket, content.len()) {
            gathering.content.extend_from_slice(content);
        } else {
            let why = if is_short {
                Unkept::Room
            } else {
                Unkept::Length
            };
            self.displace(code, why, answers);
            self.give_up(why, answers, now);
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
        if answers.send(&mut self.ticket, errand) {
            answers.counters.kept += 1;
        }
    }

    /// Its answer is on its way to be kept.
    pub fn is_gathering(&self) -> bool {
        self.gathering.is_some()
    }

    fn give_up(&mut self, why: Unkept, answers: &mut Answers, now: Instant) {
        self.outcome = Outcome::Unkept(why);
        answers.counters.unkept += 1;
        // What speaks against one request says nothing of others.
        if !matches!(why, Unkept::Authorization | Unkept::Room) {
            answers.pass(&self.ticket, now);
        }
        self.gathering = None;
        answers.ungather(&mut self.ticket);
    }

    /// What the log says of it.
    pub fn logged(&self) -> &'static str {
        match self.outcome {
            Outcome::Revalidated => "revalidated",
            Outcome::Stale => "stale",
            Outcome::Unknown | Outcome::Kept | Outcome::Unkept(_) => "miss",
        }
    }

    /// What Cache-Status says of an answer that comes from the upstream (RFC 9211).
    pub fn status(&self) -> String {
        let stored = if self.outcome == Outcome::Kept {
            "; stored"
        } else {
            ""
        };
        let why = self.why.token();
        format!("Cache-Status: exos; fwd={why}{stored}\r\n")
    }
}

/// The lines that are kept: not its age, which is counted from then on.
fn kept_lines(all: &[u8]) -> Vec<u8> {
    let is_kept = |line: &&[u8]| {
        let name = name_of(line);
        !name.eq_ignore_ascii_case(b"age")
    };
    lines(all).filter(is_kept).collect::<Vec<_>>().concat()
}
