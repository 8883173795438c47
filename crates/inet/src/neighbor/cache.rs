//! The neighbour cache: entries, what is asked, what has waited (see the folder).

use crate::limits::SOLICITS_MAX;
use crate::neighbor::state::{Action, Event, Evidence, State};
use crate::neighbor::table::Table;
use crate::time::Instant;
use exos_wire::Mac;
use std::collections::VecDeque;
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

/// The neighbour cache of one link.
pub struct NeighborCache {
    table: Table,
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
            table: Table::new(seed),
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
        self.table.len()
    }

    /// True when nothing is known and nothing asked for.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// Every entry, for people to look at.
    pub fn iter(&self) -> impl Iterator<Item = (IpAddr, State, Option<Mac>)> + '_ {
        self.table.iter().map(|e| {
            let mac = e.state().has_mac().then_some(e.mac);
            (e.ip(), e.state(), mac)
        })
    }

    /// Where to send what goes to `ip`, an on-link unicast address. Unknown addresses begin to be
    /// asked for.
    #[inline]
    pub fn lookup(&mut self, now: Instant, ip: IpAddr) -> Lookup {
        let Some(slot) = self.find(ip) else {
            return self.begin(now, ip);
        };
        let entry = &self.table[slot];
        match entry.state() {
            State::Reachable | State::Delay | State::Probe => Lookup::Known(entry.mac),
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
        let entry = self.find(ip).map(|slot| &mut self.table[slot]);
        let Some(entry) = entry.filter(|e| e.state() == State::Incomplete) else {
            self.counters.frames_unexpected += 1;
            return;
        };
        self.counters.frames_overflowed += entry.frames.push(frame, &mut self.waiting);
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
                if let Some(slot) = self.insert(now, ip, State::Stale, 2) {
                    self.table[slot].mac = mac;
                }
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// The outside source of a cache made with [`Self::external`] says who has `ip`, asked for or
    /// not.
    pub fn learn(&mut self, now: Instant, ip: IpAddr, mac: Mac) -> Vec<Vec<u8>> {
        if self.find(ip).is_none() && self.insert(now, ip, State::Failed, 4).is_none() {
            return Vec::new();
        }
        self.handle_answer(now, ip, mac, Evidence::Solicited { overriding: true })
    }

    /// True while an answer of `ip` is waited for: one that nobody waits for confirms nothing.
    pub fn awaits(&self, ip: IpAddr) -> bool {
        let state = self.find(ip).map(|slot| self.table[slot].state());
        matches!(state, Some(State::Incomplete | State::Probe))
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
        for slot in (0..self.table.len()).rev() {
            let entry = &self.table[slot];
            if entry.deadline.is_some_and(|at| at <= now) {
                let exhausted = entry.solicits >= SOLICITS_MAX;
                self.apply(now, slot, Event::Timeout { exhausted });
            }
        }
        self.deadline_min = self.table.iter().filter_map(|e| e.deadline).min();
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
        let entry = &mut self.table[slot];
        entry.asking = false;
        let unicast_to = (entry.state() == State::Probe).then_some(entry.mac);
        Some(Solicit { ip, unicast_to })
    }

    fn begin(&mut self, now: Instant, ip: IpAddr) -> Lookup {
        match self.insert(now, ip, State::Incomplete, 4) {
            Some(slot) => {
                self.ask(slot);
                Lookup::Pending
            }
            None => Lookup::Unreachable,
        }
    }

    fn hear(&mut self, now: Instant, slot: usize, mac: Mac, evidence: Evidence) -> Vec<Vec<u8>> {
        let entry = &self.table[slot];
        let same = entry.state().has_mac() && entry.mac == mac;
        let action = self.apply(now, slot, Event::Heard { evidence, same });
        if action != Action::Record {
            return Vec::new();
        }
        if !same {
            self.generation += 1;
        }
        self.table[slot].mac = mac;
        self.release(slot, mac)
    }

    /// Let the table decide and carry out what needs no MAC.
    fn apply(&mut self, now: Instant, slot: usize, event: Event) -> Action {
        let before = self.table[slot].state();
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
        let before = self.table[slot].state();
        if before != state {
            self.table.set_state(now, slot, state);
            let entry = &mut self.table[slot];
            entry.solicits = 0;
            if std::mem::take(&mut entry.asking) {
                let ip = entry.ip();
                self.wanted.retain(|wanted| *wanted != ip);
            }
        }
        self.verifying += u32::from(state.is_in_doubt());
        self.verifying -= u32::from(before.is_in_doubt());
        self.set_deadline(slot, state.lifetime().map(|after| now + after));
    }

    fn set_deadline(&mut self, slot: usize, deadline: Option<Instant>) {
        self.table[slot].deadline = deadline;
        self.deadline_min = match (self.deadline_min, deadline) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    fn ask(&mut self, slot: usize) {
        let entry = &mut self.table[slot];
        entry.solicits += 1;
        if !std::mem::replace(&mut entry.asking, true) {
            self.wanted.push_back(entry.ip());
        }
    }

    /// The frames that waited, with their destination written.
    fn release(&mut self, slot: usize, mac: Mac) -> Vec<Vec<u8>> {
        let mut frames = self.table[slot].frames.take(&mut self.waiting);
        for frame in &mut frames {
            frame[..6].copy_from_slice(&mac.0);
        }
        frames
    }

    fn give_up(&mut self, slot: usize) {
        let entry = &mut self.table[slot];
        let frames = entry.frames.take(&mut self.waiting);
        self.counters.frames_unresolved += frames.len() as u64;
        self.counters.failures += 1;
        self.failed.push_back((entry.ip(), frames));
    }

    #[inline]
    fn find(&self, ip: IpAddr) -> Option<usize> {
        self.table.find(ip)
    }

    /// A new entry, evicting one of at most `rank_max` when the table is full.
    fn insert(&mut self, now: Instant, ip: IpAddr, state: State, rank_max: u8) -> Option<usize> {
        if self.table.is_full() {
            let Some(slot) = self.table.evictable(rank_max) else {
                self.counters.table_full += 1;
                return None;
            };
            self.counters.evictions += 1;
            self.remove(slot);
        }
        let slot = self.table.insert(now, ip, state);
        self.set_deadline(slot, state.lifetime().map(|after| now + after));
        Some(slot)
    }

    fn remove(&mut self, slot: usize) {
        let mut entry = self.table.remove(slot);
        self.counters.frames_unresolved += entry.frames.take(&mut self.waiting).len() as u64;
        self.verifying -= u32::from(entry.state().is_in_doubt());
        if entry.asking {
            self.wanted.retain(|ip| *ip != entry.ip());
        }
        if entry.state().has_mac() {
            self.generation += 1;
        }
    }
}

#[cfg(test)]
mod tests;
