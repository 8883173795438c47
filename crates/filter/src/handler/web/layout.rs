//! The memory that the program in the kernel and the server share: what is handed up, connections, responses.
//!
//! ```text
//! control   0  handed up so far | 8  taken so far | 16  requests are answered until (ms of the monotonic clock) |
//!           24  reports written | 32  answers to report | 40  reported and heard | 128  connections that there may be more |
//!           1024  behind a gate: counts, as `Rings::counts` says
//! ring      HANDED_LEN bytes each, as `handed` says
//! slots     SLOT_LEN bytes each, found by a hash of the ends
//! peers     a word each, found by a hash of the peer, as `peer` says: where connections of each are limited
//! entries   of as many bytes as their responses need, four for each value of a hash of the request: as `Entries` says
//! reports   where the server wants them, behind the entries: REPORT_LEN bytes each, as `report` says
//! logged    behind them, for each slot and then for each report LOGGED_LEN bytes: lines of a request that was answered without noise
//! rings     where the server runs on several cores, behind all else: for each but the first again a control, of which the first two
//!           words and the counts are used, and a ring (`Rings`)
//! ```
//!
//! Each answer has one report in the end, or goes up with its connection, and is given only where there is room for its report.
//!
//! Words of eight bytes, or of four where two stand in one, in the machine's order. A slot is written by who holds its lock.

use std::net::IpAddr;

use crate::program::Counter;

/// Where things lie in the one value of the array: from the [beginning of a ring](Rings::at) on.
pub const HANDED: u64 = 0;
/// How many of them the server has taken: from the beginning of a ring on.
pub const TAKEN: u64 = 8;
/// Until when connections may begin in the kernel, and requests of those that stand are answered there.
pub const UNTIL: u64 = 16;
/// How many reports have been written.
pub const REPORTED: u64 = 24;
/// How many answers were given that are reported, or will be, or went up.
pub const TO_REPORT: u64 = 32;
/// For how many of those the server needs no room any more.
pub const HEARD: u64 = 40;
/// How many connections more there may be, here and in the server together. Less than 0 for a moment, where several want the last.
pub const ROOM: u64 = 128;
/// What the program counts where a gate is behind it: from the beginning of a ring on.
const COUNTS: u64 = 1024;
/// The ring of connections handed up: from the beginning of a ring on.
pub const RING: u64 = 4096;
const _: () = assert!(COUNTS + 8 * Counter::COUNT as u64 <= RING);
/// How many it has room for, a power of two: more than segments wait in a receive ring (2,048), for each may be a first request that the
/// server answers.
pub const RING_COUNT: u64 = 4096;
/// Bytes of one.
pub const HANDED_LEN: u64 = 128;
/// Bytes from the beginning of a ring to its end.
pub const RING_LEN: u64 = RING + RING_COUNT * HANDED_LEN;
/// Connections.
pub const SLOTS: u64 = RING_LEN;
/// How many, a power of two.
pub const SLOT_COUNT: u64 = 1 << 14;
/// Bytes of one.
pub const SLOT_LEN: u64 = 128;
/// How many connections peers have.
pub const PEERS: u64 = SLOTS + SLOT_COUNT * SLOT_LEN;
/// Words, a power of two.
pub const PEER_COUNT: u64 = 1 << 17;
/// Requests and their responses.
pub const ENTRIES: u64 = PEERS + PEER_COUNT * 8;
/// Those that a request may be in.
pub const WAYS: u64 = 4;
/// Reports that there is room for, a power of two: of all slots, and as many that the server has not heard yet.
pub const REPORT_COUNT: u64 = 2 * SLOT_COUNT;
/// Bytes of one.
pub const REPORT_LEN: u64 = 64;
/// Of the lines of a request that a log may want: how many bytes there are, and they.
pub const LOGGED_LEN: u64 = 256;
/// How many there are at most.
pub const LOGGED_MAX: usize = LOGGED_LEN as usize - 8;

/// Bytes of a request at most, a multiple of 8: browsers send 400 to 800, with cookies and validators.
pub const REQUEST_MAX: usize = 1024;
/// So many at least, however short the responses are.
const REQUEST_MAX_LEAST: u64 = 512;
/// Bytes of a response at most: with timestamps it fits an MSS of 1380.
pub const RESPONSE_MAX: usize = 1360;

