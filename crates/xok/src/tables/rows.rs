//! What is in a record of each table.
//!
//! The first field of every record holds a bit that says that it is occupied, so that zeroed memory is empty. A
//! record that means nothing (a bad family, say) reads as absent: the writer's memory is input too.
//!
//! Addresses take two words, in network order, IPv4 as ::ffff:a.b.c.d. Names take two words, padded with zeros.

use std::net::{IpAddr, Ipv6Addr};

use exos_wire::{Mac, Prefix};

use crate::claim::{Claim, Endpoint, Protocol};
use crate::limits::{
    INTERFACES_MAX, PROGRAM_NAME_BYTES_MAX, SLOTS_MAX, TABLE_ADDRESSES, TABLE_COUNTERS,
    TABLE_GRANTS, TABLE_NEIGHBOURS, TABLE_ROUTES,
};

/// Words before the first table.
pub(super) const HEADER_WORDS: usize = 64;

/// Words of the longest record.
pub(super) const ROW_WORDS_MAX: usize = Slot::WORDS;

/// The bit of a record's first field that says that it is there.
const OCCUPIED: u64 = 1 << 63;

/// A kind of record: where its table begins, and its bytes.
pub trait Row: Sized {
    /// The word at which the table begins.
    const AT: usize;
    /// How many records it has.
    const ROWS: usize;
    /// Words of one, its sequence number included.
    const WORDS: usize;
    /// Fills the words behind the sequence number.
    fn write(&self, words: &mut [u64]);
    /// Reads them; `None` when there is nothing.
    fn read(words: &[u64]) -> Option<Self>;
}

/// An interface that the daemon serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: Mac,
    /// The longest IP packet.
    pub mtu: u32,
    /// True when it is up and has a carrier.
    pub running: bool,
}

/// An address of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The interface's index.
    pub interface: u32,
    /// The address.
    pub ip: IpAddr,
    /// How many leading bits it shares with its neighbours on the link.
    pub prefix: u8,
    /// True when the host does not have it.
    pub ours_alone: bool,
}

/// How much a neighbour's entry is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeighbourState {
    /// Being asked for: no Ethernet address yet.
    Incomplete,
    /// Heard from lately, or set by hand.
    Reachable,
    /// Known, not heard from lately: use it, and ask again.
    Stale,
    /// Asked for, and nobody answered.
    Failed,
}

/// What is known of a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// The interface's index.
    pub interface: u32,
    /// Its address.
    pub ip: IpAddr,
    /// Its Ethernet address; zero while there is none.
    pub mac: Mac,
    /// What that is worth.
    pub state: NeighbourState,
    /// When it was last known to be right, on `CLOCK_MONOTONIC` in nanoseconds.
    pub confirmed_ns: u64,
}

/// Where packets go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The interface's index.
    pub interface: u32,
    /// The destinations, with `prefix`.
    pub destination: IpAddr,
    /// How many leading bits count.
    pub prefix: u8,
    /// The next hop; `None` when the destination itself is a neighbour.
    pub gateway: Option<IpAddr>,
}

/// A program that is attached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Its number.
    pub number: u32,
    /// The program's process.
    pub pid: u32,
    /// Whose it is.
    pub uid: u32,
    /// The interface's index.
    pub interface: u32,
    /// True when it has a queue of the interface itself.
    pub direct: bool,
    /// Its weight, when the link is contended.
    pub weight: u32,
    /// How many grants it holds.
    pub grants: u32,
    /// Since when, on `CLOCK_MONOTONIC` in nanoseconds.
    pub since_ns: u64,
    /// The program's name.
    pub program: String,
    /// Its counters, in the order of the packet programs' own list.
    pub counters: [u64; TABLE_COUNTERS],
}

/// A grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Its number.
    pub id: u32,
    /// The slot that receives its packets.
    pub slot: u32,
    /// How many hold it.
    pub holders: u32,
    /// What it is.
    pub claim: Claim,
}

impl Route {
    /// True when packets to this address take it.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let prefix = Prefix::new(self.destination, self.prefix);
        prefix.is_ok_and(|prefix| prefix.contains(ip))
    }
}

