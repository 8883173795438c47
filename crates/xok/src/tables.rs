//! The shared tables: memory that the daemon writes and everybody reads without locks.
//!
//! One sealed memory file, mapped writable by the daemon alone and read-only by programs, seen here as a slice of
//! 64-bit words that another process may change at any time. Hence every access is atomic, and what was read is
//! checked before it is believed.
//!
//! # Layout
//!
//! Words in the machine's byte order (it never leaves the machine). Word 0 is [`MAGIC`], word 1 [`LAYOUT`], word 2
//! the number of words, word 3 the generation, word 4 the daemon's process; the rest of the first 64 is zero. Then
//! the tables, each a row of records of one size: interfaces, addresses, neighbours, routes, slots, grants
//! ([`rows`] says what is in a record).
//!
//! Each record begins with a sequence number: odd while it is written, and two more afterwards. A reader takes the
//! number, the words, and the number again; equal and even means that the words belong together. Readers never
//! wait: after [`READ_ATTEMPTS`] a record counts as absent, which happens only when its writer died within it.
//!
//! The generation grows by one with each change of anything but counters, after the change.
//!
//! A neighbour stands within [`TABLE_NEIGHBOUR_PROBES`] places of the one that its address points to, so looking
//! for one reads at most that many records.

pub mod rows;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::limits::{READ_ATTEMPTS, TABLE_NEIGHBOUR_PROBES, TABLE_NEIGHBOURS};
pub use rows::{Address, Grant, Interface, Neighbour, NeighbourState, Route, Slot};
use rows::{ROW_WORDS_MAX, Row};

/// Word 0: "EXOSXOKT".
pub const MAGIC: u64 = u64::from_be_bytes(*b"EXOSXOKT");

/// Word 1: the version of this layout.
pub const LAYOUT: u64 = 3;

/// Words of the whole.
pub const WORDS: usize = Grant::AT + Grant::ROWS * Grant::WORDS;

/// Bytes of the whole.
pub const BYTES: usize = WORDS * 8;

/// Why memory is not tables that we can read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadTables {
    /// Not our memory at all, or not begun.
    NotTables,
    /// Another layout: the daemon and the program are of different versions.
    OtherLayout(u64),
    /// Shorter than it says.
    TooShort,
}

impl std::fmt::Display for BadTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotTables => f.write_str("this is not the daemon's shared memory"),
            Self::OtherLayout(theirs) => write!(
                f,
                "the daemon's tables have layout {theirs} and this program reads {LAYOUT}; use programs and a daemon of one version"
            ),
            Self::TooShort => f.write_str("the daemon's shared memory is too short"),
        }
    }
}

impl std::error::Error for BadTables {}

/// The tables, for reading.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Tables<'a> {
    /// Takes memory as tables.
    pub fn new(words: &'a [AtomicU64]) -> Result<Self, BadTables> {
        let word = |at: usize| words.get(at).map(|w| w.load(Ordering::Acquire));
        if word(0) != Some(MAGIC) {
            return Err(BadTables::NotTables);
        }
        match word(1) {
            Some(LAYOUT) => {}
            other => return Err(BadTables::OtherLayout(other.unwrap_or(0))),
        }
        if words.len() < WORDS || word(2) != Some(WORDS as u64) {
            return Err(BadTables::TooShort);
        }
        Ok(Self {
            words: &words[..WORDS],
        })
    }

    /// Grows with every change of anything but counters.
    pub fn generation(&self) -> u64 {
        self.words[3].load(Ordering::Acquire)
    }

    /// The daemon's process.
    pub fn daemon(&self) -> u32 {
        self.words[4].load(Ordering::Relaxed) as u32
    }

    /// The interfaces that the daemon serves.
    pub fn interfaces(&self) -> impl Iterator<Item = Interface> + use<'a> {
        self.all()
    }

    /// The addresses of all of them.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + use<'a> {
        self.all()
    }

    /// All neighbours.
    pub fn neighbours(&self) -> impl Iterator<Item = Neighbour> + use<'a> {
        self.all()
    }

    /// All routes.
    pub fn routes(&self) -> impl Iterator<Item = Route> + use<'a> {
        self.all()
    }

    /// The programs that are attached, with their counters.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + use<'a> {
        self.all()
    }

    /// The program of this slot.
    pub fn slot(&self, number: u32) -> Option<Slot> {
        read(self.words, usize::try_from(number).ok()?)
    }

    /// What is granted.
    pub fn grants(&self) -> impl Iterator<Item = Grant> + use<'a> {
        self.all()
    }

    /// What is known of a neighbour.
    pub fn neighbour(&self, interface: u32, ip: IpAddr) -> Option<Neighbour> {
        places(interface, ip)
            .filter_map(|at| read::<Neighbour>(self.words, at))
            .find(|n| n.interface == interface && n.ip == ip)
    }

    /// The route that packets to this address take on an interface: the longest prefix that has it.
    pub fn route(&self, interface: u32, ip: IpAddr) -> Option<Route> {
        self.routes()
            .filter(|route| route.interface == interface && route.contains(ip))
            .max_by_key(|route| route.prefix)
    }

    fn all<R: Row>(&self) -> impl Iterator<Item = R> + use<'a, R> {
        let words = self.words;
        (0..R::ROWS).filter_map(move |at| read(words, at))
    }
}

/// The tables, for the daemon. There is one writer; nothing here takes turns with a second.
#[derive(Debug)]
pub struct TablesWriter<'a> {
    words: &'a [AtomicU64],
}

