//! The ledger: which document is held under which paths, what it takes, and what has to go for another.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exos_buf::SharedBytes;
use exos_replacement::{Key, Newcomer, Policy as _, S3Fifo};

use super::statistics::{self, Statistics};
use crate::limits::{CACHE_LARGE_PART, DOCUMENT_OVERHEAD_LEN, LEAVING_SWEPT};
use crate::site::path::{About, SitePath};

/// A document in memory.
#[derive(Debug)]
struct Unit {
    site: usize,
    paths: Vec<SitePath>,
    about: About,
    bytes: Vec<SharedBytes>,
    cost: u64,
    /// The policy knows of it; others stay for as long as their files.
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
    units: Vec<Option<Unit>>,
    free: Vec<Key>,
    by_path: HashMap<(usize, SitePath), Key>,
    leaving: VecDeque<(SharedBytes, u64)>,
    leaving_len: u64,
    statistics: Arc<Statistics>,
}

impl Cache {
    /// Nothing yet, and later no more than this many bytes.
    pub fn new(limit: u64) -> Cache {
        Cache {
            limit,
            held: 0,
            policy: S3Fifo::default(),
            units: Vec::new(),
            free: Vec::new(),
            by_path: HashMap::new(),
            leaving: VecDeque::new(),
            leaving_len: 0,
            statistics: Arc::new(Statistics {
                limit: limit.into(),
                ..Statistics::default()
            }),
        }
    }

    /// What it says of itself.
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    fn publish(&self) {
        self.statistics.held.store(self.held, Ordering::Relaxed);
        let leaving = self.leaving_len;
        self.statistics.leaving.store(leaving, Ordering::Relaxed);
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
            let Some(mut victims) = self.evict() else {
                break;
            };
            evicted.append(&mut victims);
        }
        let is_held = self.held.saturating_add(cost) <= room || arrival.is_kept;
        if is_held {
            self.hold(site, path, arrival, cost);
        } else {
            self.let_go(arrival.bytes);
        }
        self.publish();
        Admission { evicted, is_held }
    }

    fn hold(&mut self, site: usize, path: &SitePath, arrival: Arrival, cost: u64) {
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
            may_go,
        });
        self.by_path.insert((site, path.clone()), key);
        self.held += cost;
        if may_go {
            self.policy.admitted(Newcomer {
                key,
                name: name(site, path),
                bytes: cost,
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
        let kept: Vec<*const u8> = unit.bytes.iter().map(|it| it.as_slice().as_ptr()).collect();
        let gone = before.into_iter();
        let gone = gone.filter(|it| !kept.contains(&it.as_slice().as_ptr()));
        self.let_go(gone.collect());
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
                self.policy.removed(key);
            }
            self.release(key);
            self.publish();
        }
        true
    }

    /// Takes out the document whose turn it is; gives its paths.
    fn evict(&mut self) -> Option<Vec<Evicted>> {
        let units = &self.units;
        let mut uses = |key: Key| {
            let unit = units.get(key.index()).and_then(Option::as_ref);
            let bytes = unit.into_iter().flat_map(|unit| &unit.bytes);
            bytes.map(SharedBytes::take_uses).max().unwrap_or(0)
        };
        let key = self.policy.victim(&mut uses)?;
        statistics::add(&self.statistics.evictions, 1);
        let unit = self.release(key);
        let Unit { site, about, .. } = unit;
        for path in &unit.paths {
            self.by_path.remove(&(site, path.clone()));
        }
        let evicted = |path| Evicted { site, path, about };
        Some(unit.paths.into_iter().map(evicted).collect())
    }

    /// Gives a document back.
    fn release(&mut self, key: Key) -> Unit {
        let unit = self.units[key.index()].take().expect("it is held");
        self.free.push(key);
        self.held -= unit.cost;
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
