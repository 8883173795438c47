//! The ledger: which document is held under which paths, what it takes, and what has to go for another.
//!
//! There are two accounts: this process's memory, and what it keeps of a [file cache](super::FromCache) that processes share. A document whose
//! content is there takes something of both, and goes when there is no room in the other.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exos_buf::SharedBytes;
use exos_replacement::{Key, Newcomer, Policy as _, S3Fifo};

use super::lending::FromCache;
use super::statistics::{self, Statistics};
use crate::limits::{CACHE_LARGE_PART, DOCUMENT_OVERHEAD_LEN, LEAVING_SWEPT};
use crate::site::path::{About, SitePath};

/// A document in memory.
#[derive(Debug)]
pub(super) struct Unit {
    site: usize,
    paths: Vec<SitePath>,
    about: About,
    bytes: Vec<SharedBytes>,
    cost: u64,
    /// Bytes of the file cache that it keeps.
    pub(super) lent: u64,
    /// The policy of its account knows of it; others stay for as long as their files.
    may_go: bool,
}

/// A document that comes into memory.
#[derive(Debug)]
pub struct Arrival {
    /// Its content and that of its variants.
    pub bytes: Vec<SharedBytes>,
    /// What is said of it when it is not there.
    pub about: About,
    /// What is known of it takes this much more than that of others.
    pub beside: u64,
    /// It stays for as long as its file.
    pub is_kept: bool,
    /// Somebody has asked for it.
    pub is_asked_for: bool,
}

/// A path whose document has been taken out of memory.
#[derive(Debug)]
pub struct Evicted {
    /// The number of its site.
    pub site: usize,
    /// The path.
    pub path: SitePath,
    /// What is said of it.
    pub about: About,
}

/// The documents in memory.
#[derive(Debug)]
pub struct Cache {
    limit: u64,
    held: u64,
    policy: S3Fifo,
    /// What is kept of the file cache, and which documents go for another there.
    pub(super) lent: u64,
    pub(super) lent_policy: S3Fifo,
    /// Memberships of it that are over, and of which nothing is kept any more.
    pub(super) memberships_ended: u64,
    pub(super) units: Vec<Option<Unit>>,
    free: Vec<Key>,
    by_path: HashMap<(usize, SitePath), Key>,
    leaving: VecDeque<(SharedBytes, u64)>,
    leaving_len: u64,
    /// Where documents come from by reference, if they do.
    pub(super) lender: Option<FromCache>,
    statistics: Arc<Statistics>,
}

impl Cache {
    /// Nothing yet, and later no more than this many bytes.
    pub fn new(limit: u64) -> Cache {
        Cache {
            limit,
            held: 0,
            policy: S3Fifo::default(),
            lent: 0,
            lent_policy: S3Fifo::default(),
            memberships_ended: 0,
            units: Vec::new(),
            free: Vec::new(),
            by_path: HashMap::new(),
            leaving: VecDeque::new(),
            leaving_len: 0,
            lender: None,
            statistics: Arc::new(Statistics {
                limit: limit.into(),
                ..Statistics::default()
            }),
        }
    }

    /// Documents come from there by reference, where it takes them.
    #[must_use]
    pub fn lending(self, lender: Option<FromCache>) -> Cache {
        Cache { lender, ..self }
    }

    /// Where they do.
    pub fn lender(&self) -> Option<&FromCache> {
        self.lender.as_ref()
    }

    /// What it says of itself.
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    pub(super) fn publish(&self) {
        self.statistics.held.store(self.held, Ordering::Relaxed);
        let leaving = self.leaving_len;
        self.statistics.leaving.store(leaving, Ordering::Relaxed);
        self.statistics.lent.store(self.lent, Ordering::Relaxed);
    }

    /// Bytes that may be in memory.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes of the documents that are to be had.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Bytes of documents that have been taken out and that somebody holds.
    pub fn leaving(&self) -> u64 {
        self.leaving_len
    }

    /// Documents that are to be had; one with several names counts once.
    pub fn documents(&self) -> usize {
        self.units.len() - self.free.len()
    }

    /// Whether the document at a path is to be had.
    pub fn holds(&self, site: usize, path: &SitePath) -> bool {
        self.key(site, path).is_some()
    }

