//! All queries under way: who waits for which, what comes from the servers, and what is to be sent.
//!
//! An exchange asks for one name and family, on behalf of every lookup that waits for it, and has one query at a time. Each
//! query has a number of its own, a port and an identifier that nobody can guess, and is over as soon as the next is sent: what
//! still comes for it is dropped.

use crate::action::{Action, LookupId, QueryId};
use crate::cache::Key;
use crate::config::Config;
use crate::counters::Counters;
use crate::exchange::{Event, Step, Transport};
use crate::limits::{FAILURE_TTL_S, GUESSES_MAX, NEGATIVE_TTL_S_MAX, PORT_TRIES_MAX, TTL_S_MAX};
use crate::lookup::Outcome;
use crate::message::{Answer, Found, NotTheAnswer, Query, Said};
use crate::random::Random;
use crate::servers::{Server, Servers, is_same};
use exos_inet::Instant;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

pub(crate) struct Exchanges {
    pub(crate) counters: Counters,
    config: Config,
    servers: Servers,
    random: Random,
    running: BTreeMap<Key, Exchange>,
    queries: BTreeMap<QueryId, Key>,
    last_query: u64,
    actions: VecDeque<Action>,
}

struct Exchange {
    waiting: Vec<LookupId>,
    /// Servers still to be asked, the present one first.
    plan: VecDeque<usize>,
    transport: Transport,
    sent: Sent,
    ports_tried: u8,
    /// Whether any server answered that it cannot or will not.
    failed: bool,
}

/// The query that an exchange now has under way.
struct Sent {
    id: QueryId,
    server: SocketAddr,
    query: Query,
    deadline: Instant,
    /// What has come over TCP.
    received: Vec<u8>,
    /// Messages that came from its server, and were not the answer.
    wrong: u8,
}

/// An exchange that has come to its end.
pub(crate) struct Ended {
    pub(crate) key: Key,
    pub(crate) outcome: Outcome,
    /// How long that holds; 0 where it is not to be kept.
    pub(crate) ttl_s: u32,
    pub(crate) waiting: Vec<LookupId>,
}

impl Exchanges {
    /// `config` without its hosts, of which nothing is needed here.
    pub(crate) fn new(config: Config, secret: u64) -> Self {
        Self {
            counters: Counters::default(),
            servers: Servers::new(&config.servers),
            config,
            random: Random::new(secret),
            running: BTreeMap::new(),
            queries: BTreeMap::new(),
            last_query: 0,
            actions: VecDeque::new(),
        }
    }

    /// Begins with the servers of another configuration, also what is under way.
    pub(crate) fn configure(&mut self, now: Instant, config: Config) -> Vec<Ended> {
        self.servers = Servers::new(&config.servers);
        self.config = config;
        let mut ended = Vec::new();
        for (key, exchange) in std::mem::take(&mut self.running) {
            self.close(exchange.sent.id);
            for lookup in exchange.waiting {
                if let Some(outcome) = self.ask(now, &key, lookup) {
                    let (key, waiting) = (key.clone(), vec![lookup]);
                    ended.push(Ended {
                        key,
                        outcome,
                        ttl_s: 0,
                        waiting,
                    });
                }
            }
        }
        ended
    }

    /// Asks on behalf of a lookup, unless that is known to be in vain.
    pub(crate) fn ask(&mut self, now: Instant, key: &Key, lookup: LookupId) -> Option<Outcome> {
        if let Some(exchange) = self.running.get_mut(key) {
            self.counters.cache_joined += 1;
            exchange.waiting.push(lookup);
            return None;
        }
        let plan = self
            .servers
            .plan(now, self.config.attempts, self.config.rotate);
        let Some(&server) = plan.first() else {
            return Some(Outcome::NoServer);
        };
        let transport = self.first_transport();
        let sent = self.send(now, key, server, transport);
        let exchange = Exchange {
            waiting: vec![lookup],
            plan: plan.into(),
            transport,
            sent,
            ports_tried: 0,
            failed: false,
        };
        self.running.insert(key.clone(), exchange);
        None
    }

