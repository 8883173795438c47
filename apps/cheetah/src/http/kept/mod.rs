//! Requests that are answered with what is kept of upstreams' answers ([`crate::caching`]), and those whose answers may be kept.
//!
//! GET and HEAD without a body are answered so. GET alone has its answer kept. Whatever asks for a part, or for an answer only
//! if something holds that the origin alone knows (If-Match, If-Unmodified-Since; RFC 9111 §4.3.2), is answered here where there is a
//! fresh answer, or by the upstream as it came. What changes something has what is kept of its target forgotten (§4.4).

mod purging;
mod refreshing;
pub(in crate::http) mod role;

use std::rc::Rc;
use std::sync::Arc;

use exos_buf::Slice;
use exos_inet::Instant;

use crate::applications::Asked;
use crate::applications::head::Head;
use crate::applications::proxy::request::{Sent, upgrades};
use crate::caching::directives::Directives;
use crate::caching::fetch::{Begin, Fetch, Heard};
use crate::caching::key::{self, How};
use crate::caching::record::Answer;
use crate::caching::reuse::{Reuse, Why, judge};
use crate::caching::{Answers, CacheRules};
use crate::http::asking::Asking;
use crate::http::exchange::Exchange;
use crate::http::kept::role::Use;
use crate::http::missing::Missing;
use crate::http::outcome::Response;
use crate::http::response::conditional;
use crate::http::response::kept::{Part, Says, head, part_of};
use crate::http::response::opening::Manner;
use crate::http::server::Server;
use crate::limits::ANSWER_WAIT_TIME;
use crate::message::Status;
use crate::message::request::{Body, FieldStore, Method, Request, parse};
use crate::site::{SitePath, Wanted};

/// What becomes of a request for an upstream.
pub(in crate::http) enum Consulted {
    /// It is answered.
    Answered(Response),
    /// It waits for the answer to another one.
    Waits(Box<Missing>),
    /// It goes to the upstream.
    Goes(Use),
}

/// What a request is, to what is kept.
struct Consulting<'a> {
    rules: &'a Arc<CacheRules>,
    wanted: Wanted,
    directives: Directives,
    /// What it is answered with depends on conditions or is a part.
    is_partial: bool,
    is_conditional: bool,
    has_authorization: bool,
    /// It is from a proxy that is believed.
    is_trusted: bool,
}

impl Server {
    /// What is kept of upstreams' answers.
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// What is kept of upstreams' answers, to be told of them and asked what it wants done.
    pub fn answers_mut(&mut self) -> &mut Answers {
        &mut self.answers
    }

    /// Looks whether a request for an upstream can be answered with what is kept.
    pub(in crate::http) fn consult(
        &mut self,
        exchange: &mut Exchange<'_, '_, '_>,
        site: usize,
        path: &[u8],
        asked: &Asked,
        out: &mut Vec<Slice>,
    ) -> Consulted {
        let request = exchange.request;
        let proxy = asked.application.proxy.as_ref();
        // What is rendered for the kernel is not of this moment.
        let proxy = proxy.filter(|_| !exchange.attempt.is_for_all);
        // What an upstream is told of a client's address, session and certificate makes its answers that client's.
        let proxy = proxy.filter(|it| !it.tells_of_client());
        let Some((proxy, rules)) = proxy.and_then(|it| Some((it, it.cache.as_ref()?))) else {
            return Consulted::Goes(Use::None);
        };
        let is_encrypted = exchange.attempt.is_encrypted;
        let peer = exchange.attempt.peer.to_canonical();
        let is_trusted = proxy.trusted.iter().any(|it| it.contains(peer));
        let key_of = |is_encrypted| {
            let how = How {
                is_encrypted,
                is_trusted,
            };
            let mut key = Vec::with_capacity(128);
            key::push(&mut key, request, asked, proxy, how).then(|| SitePath::from(key))
        };
        if purging::is_purge(request.method_name, rules) {
            return Consulted::Answered(self.purge(exchange, site, (asked, proxy), rules, out));
        }
        if !matches!(request.method, Method::Get | Method::Head | Method::Options) {
            let keys = [is_encrypted, !is_encrypted].into_iter().filter_map(key_of);
            let generation = self.answers.generation();
            return Consulted::Goes(Use::Forgets(keys.collect(), generation));
        }
        let is_plain = request.body == Body::Length(0)
            && request.method != Method::Options
            && !request
                .fields
                .iter()
                .any(|field| is_another_way(field.name));
        let Some(key) =
            key_of(is_encrypted).filter(|_| is_plain && !upgrades(request, Some(proxy)))
        else {
            return Consulted::Goes(Use::None);
        };
        let consulting = Consulting::new(request, rules, (site, key), is_trusted);
        self.consult_about(consulting, exchange, (site, path, asked), out)
    }

