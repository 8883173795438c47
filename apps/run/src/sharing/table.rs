//! Shared sockets by their numbers.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use exos_preload::memory::{SOCKETS, Shared, options};
use rustix::net::AddressFamily;

use super::addresses::address_of;
use super::entry::Entry;
use crate::counters::{Moved, SocketCounters};

pub(super) struct Table {
    memory: Rc<Shared>,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// Listeners whose connections have to wait for a socket.
    stalled: Vec<u32>,
    /// Of those that are over, but for how many there were and are.
    counters: SocketCounters,
}

impl Table {
    pub fn new(memory: Rc<Shared>) -> Self {
        Self {
            memory,
            entries: Vec::new(),
            free: Vec::new(),
            stalled: Vec::new(),
            counters: SocketCounters::default(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.counters.open == 0
    }

    /// Whether there is room for another.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() || self.entries.len() < SOCKETS
    }

    /// How many numbers were ever used.
    pub fn numbers(&self) -> usize {
        self.entries.len()
    }

    pub fn get(&self, number: u32) -> Option<&Entry> {
        self.entries.get(number as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut Entry> {
        self.entries.get_mut(number as usize)?.as_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Entry)> {
        (0..)
            .zip(&self.entries)
            .filter_map(|(number, entry)| Some((number, entry.as_ref()?)))
    }

    /// Gives a socket a number, and says in the memory what it is.
    pub fn insert(&mut self, entry: Entry, bits: u32) -> Option<u32> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.entries.len() < SOCKETS => {
                self.entries.push(None);
                self.entries.len() as u32 - 1
            }
            None => return None,
        };
        let socket = self.memory.socket(number);
        socket.local.set(address_of(entry.local, entry.family));
        if let Some(peer) = entry.peer {
            socket.peer.set(address_of(peer, entry.family));
        }
        socket.set_option(options::IPV6, entry.family == AddressFamily::INET6);
        socket.add(bits);
        self.entries[number as usize] = Some(entry);
        self.counters.open += 1;
        self.counters.made += 1;
        Some(number)
    }

    /// Nobody refers to a socket any more.
    pub fn remove(&mut self, number: u32) -> Option<Entry> {
        let entry = self.entries.get_mut(number as usize)?.take()?;
        self.counters.calls += self.calls_of(number);
        self.counters.moved.add(entry.moved());
        self.memory.renew(number);
        for stalled in std::mem::take(&mut self.stalled) {
            self.memory.work().set(stalled);
        }
        if entry.has_moved_much() {
            self.memory.free_rings(number);
        }
        self.free.push(number);
        self.counters.open -= 1;
        Some(entry)
    }

    /// A listener goes on when a number is free.
    pub fn stall(&mut self, number: u32) {
        self.stalled.push(number);
    }

    /// What has passed by one that is not counted by itself any more.
    pub fn count(&mut self, moved: Moved) {
        self.counters.moved.add(moved);
    }

    pub fn counters(&self) -> SocketCounters {
        let mut counters = self.counters;
        for (number, entry) in self.iter() {
            counters.calls += self.calls_of(number);
            counters.moved.add(entry.moved());
        }
        counters
    }

    /// Calls that a socket has answered since it was made.
    fn calls_of(&self, number: u32) -> u64 {
        self.memory.socket(number).calls.load(Ordering::Relaxed)
    }
}
