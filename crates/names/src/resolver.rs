//! The resolver: lookups and messages of servers go in; what to send, and addresses, come out.

use crate::action::{Action, Event, LookupId, QueryId};
use crate::cache::Cache;
use crate::config::{Config, Hosts};
use crate::counters::Counters;
use crate::error::{Error, ErrorKind};
use crate::exchanges::{Ended, Exchanges};
use crate::family::{Families, of_family};
use crate::limits::LOOKUPS_MAX;
use crate::lookup::{Lookup, Next, Outcome};
use crate::meaning::{Meaning, meaning};
use exos_inet::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// A caching stub resolver; the [crate's documentation](crate) shows a turn of the loop around it.
///
/// After any call that takes `now`, and after [`cancel`](Self::cancel), poll [actions](Self::poll_action), then
/// [events](Self::poll_event), each until there are no more, then the [timeout](Self::poll_timeout).
pub struct Resolver {
    config: Config,
    exchanges: Exchanges,
    cache: Cache,
    lookups: BTreeMap<LookupId, Lookup>,
    last_lookup: u64,
    events: VecDeque<Event>,
}

impl Resolver {
    /// A resolver that asks the servers of `config`. Ports, identifiers and letters' case are drawn from the secret: who knows
    /// it can forge answers.
    pub fn new(config: Config, secret: u64) -> Self {
        Self {
            exchanges: Exchanges::new(without_hosts(&config), secret),
            config,
            cache: Cache::default(),
            lookups: BTreeMap::new(),
            last_lookup: 0,
            events: VecDeque::new(),
        }
    }

    /// How it looks names up.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Looks names up in another way from now on. The cache is emptied, and what is under way begins again with the new servers; a
    /// configuration equal to the present one changes nothing.
    pub fn configure(&mut self, now: Instant, config: Config) {
        if config == self.config {
            return;
        }
        self.cache.clear();
        let ended = self.exchanges.configure(now, without_hosts(&config));
        self.config = config;
        ended.into_iter().for_each(|ended| self.end(now, ended));
    }

    /// Forgets all answers: what is looked up next is asked for again.
    pub fn clear_cache(&mut self) {
        self.cache.clear();
    }

    /// Looks up a host name, or an address as text. What becomes of it is told by events; only a text that is no name, or names
    /// nothing, is refused at once, and more than [`LOOKUPS_MAX`] lookups.
    pub fn lookup(
        &mut self,
        now: Instant,
        text: &str,
        families: Families,
    ) -> Result<LookupId, Error> {
        let meaning = meaning(text, &self.config)?;
        if self.lookups.len() >= LOOKUPS_MAX {
            return Err(Error::new(ErrorKind::Busy, text));
        }
        self.last_lookup += 1;
        let lookup = LookupId(self.last_lookup);
        match meaning {
            Meaning::Addresses(addresses) => self.answer(lookup, text, families, &addresses),
            Meaning::Names(names) => {
                self.lookups
                    .insert(lookup, Lookup::new(text, families, names));
                self.advance(now, lookup);
            }
        }
        Ok(lookup)
    }

    /// Ends a lookup without an event. Events that are queued already may still come.
    pub fn cancel(&mut self, lookup: LookupId) {
        if self.lookups.remove(&lookup).is_some() {
            self.exchanges.forget(lookup);
        }
    }