    /// Whether a file of some length fits without anything having to go.
    pub fn has_room(&self, content_len: u64) -> bool {
        let cost = content_len + content_len / 64 + DOCUMENT_OVERHEAD_LEN;
        self.held.saturating_add(cost) <= self.room()
    }

    /// What documents that are to be had may take while others are leaving.
    fn room(&self) -> u64 {
        self.limit - self.leaving_len.min(self.limit / 2)
    }

    fn key(&self, site: usize, path: &SitePath) -> Option<Key> {
        self.by_path.get(&(site, path.clone())).copied()
    }

    /// Takes a document in, instead of what was at its path. One that is too large to have others go, or finds no room,
    /// is not held.
    pub fn admit(&mut self, site: usize, path: &SitePath, arrival: Arrival) -> Admission {
        self.leave(site, path);
        self.sweep();
        let (cost, room) = (cost(&arrival.bytes) + arrival.beside, self.room());
        if arrival.is_asked_for {
            statistics::add(&self.statistics.fetched, 1);
            statistics::add(&self.statistics.fetched_len, arrival.about.len);
        }
        let is_large = cost > self.limit / CACHE_LARGE_PART;
        let mut evicted = Vec::new();
        while self.held.saturating_add(cost) > room && (!is_large || arrival.is_kept) {
            let Some(mut victims) = self.evict(false).or_else(|| self.evict(true)) else {
                break;
            };
            evicted.append(&mut victims);
        }
        let lent = arrival.bytes.iter().map(SharedBytes::taken).sum();
        let is_lent = lent == 0 || self.has_lent_room(lent);
        let is_held = self.held.saturating_add(cost) <= room && is_lent || arrival.is_kept;
        evicted.append(&mut self.end_memberships());
        if is_held {
            self.hold(site, path, arrival, (cost, lent));
        } else {
            self.let_go(arrival.bytes);
        }
        self.publish();
        Admission { evicted, is_held }
    }

    fn hold(&mut self, site: usize, path: &SitePath, arrival: Arrival, (cost, lent): (u64, u64)) {
        let key = self.free.pop().unwrap_or_else(|| {
            self.units.push(None);
            Key::new(self.units.len() as u32 - 1)
        });
        let may_go = !arrival.is_kept;
        self.units[key.index()] = Some(Unit {
            site,
            paths: vec![path.clone()],
            about: arrival.about,
            bytes: arrival.bytes,
            cost,
            lent,
            may_go,
        });
        self.by_path.insert((site, path.clone()), key);
        self.held += cost;
        self.lent += lent;
        if may_go {
            self.policy_of(lent).admitted(Newcomer {
                key,
                name: name(site, path),
                bytes: if lent > 0 { lent } else { cost },
                is_asked_for: arrival.is_asked_for,
            });
        }
    }

    /// What is at a path has some other bytes, which weigh little more or less; false when nothing is held there.
    pub fn renew(&mut self, site: usize, path: &SitePath, bytes: Vec<SharedBytes>) -> bool {
        let Some(unit) = self
            .key(site, path)
            .and_then(|key| self.units[key.index()].as_mut())
        else {
            return false;
        };
        let (gone, come) = (cost(&unit.bytes), cost(&bytes));
        unit.cost = unit.cost - gone + come;
        self.held = self.held - gone + come;
        let before = std::mem::replace(&mut unit.bytes, bytes);
        let kept = &unit.bytes;
        let gone = before.into_iter();
        let gone = gone.filter(|it| !kept.iter().any(|kept| kept.same(it)));
        let gone = gone.collect();
        self.let_go(gone);
        self.publish();
        true
    }

    /// A path has the document of another; false when that is not held, nor is the path's own from now on.
    pub fn share(&mut self, site: usize, path: &SitePath, with: &SitePath) -> bool {
        let Some(key) = self.key(site, with) else {
            self.leave(site, path);
            return false;
        };
        if self.key(site, path) != Some(key) {
            self.leave(site, path);
            self.by_path.insert((site, path.clone()), key);
            let unit = self.units[key.index()].as_mut();
            unit.expect("it has a path").paths.push(path.clone());
        }
        true
    }

