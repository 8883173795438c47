//! The account of what is kept, on the thread that has that of documents in memory: what comes, is renewed and is forgotten, and what
//! all cores hear of that.
//!
//! Answers take of the memory that documents have, and go for others by the same policy. Of that a rule has its share, of which the answers that
//! came first go first, however often they are used; and of one target there are no more than some answers, whatever its Vary says.
//!
//! An answer that was asked for before another request has changed what it is of would be the old one. So each answer says what had been forgotten when it was
//! asked for, as far as its core had heard, and is not kept where its key has been forgotten since.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use exos_buf::SharedBytes;

use super::key;
use super::record::Record;
use super::rules::CacheRules;
use crate::limits::{DOCUMENT_OVERHEAD_LEN, FORGOTTEN_MAX, VARIANTS_MAX};
use crate::site::store::cache::{Arrival, Evicted, SharedCache};
use crate::site::{About, Change, SitePath};

/// What a core wants done.
#[derive(Debug)]
pub enum Errand {
    /// An answer is to be kept. Nothing of its key had been forgotten since this many were.
    Keep {
        /// The number of its site.
        site: usize,
        /// It.
        record: Box<Record>,
        /// How many were forgotten when it was asked for.
        forgotten: u64,
    },
    /// One that is kept has other fields.
    Renew {
        /// The number of its site.
        site: usize,
        /// It.
        record: Box<Record>,
        /// How many were forgotten when it was asked for.
        forgotten: u64,
    },
    /// What is kept of a key is old.
    Forget {
        /// The number of its site.
        site: usize,
        /// The key.
        key: SitePath,
    },
    /// What is kept of a key is to be taken for old, or all whose keys begin with it.
    Purge {
        /// The number of its site.
        site: usize,
        /// The key.
        key: SitePath,
        /// It is the beginning of keys.
        means_below: bool,
    },
    /// All that is kept is to be taken for old.
    ForgetAll,
}

impl Errand {
    /// Something is to be forgotten, and nothing is to be kept.
    pub fn forgets(&self) -> bool {
        matches!(
            self,
            Errand::Forget { .. } | Errand::Purge { .. } | Errand::ForgetAll
        )
    }

    /// Bytes of content that it has to itself.
    pub fn content_len(&self) -> usize {
        match self {
            Errand::Keep { record, .. } => record.body.as_slice().len(),
            Errand::Renew { .. }
            | Errand::Forget { .. }
            | Errand::Purge { .. }
            | Errand::ForgetAll => 0,
        }
    }
}

/// The account of answers.
#[derive(Debug)]
pub struct Keeping {
    cache: SharedCache,
    /// Those that are kept: what each takes, and of which rule it is.
    kept: HashMap<(usize, SitePath), Entry>,
    /// The names of those with one key, the oldest first.
    keys: HashMap<(usize, SitePath), Vec<SitePath>>,
    /// What the answers of a rule take together, and which they are, the oldest first. By the rule's address, which the answers hold.
    shares: HashMap<usize, Share>,
    count: u64,
    /// Keys that were forgotten, the newest last, and how many there were.
    forgotten: VecDeque<Gone>,
    forgotten_count: u64,
}

/// A key that was forgotten.
#[derive(Debug)]
struct Gone {
    site: usize,
    key: SitePath,
    purged: Option<Purged>,
}

/// An operator wanted it, so that more is of it than the key.
#[derive(Debug)]
struct Purged {
    means_below: bool,
}

impl Gone {
    fn has(&self, site: usize, key: &SitePath) -> bool {
        let is_of = match &self.purged {
            Some(purged) => key::is_of(key, &self.key, purged.means_below),
            None => false,
        };
        self.site == site && (self.key == *key || is_of)
    }
}

#[derive(Debug)]
struct Entry {
    number: u64,
    cost: u64,
    key: SitePath,
    /// Which content it is.
    identity: Arc<()>,
    rules: Arc<CacheRules>,
}

#[derive(Debug, Default)]
struct Share {
    cost: u64,
    by_age: BTreeMap<u64, (usize, SitePath)>,
}