impl Row for Interface {
    const AT: usize = HEADER_WORDS;
    const ROWS: usize = INTERFACES_MAX;
    const WORDS: usize = 8;

    fn write(&self, words: &mut [u64]) {
        words[0] = OCCUPIED | u64::from(self.running) << 62 | u64::from(self.index);
        words[1] = u64::from(self.mtu);
        words[2] = mac_word(self.mac);
        words[3..5].copy_from_slice(&name_words(&self.name));
    }

    fn read(words: &[u64]) -> Option<Self> {
        Some(Self {
            index: occupied(words)?,
            name: name(words.get(3..5)?)?,
            mac: mac(*words.get(2)?),
            mtu: *words.get(1)? as u32,
            running: words[0] >> 62 & 1 == 1,
        })
    }
}

impl Row for Address {
    const AT: usize = Interface::AT + Interface::ROWS * Interface::WORDS;
    const ROWS: usize = TABLE_ADDRESSES;
    const WORDS: usize = 4;

    fn write(&self, words: &mut [u64]) {
        words[0] = OCCUPIED
            | u64::from(self.ours_alone) << 62
            | u64::from(self.prefix) << 32
            | u64::from(self.interface);
        words[1..3].copy_from_slice(&ip_words(self.ip));
    }

    fn read(words: &[u64]) -> Option<Self> {
        Some(Self {
            interface: occupied(words)?,
            ip: ip(words.get(1..3)?)?,
            prefix: (words[0] >> 32) as u8,
            ours_alone: words[0] >> 62 & 1 == 1,
        })
    }
}

impl Row for Neighbour {
    const AT: usize = Address::AT + Address::ROWS * Address::WORDS;
    const ROWS: usize = TABLE_NEIGHBOURS;
    const WORDS: usize = 8;

    fn write(&self, words: &mut [u64]) {
        words[0] = OCCUPIED | (self.state as u64) << 32 | u64::from(self.interface);
        words[1..3].copy_from_slice(&ip_words(self.ip));
        words[3] = mac_word(self.mac);
        words[4] = self.confirmed_ns;
    }

    fn read(words: &[u64]) -> Option<Self> {
        Some(Self {
            interface: occupied(words)?,
            ip: ip(words.get(1..3)?)?,
            mac: mac(*words.get(3)?),
            state: match words[0] >> 32 & 0xff {
                0 => NeighbourState::Incomplete,
                1 => NeighbourState::Reachable,
                2 => NeighbourState::Stale,
                3 => NeighbourState::Failed,
                _ => return None,
            },
            confirmed_ns: *words.get(4)?,
        })
    }
}

impl Row for Route {
    const AT: usize = Neighbour::AT + Neighbour::ROWS * Neighbour::WORDS;
    const ROWS: usize = TABLE_ROUTES;
    const WORDS: usize = 8;

    fn write(&self, words: &mut [u64]) {
        words[0] = OCCUPIED
            | u64::from(self.gateway.is_some()) << 62
            | u64::from(self.prefix) << 32
            | u64::from(self.interface);
        words[1..3].copy_from_slice(&ip_words(self.destination));
        if let Some(gateway) = self.gateway {
            words[3..5].copy_from_slice(&ip_words(gateway));
        }
    }

    fn read(words: &[u64]) -> Option<Self> {
        let has_gateway = words.first()? >> 62 & 1 == 1;
        Some(Self {
            interface: occupied(words)?,
            destination: ip(words.get(1..3)?)?,
            prefix: (words[0] >> 32) as u8,
            gateway: match has_gateway {
                true => Some(ip(words.get(3..5)?)?),
                false => None,
            },
        })
    }
}

impl Row for Slot {
    const AT: usize = Route::AT + Route::ROWS * Route::WORDS;
    const ROWS: usize = SLOTS_MAX;
    const WORDS: usize = 16 + TABLE_COUNTERS;