impl<'a> TablesWriter<'a> {
    /// Begins tables in zeroed memory.
    ///
    /// # Panics
    ///
    /// When there are fewer than [`WORDS`] words.
    pub fn new(words: &'a [AtomicU64], pid: u32) -> Self {
        let words = &words[..WORDS];
        words[1].store(LAYOUT, Ordering::Relaxed);
        words[2].store(WORDS as u64, Ordering::Relaxed);
        words[4].store(u64::from(pid), Ordering::Relaxed);
        words[0].store(MAGIC, Ordering::Release);
        Self { words }
    }

    /// This memory as its readers see it.
    pub fn tables(&self) -> Tables<'a> {
        Tables { words: self.words }
    }

    /// Says that something has changed; returns the new generation.
    pub fn changed(&self) -> u64 {
        self.words[3].fetch_add(1, Ordering::Release) + 1
    }

    /// Puts a record at a place of its table, or empties the place.
    ///
    /// # Panics
    ///
    /// When the table has no such place: the caller keeps to the limits.
    pub fn set<R: Row>(&self, at: usize, row: Option<&R>) {
        let mut fresh = [0; ROW_WORDS_MAX];
        let fresh = &mut fresh[..R::WORDS - 1];
        if let Some(row) = row {
            row.write(fresh);
        }
        let record = record::<R>(self.words, at).expect("the place is within the table");
        let (sequence, fields) = record.split_first().expect("a record has words");
        let before = sequence.load(Ordering::Relaxed);
        sequence.store(before | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (field, value) in fields.iter().zip(&*fresh) {
            field.store(*value, Ordering::Relaxed);
        }
        sequence.store((before | 1) + 1, Ordering::Release);
    }

    /// Enters what is known of a neighbour, in place of what was. When all its places are taken the one that is worth
    /// least goes, and of several the one confirmed longest ago. Anyone who has been heard of gets a place in any case;
    /// addresses at which nobody is, which anybody can ask for, take none of a neighbour's. Returns true when readers
    /// see something new: confirming alone is nothing new.
    pub fn set_neighbour(&self, neighbour: &Neighbour) -> bool {
        let tables = self.tables();
        let was = tables.neighbour(neighbour.interface, neighbour.ip);
        let same = |n: &Neighbour| n.interface == neighbour.interface && n.ip == neighbour.ip;
        let rank = |at: usize| match read::<Neighbour>(self.words, at) {
            Some(n) if same(&n) => (0, 0),
            None => (1, 0),
            Some(n) => (2 + worth(n.state), n.confirmed_ns),
        };
        let ranked = places(neighbour.interface, neighbour.ip).map(|at| (rank(at), at));
        let ((least, _), place) = ranked.min().expect("there are places");
        let most = match neighbour.state {
            NeighbourState::Stale => worth(NeighbourState::Reachable),
            state => worth(state),
        };
        if least > 2 + most {
            return false;
        }
        self.set(place, Some(neighbour));
        was.is_none_or(|was| (was.mac, was.state) != (neighbour.mac, neighbour.state))
    }

    /// Forgets a neighbour; true when it was known.
    pub fn remove_neighbour(&self, interface: u32, ip: IpAddr) -> bool {
        let place = places(interface, ip).find(|at| {
            read::<Neighbour>(self.words, *at)
                .is_some_and(|n| n.interface == interface && n.ip == ip)
        });
        if let Some(at) = place {
            self.set::<Neighbour>(at, None);
        }
        place.is_some()
    }

    /// Replaces a whole table; what does not fit is left out, and the number of records left out returned.
    pub fn replace<R: Row>(&self, rows: &[R]) -> usize {
        for at in 0..R::ROWS {
            let occupied = read::<R>(self.words, at).is_some();
            match rows.get(at) {
                Some(row) => self.set(at, Some(row)),
                None if occupied => self.set::<R>(at, None),
                None => {}
            }
        }
        rows.len().saturating_sub(R::ROWS)
    }
}

/// The words of one record.
fn record<R: Row>(words: &[AtomicU64], at: usize) -> Option<&[AtomicU64]> {
    if at >= R::ROWS {
        return None;
    }
    words.get(R::AT + at * R::WORDS..)?.get(..R::WORDS)
}

/// One record, when there is one and its writer lives.
fn read<R: Row>(words: &[AtomicU64], at: usize) -> Option<R> {
    let (sequence, fields) = record::<R>(words, at)?.split_first()?;
    let mut copy = [0; ROW_WORDS_MAX];
    for _ in 0..READ_ATTEMPTS {
        let before = sequence.load(Ordering::Acquire);
        if before == 0 {
            return None; // Never written.
        }
        for (copy, field) in copy.iter_mut().zip(fields) {
            *copy = field.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        if before & 1 == 0 && sequence.load(Ordering::Relaxed) == before {
            return R::read(&copy[..fields.len()]);
        }
        std::hint::spin_loop();
    }
    None
}

/// How much there is to lose: anyone who has been heard of comes before anyone who has not.
fn worth(state: NeighbourState) -> u8 {
    match state {
        NeighbourState::Failed => 0,
        NeighbourState::Incomplete => 1,
        NeighbourState::Stale => 2,
        NeighbourState::Reachable => 3,
    }
}

/// Where a neighbour may stand. FNV-1a, whose last bytes reach few of its bits: the multiplications behind it (the finalizer
/// of MurmurHash3) spread addresses that differ in the last octet alone. Its weakness against chosen addresses costs no time, and an entry only when as many
/// neighbours as there are places are really there. A key would be no secret: every reader needs it.
fn places(interface: u32, ip: IpAddr) -> impl Iterator<Item = usize> {
    let bytes = rows::octets(ip);
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ u64::from(interface);
    for byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    for multiplier in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53_u64] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(multiplier);
    }
    let first = (hash >> 33) as usize % TABLE_NEIGHBOURS;
    (0..TABLE_NEIGHBOUR_PROBES).map(move |i| (first + i) % TABLE_NEIGHBOURS)
}

#[cfg(test)]
mod tests;