/// What tells all cores of a change of a site, by its number.
pub type Tell<'a> = dyn FnMut(usize, Change) + 'a;

impl Keeping {
    /// Nothing is kept yet, and later what this has room for.
    pub fn new(cache: SharedCache) -> Keeping {
        Keeping {
            cache,
            kept: HashMap::new(),
            keys: HashMap::new(),
            shares: HashMap::new(),
            count: 0,
            forgotten: VecDeque::new(),
            forgotten_count: 0,
        }
    }

    /// Does what a core wants done.
    pub fn run(&mut self, errand: Errand, tell: &mut Tell<'_>) {
        match errand {
            Errand::Keep {
                site,
                record,
                forgotten,
            } => {
                let key = record.key.clone();
                if self.was_forgotten(site, &key, forgotten) || !self.keep(site, *record, tell) {
                    tell(site, Change::AnswerLost(key));
                }
            }
            Errand::Renew {
                site,
                record,
                forgotten,
            } => {
                let key = record.key.clone();
                if self.was_forgotten(site, &key, forgotten) || !self.renew(site, *record, tell) {
                    tell(site, Change::AnswerLost(key));
                }
            }
            Errand::Forget { site, key } => self.forget(site, key, None, tell),
            Errand::Purge {
                site,
                key,
                means_below,
            } => {
                let is_of = |(of, known): &&(usize, SitePath)| {
                    *of == site && *known != key && key::is_of(known, &key, means_below)
                };
                let of_it: Vec<SitePath> = self
                    .keys
                    .keys()
                    .filter(is_of)
                    .map(|(_, it)| it.clone())
                    .collect();
                let forget = |it| self.forget(site, it, None, tell);
                of_it.into_iter().for_each(forget);
                // What is on its way may be of it, too.
                self.forget(site, key, Some(Purged { means_below }), tell);
            }
            Errand::ForgetAll => {
                let all: Vec<(usize, SitePath)> = self.kept.keys().cloned().collect();
                all.iter().for_each(|(site, name)| self.leave(*site, name));
                // Of what is on its way nobody knows what was forgotten.
                self.forgotten.clear();
                self.forgotten_count += 1;
                tell(0, Change::Forgotten(everything(), self.forgotten_count));
            }
        }
    }

    /// What is kept of a key is old.
    fn forget(&mut self, site: usize, key: SitePath, purged: Option<Purged>, tell: &mut Tell<'_>) {
        for name in self.keys.remove(&(site, key.clone())).unwrap_or_default() {
            self.leave(site, &name);
        }
        self.forgotten.push_back(Gone {
            site,
            key: key.clone(),
            purged,
        });
        self.forgotten_count += 1;
        if self.forgotten.len() > FORGOTTEN_MAX {
            self.forgotten.pop_front();
        }
        tell(site, Change::Forgotten(key, self.forgotten_count));
    }

    /// Something else has gone from memory, or come there: what that says of answers.
    pub fn hear(&mut self, site: usize, change: &Change) {
        if let Change::AnswerGone(name) = change {
            self.strike(site, name);
        }
    }

    /// Whether a key was forgotten since this many had been. Where nobody knows any more, it was.
    fn was_forgotten(&self, site: usize, key: &SitePath, since: u64) -> bool {
        let news = self.forgotten_count.saturating_sub(since);
        let known = self.forgotten.len() as u64;
        let mut newest = self.forgotten.iter().rev().take(news as usize);
        news > known || newest.any(|it| it.has(site, key))
    }