    /// A path has no document any more, or another; true if it had one that was held.
    pub fn leave(&mut self, site: usize, path: &SitePath) -> bool {
        let Some(key) = self.by_path.remove(&(site, path.clone())) else {
            return false;
        };
        let unit = self.units[key.index()].as_mut().expect("it has a path");
        unit.paths.retain(|known| known != path);
        if unit.paths.is_empty() {
            if unit.may_go {
                let lent = unit.lent;
                self.policy_of(lent).removed(key);
            }
            self.release(key);
            self.publish();
        }
        true
    }

    /// What says which documents go that keep so much of the file cache.
    fn policy_of(&mut self, lent: u64) -> &mut S3Fifo {
        match lent {
            0 => &mut self.policy,
            _ => &mut self.lent_policy,
        }
    }

    /// Takes out the document whose turn it is, of those in this process's memory or in the file cache; gives its paths.
    pub(super) fn evict(&mut self, is_lent: bool) -> Option<Vec<Evicted>> {
        let units = &self.units;
        let mut uses = |key: Key| {
            let unit = units.get(key.index()).and_then(Option::as_ref);
            let bytes = unit.into_iter().flat_map(|unit| &unit.bytes);
            bytes.map(SharedBytes::take_uses).max().unwrap_or(0)
        };
        let policy = match is_lent {
            false => &mut self.policy,
            true => &mut self.lent_policy,
        };
        let key = policy.victim(&mut uses)?;
        Some(self.take_out(key))
    }

    /// Takes a document out of which its policy knows nothing any more; gives its paths.
    pub(super) fn take_out(&mut self, key: Key) -> Vec<Evicted> {
        statistics::add(&self.statistics.evictions, 1);
        let unit = self.release(key);
        let Unit { site, about, .. } = unit;
        for path in &unit.paths {
            self.by_path.remove(&(site, path.clone()));
        }
        let evicted = |path| Evicted { site, path, about };
        unit.paths.into_iter().map(evicted).collect()
    }

    /// Gives a document back.
    fn release(&mut self, key: Key) -> Unit {
        let unit = self.units[key.index()].take().expect("it is held");
        self.free.push(key);
        self.held -= unit.cost;
        self.lent -= unit.lent;
        self.let_go(unit.bytes.clone());
        unit
    }

    /// Keeps bytes until nobody else holds them.
    fn let_go(&mut self, bytes: Vec<SharedBytes>) {
        for bytes in bytes {
            let cost = cost(std::slice::from_ref(&bytes));
            self.leaving_len += cost;
            self.leaving.push_back((bytes, cost));
        }
    }

    /// Frees what nobody holds any more, of some of what is leaving.
    pub fn sweep(&mut self) {
        for _ in 0..self.leaving.len().min(LEAVING_SWEPT) {
            let Some((bytes, cost)) = self.leaving.pop_front() else {
                return;
            };
            if bytes.holders() > 1 {
                self.leaving.push_back((bytes, cost));
            } else {
                self.leaving_len -= cost;
            }
        }
    }
}

/// What becomes of a document that has come.
#[derive(Debug)]
pub struct Admission {
    /// What has to go for it.
    pub evicted: Vec<Evicted>,
    /// Whether it is to be had from now on; else it is sent to who waits for it, and goes.
    pub is_held: bool,
}

/// What a document takes.
fn cost(bytes: &[SharedBytes]) -> u64 {
    let lens = bytes.iter().map(|bytes| bytes.memory_len() as u64);
    lens.map(|len| len + DOCUMENT_OVERHEAD_LEN).sum()
}

/// A number that stays the same for a document.
fn name(site: usize, path: &SitePath) -> u64 {
    let mut hasher = DefaultHasher::new();
    (site, path).hash(&mut hasher);
    hasher.finish()
}

/// The documents in memory, for all who read some.
#[derive(Clone, Debug)]
pub struct SharedCache(Arc<Mutex<Cache>>);

impl SharedCache {
    /// Nobody holds it for longer than a change of the ledger takes, so nobody waits.
    pub fn lock(&self) -> MutexGuard<'_, Cache> {
        // A thread that has panicked has left a ledger that is at worst inexact.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Cache> for SharedCache {
    fn from(cache: Cache) -> SharedCache {
        SharedCache(Arc::new(Mutex::new(cache)))
    }
}