    /// A datagram came to a query's port.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        query: QueryId,
        from: SocketAddr,
        message: &[u8],
    ) {
        let ended = self.exchanges.handle_datagram(now, query, from, message);
        ended.into_iter().for_each(|ended| self.end(now, ended));
    }

    /// Bytes came over a query's connection.
    pub fn handle_stream(&mut self, now: Instant, query: QueryId, bytes: &[u8]) {
        let ended = self.exchanges.handle_stream(now, query, bytes);
        ended.into_iter().for_each(|ended| self.end(now, ended));
    }

    /// A query could not be sent, its server was reported to be unreachable, or its connection was refused or has ended. Nothing
    /// happens where the query is over.
    pub fn handle_failure(&mut self, now: Instant, query: QueryId) {
        let ended = self.exchanges.handle_failure(now, query);
        ended.into_iter().for_each(|ended| self.end(now, ended));
    }

    /// A query's port was in use: it will be sent from another.
    pub fn handle_port_in_use(&mut self, now: Instant, query: QueryId) {
        let ended = self.exchanges.handle_port_in_use(now, query);
        ended.into_iter().for_each(|ended| self.end(now, ended));
    }

    /// The time of [`poll_timeout`](Self::poll_timeout) has come. Harmless when it has not.
    pub fn handle_timeout(&mut self, now: Instant) {
        let ended = self.exchanges.handle_timeout(now);
        ended.into_iter().for_each(|ended| self.end(now, ended));
    }

    /// What to do next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.exchanges.poll_action()
    }

    /// What became of lookups.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.exchanges.poll_timeout()
    }

    /// What was asked, answered and dropped.
    pub fn counters(&self) -> &Counters {
        &self.exchanges.counters
    }

    /// How many answers are kept.
    pub fn cached(&self) -> usize {
        self.cache.len()
    }

    /// Answers a lookup with addresses that are known without a server.
    fn answer(&mut self, lookup: LookupId, text: &str, families: Families, known: &[IpAddr]) {
        let mut all = Vec::new();
        for family in families.list() {
            let addresses = of_family(known, family);
            all.extend_from_slice(&addresses);
            self.events.push_back(Event::Family {
                lookup,
                family,
                addresses,
            });
        }
        let result = match all.is_empty() {
            true => Err(Error::new(ErrorKind::NoAddress, text)),
            false => Ok(all),
        };
        self.events.push_back(Event::Done {
            lookup,
            result,
            until: None,
            failed: None,
        });
    }

    /// An exchange has ended: what it found is kept, and told to all who waited.
    fn end(&mut self, now: Instant, ended: Ended) {
        let Ended {
            key,
            outcome,
            ttl_s,
            waiting,
        } = ended;
        let until = now + Duration::from_secs(ttl_s.into());
        let evicted = self.cache.insert(now, key.clone(), outcome.clone(), ttl_s);
        self.exchanges.counters.cache_evicted += evicted;
        for id in waiting {
            if let Some(lookup) = self.lookups.get_mut(&id) {
                lookup.record(&key.0, key.1, outcome.clone(), until);
                self.advance(now, id);
            }
        }
    }

    /// Goes on with a lookup as far as what is known allows.
    fn advance(&mut self, now: Instant, id: LookupId) {
        while let Some(lookup) = self.lookups.get_mut(&id) {
            for (family, addresses) in lookup.tell() {
                self.events.push_back(Event::Family {
                    lookup: id,
                    family,
                    addresses,
                });
            }
            match lookup.next() {
                Next::Wait => return,
                Next::Done(result) => {
                    self.lookups.remove(&id);
                    let (result, until, failed) = match result {
                        Ok(known) => (Ok(known.addresses), Some(known.until), known.failed),
                        Err(error) => (Err(error), None, None),
                    };
                    self.events.push_back(Event::Done {
                        lookup: id,
                        result,
                        until,
                        failed,
                    });
                }
                Next::Ask(families) => {
                    let name = lookup.name().clone();
                    for family in families {
                        let known = self.known_or_asked(now, (name.clone(), family), id);
                        if let (Some((outcome, until)), Some(lookup)) =
                            (known, self.lookups.get_mut(&id))
                        {
                            lookup.record(&name, family, outcome, until);
                        }
                    }
                }
            }
        }
    }

    fn known_or_asked(
        &mut self,
        now: Instant,
        key: crate::cache::Key,
        lookup: LookupId,
    ) -> Option<(Outcome, Instant)> {
        let known = self.cache.get(now, &key);
        match known {
            Some(_) => self.exchanges.counters.cache_hits += 1,
            None => self.exchanges.counters.cache_misses += 1,
        }
        known.or_else(|| Some((self.exchanges.ask(now, &key, lookup)?, now)))
    }
}

/// Hosts may be many, and queries have nothing to do with them.
fn without_hosts(config: &Config) -> Config {
    let Config {
        servers,
        search,
        ports,
        ..
    } = config.clone();
    Config {
        servers,
        search,
        ports,
        hosts: Hosts::default(),
        ..*config
    }
}
