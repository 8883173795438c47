//! Who has this address: the neighbour cache, for ARP (RFC 826) and Neighbor Discovery (RFC 4861)
//! alike.
//!
//! The cache maps an on-link IP address to the MAC address that its frames go to. It performs
//! nothing: it says which solicitations to send ([`NeighborCache::poll_solicit`]) and takes what
//! was heard ([`NeighborCache::handle_answer`]); the stack turns the one into ARP requests or
//! neighbor solicitations and the other out of them. Rules of the interface:
//!
//! - Ask with [`NeighborCache::lookup`] before sending. `Known`: send. `Pending`: hand the complete
//!   frame to [`NeighborCache::queue`], it comes back from `handle_answer` with its destination
//!   written. `Unreachable`: the neighbour did not answer a moment ago; drop the packet and tell
//!   the one who sent it.
//! - A caller may keep a `Known` MAC for as long as [`NeighborCache::generation`] stands still. The
//!   generation moves when any MAC changes, vanishes or goes stale, so a keeper that asks again
//!   also tells the cache that the entry is in use.
//! - After any `handle_*`, drain `poll_solicit` (or `poll_unresolved`) and `poll_failed`.
//!
//! States are those of RFC 4861 §7.3.2 and one more, `Failed`, which keeps us from shouting for an
//! absent neighbour with every packet. Simplified from the RFC: reachable time is fixed and not
//! randomised, and the IsRouter flag is not kept. ARP is put in the same words: a reply to our
//! request is a solicited advertisement with the override flag, a gratuitous packet is an
//! unsolicited one, and a request for one of our addresses is a neighbor solicitation with a source
//! link-layer address.
//!
//! Invariants: `index` holds exactly one slot for each entry; only `Incomplete` entries hold
//! frames, and `waiting` is what these cost; an entry is in `wanted` exactly when its `asking` flag is set; `deadline_min` is never
//! later than any entry's deadline; `evictable` holds every entry whose state has an eviction rank.

mod state;

pub use state::{Evidence, State};

use crate::limits::{
    NEIGHBOR_BYTES_MAX, NEIGHBOR_FRAME_OVERHEAD, NEIGHBOR_FRAMES_MIN, NEIGHBORS_BYTES_MAX,
    NEIGHBORS_MAX, SOLICITS_MAX,
};
use crate::siphash::SipKey;
use crate::time::Instant;
use exos_wire::Mac;
use hashbrown::HashTable;
use state::{Action, Event};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

/// What the cache knows about an address now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Send to this MAC.
    Known(Mac),
    /// Being asked for: give the frame to [`NeighborCache::queue`].
    Pending,
    /// Did not answer, and is not asked again before the hold is over.
    Unreachable,
}

/// A solicitation that the stack shall send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicit {
    /// The address asked for.
    pub ip: IpAddr,
    /// Probe of a known neighbour: to this MAC alone. `None`: ARP broadcast, or solicited-node
    /// multicast.
    pub unicast_to: Option<Mac>,
}

/// What the cache refused or gave up, each by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeighborCounters {
    /// Frames pushed out by newer ones while their neighbour was unresolved.
    pub frames_overflowed: u64,
    /// Frames given back because their neighbour did not answer.
    pub frames_unresolved: u64,
    /// Frames queued for an address that was not (or no longer) being asked for.
    pub frames_unexpected: u64,
    /// Addresses that did not answer.
    pub failures: u64,
    /// Entries removed to make room.
    pub evictions: u64,
    /// Addresses not recorded because there was no room for them.
    pub table_full: u64,
    /// Unusable MAC addresses heard (group or all-zero).
    pub bad_mac: u64,
}

#[derive(Debug)]
struct Entry {
    ip: IpAddr,
    mac: Mac,
    state: State,
    deadline: Option<Instant>,
    changed: Instant,
    solicits: u8,
    asking: bool,
    frames: VecDeque<Vec<u8>>,
    /// What they cost, in bytes.
    waiting: usize,
}

impl Entry {
    /// Those that wait, to be sent or given up, and what they cost.
    fn take_frames(&mut self) -> (Vec<Vec<u8>>, usize) {
        let frames = std::mem::take(&mut self.frames);
        (frames.into(), std::mem::take(&mut self.waiting))
    }