    /// A lookup no longer waits; what nobody waits for ends.
    pub(crate) fn forget(&mut self, lookup: LookupId) {
        let mut idle = Vec::new();
        self.running.retain(|_, exchange| {
            exchange.waiting.retain(|waiting| *waiting != lookup);
            if exchange.waiting.is_empty() {
                idle.push(exchange.sent.id);
            }
            !exchange.waiting.is_empty()
        });
        idle.into_iter().for_each(|id| self.close(id));
    }

    pub(crate) fn handle_datagram(
        &mut self,
        now: Instant,
        id: QueryId,
        from: SocketAddr,
        message: &[u8],
    ) -> Option<Ended> {
        let Some((key, exchange)) = self
            .exchange_of(id)
            .filter(|(_, exchange)| exchange.transport == Transport::Datagram)
        else {
            self.counters.drop_no_query += 1;
            return None;
        };
        let asked = exchange.sent.server;
        if !is_same(from, asked) {
            self.counters.drop_source += 1;
            return None;
        }
        match exchange.sent.query.said(message, false) {
            Ok(said) => self.handle_said(now, key, said),
            Err(why) => {
                exchange.sent.wrong += 1;
                let guesses = exchange.sent.wrong >= GUESSES_MAX;
                self.count_drop(why);
                self.counters.guesses += u64::from(guesses);
                guesses.then(|| self.step(now, key, Event::Guesses))?
            }
        }
    }

    pub(crate) fn handle_stream(
        &mut self,
        now: Instant,
        id: QueryId,
        bytes: &[u8],
    ) -> Option<Ended> {
        let Some((key, exchange)) = self
            .exchange_of(id)
            .filter(|(_, exchange)| exchange.transport != Transport::Datagram)
        else {
            self.counters.drop_no_query += 1;
            return None;
        };
        // RFC 1035 §4.2.2: two bytes of length, then the message. What follows it was not asked for.
        exchange.sent.received.extend_from_slice(bytes);
        let (length, rest) = exchange.sent.received.split_first_chunk()?;
        let message = rest.get(..u16::from_be_bytes(*length).into())?;
        let said = exchange.sent.query.said(message, true);
        let case_lost =
            exchange.transport == Transport::Proof && !exchange.sent.query.kept_case(message);
        let server = exchange.plan[0];
        if case_lost && matches!(said, Ok(Said::Answer(_))) {
            self.servers.get(server).form.random_case = false;
        }
        let said = said.unwrap_or_else(|why| {
            self.count_drop(why);
            Said::Failure
        });
        self.handle_said(now, key, said)
    }

    pub(crate) fn handle_failure(&mut self, now: Instant, id: QueryId) -> Option<Ended> {
        let (key, _) = self.exchange_of(id)?;
        self.counters.unreachable += 1;
        self.step(now, key, Event::Unreachable)
    }

    pub(crate) fn handle_port_in_use(&mut self, now: Instant, id: QueryId) -> Option<Ended> {
        let (key, _) = self.exchange_of(id)?;
        self.counters.ports_in_use += 1;
        self.step(now, key, Event::PortInUse)
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Vec<Ended> {
        let due = self
            .running
            .iter()
            .filter(|(_, exchange)| exchange.sent.deadline <= now);
        let due: Vec<Key> = due.map(|(key, _)| key.clone()).collect();
        self.counters.timeouts += due.len() as u64;
        due.into_iter()
            .filter_map(|key| self.step(now, key, Event::TimedOut))
            .collect()
    }

    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.running
            .values()
            .map(|exchange| exchange.sent.deadline)
            .min()
    }

    fn exchange_of(&mut self, id: QueryId) -> Option<(Key, &mut Exchange)> {
        let key = self.queries.get(&id)?.clone();
        let exchange = self.running.get_mut(&key)?;
        Some((key, exchange))
    }

    fn count_drop(&mut self, why: NotTheAnswer) {
        match why {
            NotTheAnswer::Malformed => self.counters.drop_malformed += 1,
            NotTheAnswer::Identifier => self.counters.drop_identifier += 1,
            NotTheAnswer::Question => self.counters.drop_question += 1,
        }
    }