    fn write(&self, words: &mut [u64]) {
        words[0] = OCCUPIED | u64::from(self.direct) << 62 | u64::from(self.number);
        words[1] = u64::from(self.uid) << 32 | u64::from(self.pid);
        words[2] = u64::from(self.weight) << 32 | u64::from(self.interface);
        words[3] = u64::from(self.grants);
        words[4] = self.since_ns;
        words[5..7].copy_from_slice(&name_words(&self.program));
        words[15..].copy_from_slice(&self.counters);
    }

    fn read(words: &[u64]) -> Option<Self> {
        Some(Self {
            number: occupied(words)?,
            pid: *words.get(1)? as u32,
            uid: (words[1] >> 32) as u32,
            interface: *words.get(2)? as u32,
            weight: (words[2] >> 32) as u32,
            grants: *words.get(3)? as u32,
            since_ns: *words.get(4)?,
            direct: words[0] >> 62 & 1 == 1,
            program: name(words.get(5..7)?)?,
            counters: words.get(15..)?.try_into().ok()?,
        })
    }
}

impl Row for Grant {
    const AT: usize = Slot::AT + Slot::ROWS * Slot::WORDS;
    const ROWS: usize = TABLE_GRANTS;
    const WORDS: usize = 12;

    fn write(&self, words: &mut [u64]) {
        words[0] = OCCUPIED | u64::from(self.claim.remote.is_some()) << 62 | u64::from(self.id);
        words[1] = u64::from(self.holders) << 32 | u64::from(self.slot);
        words[2] = u64::from(self.claim.port) << 40
            | u64::from(self.claim.protocol.number()) << 32
            | u64::from(self.claim.interface);
        words[3..5].copy_from_slice(&ip_words(self.claim.local));
        if let Some(remote) = self.claim.remote {
            words[5..7].copy_from_slice(&ip_words(remote.ip));
            words[7] = u64::from(remote.port);
        }
    }

    fn read(words: &[u64]) -> Option<Self> {
        let id = occupied(words)?;
        let remote = match words[0] >> 62 & 1 {
            0 => None,
            _ => Some(Endpoint {
                ip: ip(words.get(5..7)?)?,
                port: *words.get(7)? as u16,
            }),
        };
        Some(Self {
            id,
            slot: *words.get(1)? as u32,
            holders: (words[1] >> 32) as u32,
            claim: Claim {
                interface: *words.get(2)? as u32,
                protocol: Protocol::from_number((words[2] >> 32) as u8)?,
                local: ip(words.get(3..5)?)?,
                port: (words[2] >> 40) as u16,
                remote,
            },
        })
    }
}

/// The lower half of the first field, when the record is there.
fn occupied(words: &[u64]) -> Option<u32> {
    let first = *words.first()?;
    (first & OCCUPIED != 0).then_some(first as u32)
}

/// An address in 16 bytes.
pub(super) fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

fn ip_words(ip: IpAddr) -> [u64; 2] {
    let all = u128::from_be_bytes(octets(ip));
    [(all >> 64) as u64, all as u64]
}

fn ip(words: &[u64]) -> Option<IpAddr> {
    let [high, low]: [u64; 2] = words.try_into().ok()?;
    let ip = Ipv6Addr::from(u128::from(high) << 64 | u128::from(low));
    Some(ip.to_canonical())
}

fn mac_word(Mac([a, b, c, d, e, f]): Mac) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

fn mac(word: u64) -> Mac {
    let [_, _, a, b, c, d, e, f] = word.to_be_bytes();
    Mac([a, b, c, d, e, f])
}

/// A name, cut to what fits.
fn name_words(name: &str) -> [u64; 2] {
    let mut bytes = [0; PROGRAM_NAME_BYTES_MAX];
    let end = name.floor_char_boundary(bytes.len());
    bytes[..end].copy_from_slice(&name.as_bytes()[..end]);
    let all = u128::from_be_bytes(bytes);
    [(all >> 64) as u64, all as u64]
}

fn name(words: &[u64]) -> Option<String> {
    let [high, low]: [u64; 2] = words.try_into().ok()?;
    let bytes = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8(bytes[..end].to_vec()).ok()
}