    fn keep(&mut self, site: usize, record: Record, tell: &mut Tell<'_>) -> bool {
        record.body.prepare_sums();
        let (key, name) = (record.key.clone(), record.name.clone());
        let bytes = record.bytes();
        let beside = record.beside();
        let cost = |bytes: &SharedBytes| bytes.memory_len() as u64 + DOCUMENT_OVERHEAD_LEN;
        let cost = bytes.iter().map(cost).sum::<u64>() + beside;
        let rules = record.rules.clone();
        let was_kept = self.kept.contains_key(&(site, name.clone()));
        self.leave(site, &name);
        let gone = || Change::AnswerGone(name.clone());
        if !self.make_room(site, &key, cost, &rules, tell) {
            // Instead of the old one, which all cores have, there is none.
            was_kept.then(|| tell(site, gone()));
            return false;
        }
        let arrival = Arrival {
            bytes,
            about: About::default(),
            beside,
            is_kept: false,
            is_asked_for: false,
        };
        let admission = self.cache.lock().admit(site, &name, arrival);
        for Evicted { site, path, about } in admission.evicted {
            let change = Change::evicted(path, about);
            self.hear(site, &change);
            tell(site, change);
        }
        if !admission.is_held {
            was_kept.then(|| tell(site, gone()));
            return false;
        }
        self.count += 1;
        let number = self.count;
        let share = self.shares.entry(address(&rules)).or_default();
        share.cost += cost;
        share.by_age.insert(number, (site, name.clone()));
        let names = self.keys.entry((site, key.clone())).or_default();
        names.push(name.clone());
        let entry = Entry {
            number,
            cost,
            key,
            identity: record.identity.clone(),
            rules,
        };
        self.kept.insert((site, name), entry);
        tell(site, Change::Answer(Arc::new(record)));
        true
    }

    /// Has the oldest go of those with one key, and of those of a rule, until there is room. False where there would be none.
    fn make_room(
        &mut self,
        site: usize,
        key: &SitePath,
        cost: u64,
        rules: &Arc<CacheRules>,
        tell: &mut Tell<'_>,
    ) -> bool {
        let most = self.cache.lock().limit() / 100 * u64::from(rules.share_percent);
        if cost > most {
            return false;
        }
        let of_key = self.keys.get(&(site, key.clone()));
        let oldest = of_key.filter(|names| names.len() >= VARIANTS_MAX);
        if let Some(name) = oldest.and_then(|names| names.first()).cloned() {
            self.leave(site, &name);
            tell(site, Change::AnswerGone(name));
        }
        while let Some(share) = self.shares.get(&address(rules))
            && share.cost + cost > most
            && let Some((_, (of, name))) = share.by_age.first_key_value()
        {
            let (of, name) = (*of, name.clone());
            self.leave(of, &name);
            tell(of, Change::AnswerGone(name));
        }
        true
    }

    /// What is kept has other fields, if it is that which is kept: another content may have come instead since it was asked for.
    fn renew(&mut self, site: usize, record: Record, tell: &mut Tell<'_>) -> bool {
        let of = (site, record.name.clone());
        let Some(kept) = self.kept.get(&of) else {
            return false;
        };
        let is_it = Arc::ptr_eq(&kept.identity, &record.identity);
        if !is_it || !self.cache.lock().renew(site, &record.name, record.bytes()) {
            return false;
        }
        tell(site, Change::Answer(Arc::new(record)));
        true
    }

    /// An answer goes.
    fn leave(&mut self, site: usize, name: &SitePath) {
        self.strike(site, name);
        self.cache.lock().leave(site, name);
    }

    /// An answer has gone.
    fn strike(&mut self, site: usize, name: &SitePath) {
        let Some(entry) = self.kept.remove(&(site, name.clone())) else {
            return;
        };
        let address = address(&entry.rules);
        if let Some(share) = self.shares.get_mut(&address) {
            share.cost -= entry.cost;
            share.by_age.remove(&entry.number);
            if share.by_age.is_empty() {
                self.shares.remove(&address);
            }
        }
        let of_key = (site, entry.key);
        if let Some(names) = self.keys.get_mut(&of_key) {
            names.retain(|known| known != name);
            if names.is_empty() {
                self.keys.remove(&of_key);
            }
        }
    }
}

/// The key that stands for all.
fn everything() -> SitePath {
    SitePath::from(&b""[..])
}

fn address(rules: &Arc<CacheRules>) -> usize {
    Arc::as_ptr(rules) as usize
}

#[cfg(test)]
#[path = "keeping/tests.rs"]
mod tests;