/// A connection that was handed up.
pub mod handed {
    /// Its number and one more, once the rest is written.
    pub const NUMBER: u64 = 0;
    /// Addresses, and behind them the ports, as in a slot.
    pub const ENDS: u64 = 8;
    /// The next sequence number of the peer, then ours, four bytes each.
    pub const NUMBERS: u64 = 48;
    /// Timestamps, as in a slot.
    pub const STAMPS: u64 = 56;
    /// What the cookie kept, and the window, as in a slot.
    pub const KEPT: u64 = 64;
    /// The peer's sequence number that the connection began with, four bytes.
    pub const FIRST: u64 = 72;
    /// The note of the last response, four bytes.
    pub const NOTE: u64 = 76;
    /// Of the response that was sent and is not acknowledged the version, four bytes, which is 0 where all is, and the entry, as in a slot.
    pub const SENT: u64 = 80;
    /// When the request that it answers came, as in a slot.
    pub const BEGUN: u64 = 88;
    /// The first of our sequence numbers that is not acknowledged, four bytes.
    pub const UNA: u64 = 96;
    /// Our next one with all that has left, four bytes: one beyond that of [`NUMBERS`] where our FIN has left, too.
    pub const END: u64 = 100;
    /// When something last came, as in a slot.
    pub const TIME: u64 = 104;
}

/// A slot.
pub mod slot {
    /// 0, or 1 while somebody changes it.
    pub const LOCK: u64 = 0;
    /// The server's address, then the peer's, as [`ends`](super::ends) has them.
    pub const ENDS: u64 = 8;
    /// Behind them the server's port in the upper half of four bytes, the peer's in the lower.
    pub const PORTS: u64 = ENDS + 32;
    /// How often the last response was sent again, four bytes.
    pub const RESENT: u64 = 44;
    /// One of the states below.
    pub const STATE: u64 = 48;
    /// The next sequence number of the peer, four bytes.
    pub const RCV: u64 = 56;
    /// Ours, four bytes.
    pub const NXT: u64 = 60;
    /// The first of ours that the peer has not acknowledged, four bytes.
    pub const UNA: u64 = 64;
    /// Where the last request began, four bytes.
    pub const LAST: u64 = 68;
    /// Where the entry of the last response is, from the first on, four bytes.
    pub const ENTRY: u64 = 72;
    /// The peer's sequence number that the connection began with, four bytes.
    pub const FIRST: u64 = 76;
    /// Index of the MSS, then bits of the timestamp (`exos_wire::tcp::cookie`): as the cookie has it, four bytes.
    pub const KEPT: u64 = 80;
    /// The window that the peer last announced, as it stands in the segment, and above it, from [`CORE_SHIFT`] on, the core that the
    /// segment's queue belongs to: four bytes.
    pub const WINDOW: u64 = 84;
    /// Bits of the window.
    pub const CORE_SHIFT: u32 = 16;
    /// When something last came, in milliseconds of the monotonic clock.
    pub const TIME: u64 = 88;
    /// The peer's last timestamp, and what it echoed, four bytes each.
    pub const STAMPS: u64 = 96;
    /// The version of the last response, four bytes.
    pub const VERSION: u64 = 104;
    /// The note of the last response, four bytes.
    pub const NOTE: u64 = 108;
    /// No connection may begin in this slot until then.
    pub const CLOSED: u64 = 112;
    /// When the request came whose answer is to be reported, in nanoseconds of the monotonic clock; 0 where none is.
    pub const BEGUN: u64 = 120;

    /// Those that stand have [`ROOM`](super::ROOM), from [`OPEN`] to [`LAST_ACK`]: it goes up with them, or is given back.
    /// Free.
    pub const FREE: i32 = 0;
    /// The connection stands.
    pub const OPEN: i32 = 1;
    /// Our FIN has left with the response.
    pub const FINISHED: i32 = 2;
    /// The peer's FIN has come, and been answered with ours.
    pub const LAST_ACK: i32 = 3;
    /// Both have, and were acknowledged.
    pub const DONE: i32 = 4;
}

