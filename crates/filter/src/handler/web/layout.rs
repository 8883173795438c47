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

mod entries;
mod hashes;
mod records;
mod rings;

use crate::program::Counter;

pub use entries::Entries;
pub use hashes::{ends, hash, peer_of, slot_of};
pub use records::{copy, entry, handed, peer, report, slot};
pub use rings::Rings;

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
/// This many at least, however short the responses are.
const REQUEST_MAX_LEAST: u64 = 512;
/// Bytes of a response at most: with timestamps it fits an MSS of 1380.
pub const RESPONSE_MAX: usize = 1360;