    fn consult_about(
        &mut self,
        consulting: Consulting<'_>,
        exchange: &mut Exchange<'_, '_, '_>,
        of: (usize, &[u8], &Asked),
        out: &mut Vec<Slice>,
    ) -> Consulted {
        let (site, path, _) = of;
        let (request, attempt) = (exchange.request, exchange.attempt);
        let now_secs = self.sender.now_secs();
        let Consulting {
            rules,
            wanted,
            directives,
            ..
        } = &consulting;
        let sent = Sent {
            fields: request.fields,
            is_trusted: consulting.is_trusted,
            withheld: &rules.withheld,
        };
        let found = self.answers.find(wanted, rules, sent, attempt.now);
        let reuse = found.answer.as_ref().map(|answer| {
            let record = &answer.record;
            judge(
                &record.terms,
                record.age(now_secs),
                directives,
                found.is_answer_asked_for,
            )
        });
        // Who can have nobody ask for it asks.
        let reuse = match (reuse, &found.answer) {
            (Some(Reuse::Refresh), Some(stale)) => {
                match self.begin_refresh(&consulting, exchange, of, stale) {
                    true => Some(Reuse::Stale),
                    false => Some(Reuse::Ask(Why::Stale)),
                }
            }
            (reuse, _) => reuse,
        };
        let why = match (reuse, found.answer) {
            (Some(Reuse::Fresh | Reuse::Stale), Some(answer)) => {
                let is_fresh = reuse == Some(Reuse::Fresh);
                let counters = &mut self.answers.counters;
                counters.hits += u64::from(is_fresh);
                counters.stale += u64::from(!is_fresh);
                let fields = self.sites.get_mut(site).rule_fields(path);
                exchange.answered.logged = Some(if is_fresh { "hit" } else { "stale" });
                let status = self.send_kept(
                    &answer,
                    request,
                    exchange.manner(),
                    fields.as_ref(),
                    None,
                    out,
                );
                return Consulted::Answered(Response {
                    status,
                    answered: exchange.answered,
                    tail: None,
                });
            }
            (Some(Reuse::Ask(why)), Some(answer)) => (why, Some(answer)),
            _ if found.has_others => (Why::Vary, None),
            _ => (Why::Target, None),
        };
        let (why, stale) = why;
        if directives.only_if_cached {
            // RFC 9111 §5.2.1.7.
            let status = self.refuse_with(Status::GatewayTimeout, None, exchange, out);
            return Consulted::Answered(Response {
                status,
                answered: exchange.answered,
                tail: None,
            });
        }
        let is_fetched =
            request.method == Method::Get && !consulting.is_partial && !directives.no_store;
        if !is_fetched {
            self.answers.counters.misses += 1;
            return Consulted::Goes(Use::None);
        }
        let has_time = attempt.now < attempt.begun + ANSWER_WAIT_TIME;
        let waits = found.is_asked_for && !found.is_passed && has_time;
        // One that depends on other fields is another answer.
        let may_be_alike = matches!(why, Why::Target | Why::Stale);
        if waits && may_be_alike && !consulting.has_authorization {
            self.answers.counters.waits += u64::from(!attempt.has_waited);
            let (site, key) = consulting.wanted;
            return Consulted::Waits(Missing::document(site, key));
        }
        let rules = Arc::clone(rules);
        // Whose answer is most likely their own is not waited for, nor one that is asked for in vain already.
        let is_for_others = has_time && !consulting.has_authorization;
        let peer = attempt.peer;
        let ticket = self.answers.begin(consulting.wanted, peer, is_for_others);
        // Where nothing is kept of it, its client's own may do.
        let is_kept = stale.is_some() || !found.is_passed && !consulting.has_authorization;
        let begin = Begin {
            rules,
            why,
            directives: consulting.directives,
            has_authorization: consulting.has_authorization,
            stale,
            is_trusted: consulting.is_trusted,
            leaves_validators_out: consulting.is_conditional && is_kept,
            now_secs,
        };
        Consulted::Goes(Use::Fetch(Box::new(Fetch::new(ticket, begin))))
    }