    /// A message of the server asked, about what it was asked.
    fn handle_said(&mut self, now: Instant, key: Key, said: Said) -> Option<Ended> {
        let server = self.running.get(&key)?.plan[0];
        self.servers.get(server).mark_answered();
        let (counter, event) = match said {
            Said::Answer(answer) => {
                self.counters.answers += 1;
                self.counters.records_ignored += answer.ignored as u64;
                let Answer { found, ttl_s, .. } = answer;
                let most_s = match found {
                    Found::Addresses(_) => TTL_S_MAX,
                    Found::NoAddress | Found::NoSuchName => NEGATIVE_TTL_S_MAX,
                };
                return self.end(key, Outcome::Found(found), ttl_s.unwrap_or(0).min(most_s));
            }
            Said::Truncated => (&mut self.counters.truncated, Event::Truncated),
            Said::CaseLost => (&mut self.counters.case_lost, Event::CaseLost),
            Said::EdnsRefused => (&mut self.counters.edns_refused, Event::EdnsRefused),
            Said::Failure => (&mut self.counters.server_failures, Event::Failure),
        };
        *counter += 1;
        self.step(now, key, event)
    }

    fn step(&mut self, now: Instant, key: Key, event: Event) -> Option<Ended> {
        let first_transport = self.first_transport();
        let exchange = self.running.get_mut(&key)?;
        let server = self.servers.get(exchange.plan[0]);
        match event {
            // Not where it answers datagrams and has no TCP.
            Event::TimedOut | Event::Unreachable if exchange.transport == first_transport => {
                server.mark_silent(now);
            }
            Event::Failure => exchange.failed = true,
            _ => {}
        }
        match exchange.transport.on(event) {
            Step::Again(transport) => exchange.transport = transport,
            Step::WithoutEdns(transport) => {
                server.form.edns = false;
                exchange.transport = transport;
            }
            Step::WithoutCase => {
                server.form.random_case = false;
                exchange.transport = Transport::Datagram;
            }
            Step::OtherPort if exchange.ports_tried < PORT_TRIES_MAX => exchange.ports_tried += 1,
            Step::OtherPort | Step::NextServer => {
                exchange.plan.pop_front();
                exchange.transport = first_transport;
            }
        }
        self.send_again(now, key)
    }

    /// Sends the query as the exchange now says, or ends it where no server is left.
    fn send_again(&mut self, now: Instant, key: Key) -> Option<Ended> {
        let exchange = self.running.get(&key)?;
        let (id, transport, server) = (
            exchange.sent.id,
            exchange.transport,
            exchange.plan.front().copied(),
        );
        let Some(server) = server else {
            let asked = self.servers.addresses();
            let outcome = match exchange.failed {
                true => Outcome::Failure(asked),
                false => Outcome::NoAnswer(asked),
            };
            return self.end(key, outcome, FAILURE_TTL_S);
        };
        self.close(id);
        let sent = self.send(now, &key, server, transport);
        self.running.get_mut(&key)?.sent = sent;
        None
    }

    fn send(&mut self, now: Instant, key: &Key, server: usize, transport: Transport) -> Sent {
        self.last_query += 1;
        let id = QueryId(self.last_query);
        let &mut Server { address, form, .. } = self.servers.get(server);
        let (query, message) = Query::new(&key.0, key.1, form, &mut self.random);
        let action = match transport {
            Transport::Datagram => {
                self.counters.queries_udp += 1;
                Action::Datagram {
                    query: id,
                    port: self.random.within(&self.config.ports),
                    server: address,
                    message,
                }
            }
            Transport::Stream | Transport::Proof => {
                self.counters.queries_tcp += 1;
                let length = (message.len() as u16).to_be_bytes();
                Action::Stream {
                    query: id,
                    server: address,
                    bytes: [&length[..], &message].concat(),
                }
            }
        };
        self.actions.push_back(action);
        self.queries.insert(id, key.clone());
        Sent {
            id,
            server: address,
            query,
            deadline: now + self.config.timeout,
            received: Vec::new(),
            wrong: 0,
        }
    }

    fn end(&mut self, key: Key, outcome: Outcome, ttl_s: u32) -> Option<Ended> {
        let exchange = self.running.remove(&key)?;
        self.close(exchange.sent.id);
        let waiting = exchange.waiting;
        Some(Ended {
            key,
            outcome,
            ttl_s,
            waiting,
        })
    }

    fn close(&mut self, query: QueryId) {
        self.queries.remove(&query);
        self.actions.push_back(Action::Close { query });
    }

    fn first_transport(&self) -> Transport {
        if self.config.use_tcp {
            Transport::Stream
        } else {
            Transport::Datagram
        }
    }
}