/// The word of a peer: from its lowest bits on, how many connections the peer has, here and in the server together; then how many
/// connections of others with this word the server has ([`BESIDE_SHIFT`](peer::BESIDE_SHIFT)); then the peer's
/// [tag](peer::TAG_SHIFT), which says nothing where it has none. While others have some, none begins here.
pub mod peer {
    /// The most that is counted of either.
    pub const MOST: u64 = (1 << BESIDE_SHIFT) - 1;
    /// See above.
    pub const BESIDE_SHIFT: u32 = 20;
    /// See above.
    pub const TAG_SHIFT: u32 = 40;
}

/// An entry.
pub mod entry {
    /// The request's hash, which is not 0; 0 where the entry answers nothing any more.
    pub const TAG: u64 = 0;
    /// Bytes of the request.
    pub const REQUEST_LEN: u64 = 8;
    /// Which response is up to date, four bytes: no other has this number, which is not 0, and whose lowest bit says which copy it is.
    pub const VERSION: u64 = 16;
    /// How often it was sent as an answer.
    pub const HITS: u64 = 24;
    /// Two copies of the response; behind them the request ([`Entries::request`](super::Entries::request)), then zeros.
    pub const COPIES: u64 = 64;
}

/// A copy of a response.
pub mod copy {
    /// The sum of its bytes (RFC 1071).
    pub const SUM: u64 = 0;
    /// How many there are.
    pub const LEN: u64 = 8;
    /// 1 where our FIN follows, four bytes.
    pub const CLOSES: u64 = 16;
    /// What the server calls it in reports, four bytes.
    pub const NOTE: u64 = 20;
    /// They.
    pub const BYTES: u64 = 24;
}

/// A report.
pub mod report {
    /// Its number and one more, once the rest is written.
    pub const NUMBER: u64 = 0;
    /// The peer's address, as [`ends`](super::ends) has it.
    pub const PEER: u64 = 8;
    /// The response's note.
    pub const NOTE: u64 = 24;
    /// When the request came, in nanoseconds of the monotonic clock.
    pub const BEGUN: u64 = 32;
    /// When the response was taken, or the connection over.
    pub const ENDED: u64 = 40;
    /// 1 where the peer has acknowledged the response, else 0.
    pub const IS_TAKEN: u64 = 48;
}

/// How many entries there are, and how large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries {
    /// A power of two, [`WAYS`] at least, 65,536 at most.
    pub count: u64,
    /// Bytes of a response at most: a multiple of 8, [`RESPONSE_MAX`] at most.
    pub response_max: usize,
}

impl Entries {
    /// Whether there may be this number of entries, of this size.
    pub fn is_valid(self) -> bool {
        let is_response =
            (1..=RESPONSE_MAX).contains(&self.response_max) && self.response_max.is_multiple_of(8);
        is_response && self.count.is_power_of_two() && (WAYS..=1 << 16).contains(&self.count)
    }

    /// Bytes from the one copy to the other.
    pub const fn copy_len(self) -> u64 {
        copy::BYTES + self.response_max as u64
    }

    /// Bytes of an entry, a power of two.
    pub const fn entry_len(self) -> u64 {
        (self.request() + REQUEST_MAX_LEAST).next_power_of_two()
    }

    /// Where the request is in an entry.
    pub const fn request(self) -> u64 {
        entry::COPIES + 2 * self.copy_len()
    }

    /// Bytes of a request at most: [`REQUEST_MAX`], or what an entry has room for, which is 512 at least.
    pub const fn request_max(self) -> usize {
        let room = (self.entry_len() - self.request()) as usize;
        if room < REQUEST_MAX {
            room
        } else {
            REQUEST_MAX
        }
    }

    /// Bytes of the array without reports, which begin there.
    pub const fn memory_len(self) -> u64 {
        ENTRIES + self.count * self.entry_len()
    }

    /// Bytes of the array with reports, and lines for the log.
    pub const fn memory_len_with_reports(self) -> u64 {
        self.logged_of_report(REPORT_COUNT)
    }

    /// Where the lines for the log are of the slot that is `at` bytes behind the first, whose answer is to be reported.
    pub const fn logged_of_slot(self, at: u64) -> u64 {
        self.memory_len() + REPORT_COUNT * REPORT_LEN + at / SLOT_LEN * LOGGED_LEN
    }

    /// Where they are of a report, by its place.
    pub const fn logged_of_report(self, place: u64) -> u64 {
        self.logged_of_slot(SLOT_COUNT * SLOT_LEN) + place * LOGGED_LEN
    }