    /// Sends what is kept, as far as the request wants it: all, a part, or that it has not changed. Gives the status. `said` is what
    /// Cache-Status says, where that is not that it was there.
    fn send_kept(
        &mut self,
        answer: &Answer,
        request: &Request<'_, '_>,
        how: Manner,
        fields: Option<&Slice>,
        said: Option<&str>,
        out: &mut Vec<Slice>,
    ) -> Status {
        let now_secs = self.sender.now_secs();
        let part = part_of(answer, request);
        let status = match &part {
            Part::Whole => status_of(answer.record.code),
            Part::Unchanged => Status::NotModified,
            Part::Some(_) => Status::PartialContent,
            Part::Outside => Status::RangeNotSatisfiable,
        };
        let says = Says {
            status,
            how,
            fields,
            cache: said,
            alternative: self.sender.alternative(how.is_encrypted),
            now_secs,
        };
        let make = || head(answer, &part, &says);
        let head = match (&part, said) {
            (Part::Whole, None) => answer.head(now_secs, how, make),
            _ => make(),
        };
        let body = match (request.method, part) {
            (Method::Head, _) | (_, Part::Unchanged | Part::Outside) => None,
            (_, Part::Whole) => Some(answer.body()),
            (_, Part::Some(range)) => Some(answer.body().sub(range)),
        };
        answer.note_use();
        self.sender.counters.count_code(status.code());
        let body = body.filter(|body| !body.is_empty());
        self.answers.counters.bytes += body.as_ref().map_or(0, |body| body.len() as u64);
        out.extend(head);
        out.extend(body);
        status
    }

    /// Sends what is kept to a request that has gone to an upstream. Gives the status.
    pub(crate) fn send_kept_after_all(
        &mut self,
        answer: &Rc<Answer>,
        said: &str,
        asking: &Asking,
        persistent: bool,
        out: &mut Vec<Slice>,
    ) -> Option<Status> {
        let mut store = FieldStore::new();
        let request = parse(&asking.head, &mut store).ok()??;
        let request = request.asked_by(asking.version);
        let how = asking.manner(persistent);
        Some(self.send_kept(answer, &request, how, asking.more_fields(), Some(said), out))
    }

    /// An upstream's answer has begun: what that means for what is kept.
    pub(crate) fn hear_answer(&mut self, asking: &mut Asking, head: &Head, now: Instant) -> Heard {
        let now_secs = self.sender.now_secs();
        match &mut asking.keeps {
            Use::None => Heard::PassOn,
            Use::Forgets(keys, generation) => {
                let generation = *generation;
                // RFC 9111 §4.4: 2xx and 3xx say that something was done.
                let keys = std::mem::take(keys);
                let site = asking.site();
                if matches!(head.code, 200..400) {
                    self.answers.counters.forgotten += 1;
                    let forget = |key| self.answers.forget(site, key, generation);
                    keys.into_iter().for_each(forget);
                }
                Heard::PassOn
            }
            Use::Fetch(fetch) => {
                let mut store = FieldStore::new();
                match parse(&asking.head, &mut store) {
                    Ok(Some(request)) => {
                        fetch.hear(head, &request, &mut self.answers, now, now_secs)
                    }
                    _ => Heard::PassOn,
                }
            }
        }
    }

    /// No upstream has given an answer: what is kept, and will do for that.
    pub(crate) fn kept_for_error(
        &mut self,
        asking: &mut Asking,
        now: Instant,
    ) -> Option<Rc<Answer>> {
        let now_secs = self.sender.now_secs();
        match &mut asking.keeps {
            Use::Fetch(fetch) => fetch.fail(&mut self.answers, now, now_secs),
            Use::None | Use::Forgets(..) => None,
        }
    }
}

impl<'a> Consulting<'a> {
    fn new(
        request: &Request<'_, '_>,
        rules: &'a Arc<CacheRules>,
        wanted: Wanted,
        is_trusted: bool,
    ) -> Consulting<'a> {
        let named = |name: &'static str| conditional::values(request, name);
        let has = |name| named(name).next().is_some();
        let is_withheld = |name| {
            rules
                .withheld
                .iter()
                .any(|it: &String| it.eq_ignore_ascii_case(name))
        };
        let said = Directives::read(named("cache-control"));
        let mut directives = match rules.obeys_clients {
            true => said,
            // What is theirs is not for others in any case.
            false => Directives {
                no_store: said.no_store,
                ..Directives::default()
            },
        };
        // RFC 9111 §5.4: of clients that know no other.
        let is_old = rules.obeys_clients && !has("cache-control");
        directives.no_cache |=
            is_old && named("pragma").any(|it| it.eq_ignore_ascii_case(b"no-cache"));
        Consulting {
            rules,
            wanted,
            directives,
            is_trusted,
            is_partial: ["range", "if-match", "if-unmodified-since"]
                .into_iter()
                .any(has),
            is_conditional: has("if-none-match") || has("if-modified-since"),
            has_authorization: has("authorization") && !is_withheld("authorization"),
        }
    }
}

/// Fields by which some applications take a request for another one than it is: its answer would be kept as that to the one it seems.
fn is_another_way(name: &str) -> bool {
    const NAMES: [&str; 6] = [
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "front-end-https",
        "x-scheme",
        "x-url-scheme",
    ];
    NAMES.iter().any(|it| it.eq_ignore_ascii_case(name))
}

/// Those that are kept are among ours.
fn status_of(code: u16) -> Status {
    let mut all = Status::ALL.into_iter();
    all.find(|status| status.code() == code)
        .unwrap_or(Status::Ok)
}