    /// Its place among those that may have to make room.
    fn eviction_place(&self) -> Option<(u8, Instant, IpAddr)> {
        let rank = self.state.eviction_rank()?;
        Some((rank, self.changed, self.ip))
    }
}

/// The neighbour cache of one link.
pub struct NeighborCache {
    entries: Vec<Entry>,
    index: HashTable<u32>,
    /// Which goes first when the table is full: unresolved before stale, the longest unchanged first.
    evictable: BTreeSet<(u8, Instant, IpAddr)>,
    key: SipKey,
    generation: u64,
    deadline_min: Option<Instant>,
    wanted: VecDeque<IpAddr>,
    failed: VecDeque<(IpAddr, Vec<Vec<u8>>)>,
    external: bool,
    /// Entries whose neighbour's reachability is being verified.
    verifying: u32,
    /// What all waiting frames cost, in bytes.
    waiting: usize,
    counters: NeighborCounters,
}

impl NeighborCache {
    /// A cache that asks the link itself, through [`Self::poll_solicit`]. The seed keeps peers from
    /// choosing addresses that collide in the table.
    pub fn new(seed: u64) -> NeighborCache {
        NeighborCache {
            entries: Vec::new(),
            index: HashTable::new(),
            evictable: BTreeSet::new(),
            key: SipKey::from_seed(seed),
            generation: 0,
            deadline_min: None,
            wanted: VecDeque::new(),
            failed: VecDeque::new(),
            external: false,
            verifying: 0,
            waiting: 0,
            counters: NeighborCounters::default(),
        }
    }

    /// A cache that never speaks on the link, because the host's stack owns the address there:
    /// anyone who runs the stack asks the host for what [`Self::poll_unresolved`] names and answers
    /// with [`Self::learn`].
    pub fn external(seed: u64) -> NeighborCache {
        NeighborCache {
            external: true,
            ..NeighborCache::new(seed)
        }
    }

    /// Number that moves whenever a MAC given out by [`Self::lookup`] should be asked for again.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What was refused or given up.
    pub fn counters(&self) -> NeighborCounters {
        self.counters
    }

