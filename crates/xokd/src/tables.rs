//! The daemon's side of the shared tables: memory, and what is written where.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;

use exos_filter::gate::Counter;
use exos_host::error::{Context as _, Result};
use exos_host::shared::SharedWords;
use exos_xok::limits::TABLE_COUNTERS;
use exos_xok::tables::{Grant, Neighbour, Slot, TablesWriter, WORDS};

use crate::ledger::{Change, Ledger, SlotId};

const _: () = assert!(Counter::COUNT <= TABLE_COUNTERS);

/// The tables in memory.
#[derive(Debug)]
pub struct Tables {
    words: SharedWords,
    descriptor: Rc<OwnedFd>,
    /// The places of grants.
    places: HashMap<u32, usize>,
    /// Places that were given back, below those that never were any.
    free: Vec<usize>,
    changed: bool,
    news: bool,
}

impl Tables {
    /// Empty tables.
    pub fn new() -> Result<Self> {
        let words = SharedWords::create("exos-tables", WORDS)?;
        let descriptor = words.as_fd().try_clone_to_owned();
        let descriptor = descriptor.context(|| "cannot pass the tables on")?;
        TablesWriter::new(words.words(), std::process::id());
        Ok(Self {
            words,
            descriptor: descriptor.into(),
            places: HashMap::new(),
            free: Vec::new(),
            changed: false,
            news: false,
        })
    }

    /// Writes something that programs may be waiting for.
    pub fn write<T>(&mut self, write: impl FnOnce(&TablesWriter<'_>) -> T) -> T {
        self.news();
        write(&self.writer())
    }

    /// What was written is something that programs may be waiting for.
    pub fn news(&mut self) {
        (self.changed, self.news) = (true, true);
    }

    /// Writes something that nobody is told of: counters, and what is looked at before it is.
    pub fn write_quietly<T>(&mut self, write: impl FnOnce(&TablesWriter<'_>) -> T) -> T {
        write(&self.writer())
    }

    /// A slot is nobody's any more. Programs are not told of each other.
    pub fn remove_slot(&mut self, slot: SlotId) {
        self.changed = true;
        self.write_quietly(|w| w.set::<Slot>(slot as usize, None));
    }

    /// Enters a neighbour, as it is known now.
    pub fn set_neighbour(&mut self, neighbour: &Neighbour) {
        if self.writer().set_neighbour(neighbour) {
            self.news();
        }
    }

    /// A neighbour is not known any more.
    pub fn remove_neighbour(&mut self, interface: u32, ip: IpAddr) {
        self.write(|w| w.remove_neighbour(interface, ip));
    }

    fn writer(&self) -> TablesWriter<'_> {
        TablesWriter::new(self.words.words(), std::process::id())
    }

    /// The descriptor for programs. One for all: who is let in has it also when the daemon has none left.
    pub fn descriptor(&self) -> Rc<OwnedFd> {
        self.descriptor.clone()
    }

    /// Raises the generation when something has changed since the last call. Returns it when programs are to be told:
    /// not of each other's grants.
    pub fn publish(&mut self) -> Option<u64> {
        let generation = std::mem::take(&mut self.changed).then(|| self.writer().changed());
        generation.filter(|_| std::mem::take(&mut self.news))
    }

    /// Enters a grant as the ledger has it now.
    pub fn grant(&mut self, ledger: &Ledger, change: &Change) {
        let row = ledger.grant(change.grant).map(|grant| Grant {
            id: change.grant,
            slot: grant.slot(),
            holders: grant.holders.len() as u32,
            claim: grant.claim,
        });
        let at = match (self.places.get(&change.grant), &row) {
            (Some(at), Some(_)) => *at,
            (Some(_), None) => self.give_back(change.grant),
            (None, Some(_)) => self.take(change.grant),
            (None, None) => return,
        };
        self.changed = true;
        self.writer().set(at, row.as_ref());
    }

    fn take(&mut self, grant: u32) -> usize {
        // All that were ever taken are either taken or free.
        let next = self.places.len();
        let at = self.free.pop().unwrap_or(next);
        self.places.insert(grant, at);
        at
    }

    fn give_back(&mut self, grant: u32) -> usize {
        let at = self.places.remove(&grant).expect("it has a place");
        self.free.push(at);
        at
    }
}