    /// Where the first of the entries is that a request with this hash may be in.
    pub const fn first_way(self, hash: u64) -> u64 {
        ((hash >> 8) & (self.count / WAYS - 1)) * WAYS * self.entry_len()
    }
}

/// A ring of connections handed up for each core of the server. Each of its interfaces has some of the cores, of which queue q belongs to
/// the one with the number q modulo how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    cores: u64,
    /// Of these the interface's: the first, and how many.
    first: u64,
    count: u64,
    /// Bytes of all that stands before the rings of the others than the first.
    before: u64,
}

impl Rings {
    /// For this many cores of one interface, one at least, behind an array's `before` bytes.
    ///
    /// # Panics
    ///
    /// Without a core.
    pub const fn new(cores: u32, before: u64) -> Self {
        assert!(cores > 0);
        Self {
            cores: cores as u64,
            first: 0,
            count: cores as u64,
            before,
        }
    }

    /// As one of several interfaces sees them, which has this many cores from `first` on.
    ///
    /// # Panics
    ///
    /// If it has none, or one that there is not.
    pub const fn of_interface(self, first: u32, count: u32) -> Self {
        let (first, count) = (first as u64, count as u64);
        assert!(count > 0 && first + count <= self.cores);
        Self {
            first,
            count,
            ..self
        }
    }

    /// How many cores there are, of all interfaces.
    pub const fn cores(self) -> u64 {
        self.cores
    }

    /// The interface's.
    pub const fn own(self) -> std::ops::Range<u64> {
        self.first..self.first + self.count
    }

    /// Where the ring of a core begins.
    pub const fn at(self, core: u64) -> u64 {
        match core {
            0 => 0,
            other => self.before + (other - 1) * RING_LEN,
        }
    }

    /// Where it is counted what the program of a core did that has a gate behind it: words in the order of [`Counter`]s.
    pub const fn counts(self, core: u64) -> u64 {
        self.at(core) + COUNTS
    }

    /// Bytes of the array with all rings.
    pub const fn memory_len(self) -> u64 {
        self.at(self.cores)
    }
}

/// The hash of a request, as the program makes it: of words of eight bytes, the last filled with zeros. Each is mixed twice: by one
/// multiplication the upper bit of a word changes the same bits for every key, which the next word can change back. Who does not know the
/// key finds no two requests with one hash.
pub fn hash(key: u64, request: &[u8]) -> u64 {
    let mut hash = key;
    for part in request.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        hash = mixed(key, mixed(key, hash ^ u64::from_ne_bytes(word)));
    }
    hash | 1
}

/// Two addresses in IPv6's form (RFC 4291 §2.5.5.2), the upper half of each before the lower.
pub fn ends(local: IpAddr, remote: IpAddr) -> [u64; 4] {
    let halves = |address: IpAddr| {
        let bits = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        [(bits >> 64) as u64, bits as u64]
    };
    let ([a, b], [c, d]) = (halves(local), halves(remote));
    [a, b, c, d]
}

/// The slot of a connection. The ports are the server's and the peer's, of 16 bits each, as in a slot. Of which network the server's
/// address is does not matter.
pub fn slot_of(key: u64, ends: [u64; 4], ports: u32) -> u64 {
    let mut hash = key ^ u64::from(ports) << 32;
    for word in &ends[1..] {
        hash = mixed(key, hash ^ word);
    }
    (hash >> 40) & (SLOT_COUNT - 1)
}

/// A peer's word, and its tag there. A peer is an IPv4 address, or an IPv6 network of 64 bits (but for the network 0, from which none
/// come).
pub fn peer_of(key: u64, ends: [u64; 4]) -> (u64, u64) {
    let [.., network, rest] = ends;
    let peer = match network {
        0 => rest,
        _ => network,
    };
    let hash = mixed(key, mixed(key, key ^ peer));
    let bits = PEER_COUNT.ilog2();
    let (place, tag) = (hash >> (64 - bits), hash << bits >> peer::TAG_SHIFT);
    (PEERS + place * 8, tag)
}

fn mixed(key: u64, word: u64) -> u64 {
    let hash = word.wrapping_mul(key | 1);
    hash ^ hash >> 29
}