    /// Entries now, of every state.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when nothing is known and nothing asked for.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Every entry, for people to look at.
    pub fn iter(&self) -> impl Iterator<Item = (IpAddr, State, Option<Mac>)> + '_ {
        self.entries
            .iter()
            .map(|e| (e.ip, e.state, e.state.has_mac().then_some(e.mac)))
    }

    /// Where to send what goes to `ip`, an on-link unicast address. Unknown addresses begin to be
    /// asked for.
    #[inline]
    pub fn lookup(&mut self, now: Instant, ip: IpAddr) -> Lookup {
        let Some(slot) = self.find(ip) else {
            return self.begin(now, ip);
        };
        let entry = &self.entries[slot];
        match entry.state {
            State::Reachable | State::Delay | State::Probe | State::Static => {
                Lookup::Known(entry.mac)
            }
            State::Stale => {
                let mac = entry.mac;
                self.apply(now, slot, Event::Used);
                Lookup::Known(mac)
            }
            State::Incomplete => Lookup::Pending,
            State::Failed => Lookup::Unreachable,
        }
    }

    /// Keep a complete frame until the MAC is known; its first six bytes are overwritten then. The
    /// oldest frames of this neighbour go when there are too many.
    pub fn queue(&mut self, ip: IpAddr, frame: Vec<u8>) {
        debug_assert!(frame.len() >= 6, "a frame begins with its destination");
        let entry = self.find(ip).map(|slot| &mut self.entries[slot]);
        let Some(entry) = entry.filter(|e| e.state == State::Incomplete) else {
            self.counters.frames_unexpected += 1;
            return;
        };
        let cost = cost_of(&frame);
        while entry.frames.len() >= NEIGHBOR_FRAMES_MIN
            && (entry.waiting + cost > NEIGHBOR_BYTES_MAX
                || self.waiting + cost > NEIGHBORS_BYTES_MAX)
            && let Some(oldest) = entry.frames.pop_front()
        {
            entry.waiting -= cost_of(&oldest);
            self.waiting -= cost_of(&oldest);
            self.counters.frames_overflowed += 1;
        }
        entry.waiting += cost;
        self.waiting += cost;
        entry.frames.push_back(frame);
    }

    /// A MAC was heard. Gives back the frames that waited for it, oldest first, ready to be sent.
    /// Addresses that nobody asked for are ignored unless they ask for us ([`Evidence::Request`]).
    pub fn handle_answer(
        &mut self,
        now: Instant,
        ip: IpAddr,
        mac: Mac,
        evidence: Evidence,
    ) -> Vec<Vec<u8>> {
        // RFC 1812 §3.3.2: do not believe an answer that says a neighbour's MAC is a group's.
        if !mac.is_unicast() || mac == Mac::ZERO || ip.is_multicast() || ip.is_unspecified() {
            self.counters.bad_mac += 1;
            return Vec::new();
        }
        match self.find(ip) {
            Some(slot) => self.hear(now, slot, mac, evidence),
            None if evidence == Evidence::Request => {
                // Strangers may not push out what is in use.
                if let Some(slot) = self.insert(now, ip, State::Stale, Some(2)) {
                    self.entries[slot].mac = mac;
                }
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// The outside source of a cache made with [`Self::external`] says who has `ip`, asked for or
    /// not.
    pub fn learn(&mut self, now: Instant, ip: IpAddr, mac: Mac) -> Vec<Vec<u8>> {
        if self.find(ip).is_none() && self.insert(now, ip, State::Failed, Some(4)).is_none() {
            return Vec::new();
        }
        self.handle_answer(now, ip, mac, Evidence::Solicited { overriding: true })
    }

    /// Set a neighbour by hand: nothing heard changes it, and it does not expire.
    pub fn set_static(&mut self, now: Instant, ip: IpAddr, mac: Mac) -> Vec<Vec<u8>> {
        let Some(slot) = self
            .find(ip)
            .or_else(|| self.insert(now, ip, State::Static, Some(4)))
        else {
            return Vec::new();
        };
        self.generation += 1;
        self.entries[slot].mac = mac;
        self.enter(now, slot, State::Static);
        self.release(slot, mac)
    }

    /// True while an answer of `ip` is waited for: one that nobody waits for confirms nothing.
    pub fn awaits(&self, ip: IpAddr) -> bool {
        let state = self.find(ip).map(|slot| self.entries[slot].state);
        matches!(state, Some(State::Incomplete | State::Probe))
    }

    /// Remove what is known about `ip`; frames that waited for it are dropped.
    pub fn forget(&mut self, ip: IpAddr) {
        if let Some(slot) = self.find(ip) {
            self.counters.frames_unresolved += self.entries[slot].frames.len() as u64;
            self.remove(slot);
        }
    }

    /// The upper layer heard from `ip` in answer to what we sent (RFC 4861 §7.3.1): it is
    /// reachable.
    pub fn confirm(&mut self, now: Instant, ip: IpAddr) {
        if let Some(slot) = self.find(ip) {
            self.apply(now, slot, Event::Confirmed);
        }
    }

    /// True while a confirmation would spare somebody a probe; false nearly always, so that anyone who
    /// could confirm with every packet need not.
    #[inline]
    pub fn is_verifying(&self) -> bool {
        self.verifying > 0
    }

    /// The upper layer's packets to `ip` are not answered: verify the neighbour when it is next
    /// used.
    pub fn suspect(&mut self, now: Instant, ip: IpAddr) {
        if let Some(slot) = self.find(ip) {
            self.apply(now, slot, Event::Suspected);
        }
    }

    /// When [`Self::handle_timeout`] wants to be called. May be early, is never late.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadline_min
    }

    /// Advance every entry whose time is over.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.deadline_min.is_none_or(|at| now < at) {
            return;
        }
        // Backwards, because removal moves the last entry into the hole.
        for slot in (0..self.entries.len()).rev() {
            let entry = &self.entries[slot];
            if entry.deadline.is_some_and(|at| at <= now) {
                let exhausted = entry.solicits >= SOLICITS_MAX;
                self.apply(now, slot, Event::Timeout { exhausted });
            }
        }
        self.deadline_min = self.entries.iter().filter_map(|e| e.deadline).min();
    }

    /// The next solicitation to send, `None` when there is none. Nothing in a cache made with
    /// [`Self::external`].
    #[inline]
    pub fn poll_solicit(&mut self, _now: Instant) -> Option<Solicit> {
        if self.has_solicits() {
            self.next_wanted()
        } else {
            None
        }
    }

    /// True when [`Self::poll_solicit`] has something.
    #[inline]
    pub fn has_solicits(&self) -> bool {
        !self.external && !self.wanted.is_empty()
    }

    /// The next address to ask the host for, in a cache made with [`Self::external`].
    pub fn poll_unresolved(&mut self) -> Option<IpAddr> {
        if self.external {
            self.next_wanted().map(|s| s.ip)
        } else {
            None
        }
    }

    /// True when [`Self::poll_failed`] has something.
    #[inline]
    pub fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// An address that did not answer, with the frames that waited for it, so that their senders
    /// can be told.
    pub fn poll_failed(&mut self) -> Option<(IpAddr, Vec<Vec<u8>>)> {
        self.failed.pop_front()
    }

    fn next_wanted(&mut self) -> Option<Solicit> {
        let ip = self.wanted.pop_front()?;
        let slot = self.find(ip).expect("who is wanted is in the table");
        let entry = &mut self.entries[slot];
        entry.asking = false;
        let unicast_to = (entry.state == State::Probe).then_some(entry.mac);
        Some(Solicit { ip, unicast_to })
    }

    fn begin(&mut self, now: Instant, ip: IpAddr) -> Lookup {
        match self.insert(now, ip, State::Incomplete, Some(4)) {
            Some(slot) => {
                self.ask(slot);
                Lookup::Pending
            }
            None => Lookup::Unreachable,
        }
    }

    fn hear(&mut self, now: Instant, slot: usize, mac: Mac, evidence: Evidence) -> Vec<Vec<u8>> {
        let entry = &self.entries[slot];
        let same = entry.state.has_mac() && entry.mac == mac;
        let action = self.apply(now, slot, Event::Heard { evidence, same });
        if action != Action::Record {
            return Vec::new();
        }
        if !same {
            self.generation += 1;
        }
        self.entries[slot].mac = mac;
        self.release(slot, mac)
    }

    /// Let the table decide and carry out what needs no MAC.
    fn apply(&mut self, now: Instant, slot: usize, event: Event) -> Action {
        let before = self.entries[slot].state;
        let (state, action) = before.on(event);
        if state != before || matches!(event, Event::Confirmed) || action == Action::Record {
            self.enter(now, slot, state);
        }
        if before == State::Reachable && state == State::Stale {
            self.generation += 1;
        }
        match action {
            Action::Nothing | Action::Record => {}
            Action::Solicit => {
                self.set_deadline(slot, state.lifetime().map(|after| now + after));
                self.ask(slot);
            }
            Action::GiveUp => self.give_up(slot),
            Action::Remove => self.remove(slot),
        }
        action
    }

    fn enter(&mut self, now: Instant, slot: usize, state: State) {
        let entry = &mut self.entries[slot];
        if entry.state != state {
            entry.solicits = 0;
            if let Some(place) = entry.eviction_place() {
                self.evictable.remove(&place);
            }
            entry.changed = now;
            self.evictable
                .extend(state.eviction_rank().map(|rank| (rank, now, entry.ip)));
            if std::mem::take(&mut entry.asking) {
                self.wanted.retain(|ip| *ip != entry.ip);
            }
        }
        self.verifying += u32::from(state.is_in_doubt());
        self.verifying -= u32::from(entry.state.is_in_doubt());
        entry.state = state;
        self.set_deadline(slot, state.lifetime().map(|after| now + after));
    }

    fn set_deadline(&mut self, slot: usize, deadline: Option<Instant>) {
        self.entries[slot].deadline = deadline;
        self.deadline_min = match (self.deadline_min, deadline) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    fn ask(&mut self, slot: usize) {
        let entry = &mut self.entries[slot];
        entry.solicits += 1;
        if !std::mem::replace(&mut entry.asking, true) {
            self.wanted.push_back(entry.ip);
        }
    }

    /// The frames that waited, with their destination written.
    fn release(&mut self, slot: usize, mac: Mac) -> Vec<Vec<u8>> {
        let (mut frames, cost) = self.entries[slot].take_frames();
        self.waiting -= cost;
        for frame in &mut frames {
            frame[..6].copy_from_slice(&mac.0);
        }
        frames
    }

    fn give_up(&mut self, slot: usize) {
        let entry = &mut self.entries[slot];
        let (frames, cost) = entry.take_frames();
        self.waiting -= cost;
        self.counters.frames_unresolved += frames.len() as u64;
        self.counters.failures += 1;
        self.failed.push_back((entry.ip, frames));
    }

    fn hash(key: &SipKey, ip: IpAddr) -> u64 {
        match ip {
            IpAddr::V4(v4) => key.hash(&[u64::from(v4.to_bits())]),
            IpAddr::V6(v6) => key.hash(&[(v6.to_bits() >> 64) as u64, v6.to_bits() as u64]),
        }
    }

    #[inline]
    fn find(&self, ip: IpAddr) -> Option<usize> {
        let hash = Self::hash(&self.key, ip);
        self.index
            .find(hash, |&slot| self.entries[slot as usize].ip == ip)
            .map(|&slot| slot as usize)
    }

    /// A new entry, evicting one of at most `rank_max` when the table is full.
    fn insert(
        &mut self,
        now: Instant,
        ip: IpAddr,
        state: State,
        rank_max: Option<u8>,
    ) -> Option<usize> {
        debug_assert!(self.find(ip).is_none());
        if self.entries.len() == NEIGHBORS_MAX && !self.evict(rank_max) {
            self.counters.table_full += 1;
            return None;
        }
        let slot = self.entries.len();
        let entry = Entry {
            ip,
            mac: Mac::ZERO,
            state,
            deadline: None,
            changed: now,
            solicits: 0,
            asking: false,
            frames: VecDeque::new(),
            waiting: 0,
        };
        self.evictable.extend(entry.eviction_place());
        self.entries.push(entry);
        let (key, entries) = (&self.key, &self.entries);
        let rehash = |&slot: &u32| Self::hash(key, entries[slot as usize].ip);
        self.index
            .insert_unique(Self::hash(key, ip), slot as u32, rehash);
        self.set_deadline(slot, state.lifetime().map(|after| now + after));
        Some(slot)
    }

    /// Make room by removing the first of `evictable`, when its rank is at most `rank_max`.
    fn evict(&mut self, rank_max: Option<u8>) -> bool {
        let first = self.evictable.first();
        let Some(&(_, _, ip)) = first.filter(|(rank, ..)| Some(*rank) <= rank_max) else {
            return false;
        };
        let slot = self.find(ip).expect("who can be evicted is in the table");
        self.counters.evictions += 1;
        self.counters.frames_unresolved += self.entries[slot].frames.len() as u64;
        self.remove(slot);
        true
    }

    fn remove(&mut self, slot: usize) {
        let gone = self.hash_at(slot);
        self.index
            .find_entry(gone, |&s| s as usize == slot)
            .expect("indexed")
            .remove();
        let last = self.entries.len() - 1;
        if slot != last {
            let moved = self.hash_at(last);
            *self
                .index
                .find_mut(moved, |&s| s as usize == last)
                .expect("indexed") = slot as u32;
        }
        let entry = self.entries.swap_remove(slot);
        self.waiting -= entry.waiting;
        if let Some(place) = entry.eviction_place() {
            self.evictable.remove(&place);
        }
        self.verifying -= u32::from(entry.state.is_in_doubt());
        if entry.asking {
            self.wanted.retain(|ip| *ip != entry.ip);
        }
        if entry.state.has_mac() {
            self.generation += 1;
        }
    }

    fn hash_at(&self, slot: usize) -> u64 {
        Self::hash(&self.key, self.entries[slot].ip)
    }
}

/// What a frame costs while it waits, in bytes.
fn cost_of(frame: &[u8]) -> usize {
    frame.len() + NEIGHBOR_FRAME_OVERHEAD
}

#[cfg(test)]
mod tests;
