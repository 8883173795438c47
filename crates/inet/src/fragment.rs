//! Reassembly of fragmented datagrams, and cutting up of our own that are too large.
//!
//! [`Reassembler::push`] takes one fragment and gives back the datagram when it was the last
//! missing piece. Memory is bounded whatever arrives: the number of datagrams, of datagrams from
//! one source, of pieces in each, and of bytes in all. When room is short, the datagram that waits
//! longest goes.
//!
//! Rules:
//!
//! - Pieces that overlap condemn their datagram, and everything of it that is still to come (RFC
//!   5722; RFC 8200 §4.5). The same for IPv4, where RFC 791 would let the newer bytes win: honest
//!   senders do not overlap. An exact duplicate of a piece is no overlap, it is ignored.
//! - The ECN fields of the pieces make one (RFC 3168 §5.3, which RFC 8200 leaves as it is): a mark on any
//!   of them marks the datagram, and a mark beside a piece that may not be marked condemns it.
//! - A first piece that lacks a part of the headers up to TCP's, UDP's or ICMP's, all but options, is dropped (RFC 1858 §3,
//!   RFC 7112 §5): who looks at first fragments alone, as a daemon's gate does, would take the datagram for another.
//! - A datagram that is one whole fragment (RFC 6946) is not to be pushed; it is no fragment
//!   (`Reassembler` gives it back at once, touching nothing).
//! - Call [`Reassembler::handle_timeout`] when [`Reassembler::poll_timeout`] says, then drain
//!   [`Reassembler::poll_expired`]: each is the beginning of a datagram whose first fragment was
//!   there and to whose sender ICMP time exceeded, code 1, is due.
//!
//! Invariants: the pieces of a datagram are sorted by offset and do not overlap; none reaches
//! beyond `total`; `bytes` is the sum of all pieces' lengths and overheads; condemned datagrams
//! hold no pieces.

use crate::limits::{
    DATAGRAM_MAX, ICMPV6_ERROR_MAX, REASSEMBLY_BYTES_MAX, REASSEMBLY_DATAGRAMS_MAX,
    REASSEMBLY_PER_SOURCE_MAX, REASSEMBLY_PIECE_OVERHEAD, REASSEMBLY_PIECES_MAX,
    REASSEMBLY_TIME_V4, REASSEMBLY_TIME_V6,
};
use crate::tcp::Ecn;
use crate::time::Instant;
use exos_wire::ipv4::{self, Ipv4Header};
use exos_wire::ipv6::{self, FragmentHeader, Ipv6Header};
use exos_wire::{protocol, tcp};
use std::collections::VecDeque;
use std::net::IpAddr;

/// What fragments of one datagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentKey {
    /// Where it comes from.
    pub src: IpAddr,
    /// Where it goes.
    pub dst: IpAddr,
    /// The identification; 16 bits in IPv4.
    pub ident: u32,
    /// The protocol in IPv4. RFC 8200 does not tell IPv6 datagrams apart by it: zero there.
    pub protocol: u8,
}

/// One fragment, as its header says.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    /// The datagram it belongs to.
    pub key: FragmentKey,
    /// Place of its first byte in the datagram's payload, in bytes.
    pub offset: usize,
    /// More fragments follow.
    pub more: bool,
    /// What is above the IP header, or above the IPv6 fragment header.
    pub payload: &'a [u8],
    /// The protocol of the payload: of consequence in the first fragment only.
    pub protocol: u8,
    /// Its ECN field.
    pub ecn: Ecn,
    /// The whole IP packet, of which ICMP errors quote the beginning.
    pub packet: &'a [u8],
}

/// A datagram put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Where it comes from.
    pub src: IpAddr,
    /// Where it goes.
    pub dst: IpAddr,
    /// Of the payload, as the first fragment says.
    pub protocol: u8,
    /// What the ECN fields of the pieces say together.
    pub ecn: Ecn,
    /// Everything above IP.
    pub payload: Vec<u8>,
    /// The beginning of the first fragment's packet, for ICMP errors about the datagram.
    pub quote: Vec<u8>,
}

/// Why fragments were dropped, and what became of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentCounters {
    /// Fragments taken.
    pub received: u64,
    /// Datagrams completed.
    pub reassembled: u64,
    /// Pieces that were there already.
    pub duplicates: u64,
    /// Datagrams condemned because pieces overlapped or disagreed about the end.
    pub overlaps: u64,
    /// Datagrams condemned because one piece says that congestion was met and another that nobody may
    /// say so.
    pub mixed_ecn: u64,
    /// Pieces of condemned datagrams.
    pub condemned: u64,
    /// Pieces that are empty, or not a multiple of eight bytes long and not the last.
    pub bad_length: u64,
    /// First pieces without all headers.
    pub headless: u64,
    /// Pieces that would make a datagram longer than the IP header can say.
    pub oversized: u64,
    /// Datagrams given up for their number of pieces.
    pub scattered: u64,
    /// Datagrams given up to make room for others.
    pub evicted: u64,
    /// Datagrams whose time was over.
    pub timeouts: u64,
}

#[derive(Debug)]
struct Piece {
    start: usize,
    bytes: Vec<u8>,
}

impl Piece {
    fn end(&self) -> usize {
        self.start + self.bytes.len()
    }
}

#[derive(Debug)]
struct Entry {
    key: FragmentKey,
    deadline: Instant,
    pieces: Vec<Piece>,
    total: Option<usize>,
    protocol: u8,
    /// What the pieces say; `None` before the first.
    ecn: Option<Ecn>,
    quote: Vec<u8>,
    condemned: bool,
}

/// What one piece does to its datagram.
#[derive(Debug, PartialEq, Eq)]
enum Fit {
    At(usize),
    Duplicate,
    Overlap,
}

impl Entry {
    fn new(key: FragmentKey, now: Instant) -> Entry {
        let wait = if key.src.is_ipv4() {
            REASSEMBLY_TIME_V4
        } else {
            REASSEMBLY_TIME_V6
        };
        Entry {
            key,
            deadline: now + wait,
            pieces: Vec::new(),
            total: None,
            protocol: 0,
            ecn: None,
            quote: Vec::new(),
            condemned: false,
        }
    }

    fn cost(&self) -> usize {
        let bytes = |p: &Piece| p.bytes.len() + REASSEMBLY_PIECE_OVERHEAD;
        self.pieces.iter().map(bytes).sum::<usize>() + self.quote.len()
    }

    /// Where a piece goes in the list, or why it does not.
    fn fit(&self, f: &Fragment<'_>) -> Fit {
        let (start, end) = (f.offset, f.offset + f.payload.len());
        if self
            .total
            .is_some_and(|total| end > total || (!f.more && end != total))
        {
            return Fit::Overlap;
        }
        let at = self.pieces.partition_point(|p| p.start < start);
        if self
            .pieces
            .get(at)
            .is_some_and(|p| p.start == start && p.bytes == f.payload)
        {
            return Fit::Duplicate;
        }
        let before = at.checked_sub(1).map(|i| &self.pieces[i]);
        let overlaps_before = before.is_some_and(|p| p.end() > start);
        let overlaps_after = self.pieces.get(at).is_some_and(|p| p.start < end);
        // The last piece may not end before one that is there.
        let cuts_short = !f.more && self.pieces.last().is_some_and(|p| p.end() > end);
        if overlaps_before || overlaps_after || cuts_short {
            Fit::Overlap
        } else {
            Fit::At(at)
        }
    }

    /// Take in a piece that fits at `place`.
    fn put(&mut self, place: usize, f: &Fragment<'_>, ecn: Ecn) {
        let (start, bytes) = (f.offset, f.payload.to_vec());
        self.pieces.insert(place, Piece { start, bytes });
        self.ecn = Some(ecn);
        if !f.more {
            self.total = Some(f.offset + f.payload.len());
        }
        if f.offset == 0 {
            self.protocol = f.protocol;
            self.quote = quote(f.packet);
        }
    }

    fn is_complete(&self) -> bool {
        let Some(total) = self.total else {
            return false;
        };
        // Pieces do not overlap and none is beyond the end: they fill it when they sum to it.
        self.pieces.iter().map(|p| p.bytes.len()).sum::<usize>() == total
    }

    fn finish(self) -> Datagram {
        let mut payload = Vec::with_capacity(self.total.expect("complete"));
        for piece in &self.pieces {
            debug_assert_eq!(piece.start, payload.len());
            payload.extend_from_slice(&piece.bytes);
        }
        let FragmentKey { src, dst, .. } = self.key;
        Datagram {
            src,
            dst,
            protocol: self.protocol,
            ecn: self.ecn.unwrap_or_default(),
            payload,
            quote: self.quote,
        }
    }
}

/// Datagrams waiting for their missing pieces.
#[derive(Debug, Default)]
pub struct Reassembler {
    /// In order of arrival of the first piece, which within a family is also the order of
    /// deadlines.
    entries: Vec<Entry>,
    bytes: usize,
    expired: VecDeque<Vec<u8>>,
    counters: FragmentCounters,
}

impl Reassembler {
    /// Nothing waiting.
    pub fn new() -> Reassembler {
        Reassembler::default()
    }

    /// What was dropped and why.
    pub fn counters(&self) -> FragmentCounters {
        self.counters
    }

    /// Take one fragment; gives the datagram if that was its last missing piece.
    pub fn push(&mut self, now: Instant, fragment: &Fragment<'_>) -> Option<Datagram> {
        self.counters.received += 1;
        if fragment.offset == 0 && !fragment.more {
            // RFC 6946 §4: an atomic fragment is not put beside others with its identification.
            self.counters.reassembled += 1;
            return Some(whole(fragment));
        }
        if !self.is_sound(fragment) {
            return None;
        }
        let at = self.entry_for(now, fragment.key);
        self.add(at, fragment);
        if self.entries[at].is_complete() {
            let entry = self.take(at);
            self.counters.reassembled += 1;
            return Some(entry.finish());
        }
        self.make_room();
        None
    }

    /// When [`Self::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.entries.iter().map(|e| e.deadline).min()
    }

    /// Give up datagrams whose time is over.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(at) = self.entries.iter().position(|e| e.deadline <= now) {
            let entry = self.take(at);
            self.counters.timeouts += 1;
            // RFC 792, RFC 4443 §3.3: only if fragment zero is there. Bounded, as the table is.
            if !entry.quote.is_empty() && self.expired.len() < REASSEMBLY_DATAGRAMS_MAX {
                self.expired.push_back(entry.quote);
            }
        }
    }

    /// The beginning of the next packet to whose source ICMP time exceeded in reassembly (code 1)
    /// is due.
    pub fn poll_expired(&mut self) -> Option<Vec<u8>> {
        self.expired.pop_front()
    }

    fn is_sound(&mut self, f: &Fragment<'_>) -> bool {
        if f.payload.is_empty()
            || !f.offset.is_multiple_of(8)
            || (f.more && !f.payload.len().is_multiple_of(8))
        {
            self.counters.bad_length += 1;
            return false;
        }
        if f.offset == 0 && !has_headers(f) {
            self.counters.headless += 1;
            return false;
        }
        // The IPv4 total length counts the header too.
        let max = if f.key.src.is_ipv4() {
            DATAGRAM_MAX - 20
        } else {
            DATAGRAM_MAX
        };
        if f.offset + f.payload.len() > max {
            self.counters.oversized += 1;
            return false;
        }
        true
    }

    fn entry_for(&mut self, now: Instant, key: FragmentKey) -> usize {
        if let Some(at) = self.entries.iter().position(|e| e.key == key) {
            return at;
        }
        let of_source = self.entries.iter().filter(|e| e.key.src == key.src).count();
        if of_source >= REASSEMBLY_PER_SOURCE_MAX {
            let oldest = self.entries.iter().position(|e| e.key.src == key.src);
            self.evict(oldest.expect("counted"));
        } else if self.entries.len() >= REASSEMBLY_DATAGRAMS_MAX {
            self.evict(0);
        }
        self.entries.push(Entry::new(key, now));
        self.entries.len() - 1
    }

    /// Put a sound piece into its datagram, or condemn the datagram.
    fn add(&mut self, at: usize, f: &Fragment<'_>) {
        let entry = &mut self.entries[at];
        if entry.condemned {
            self.counters.condemned += 1;
            return;
        }
        match entry.fit(f) {
            Fit::Duplicate => self.counters.duplicates += 1,
            Fit::Overlap => {
                self.counters.overlaps += 1;
                self.condemn(at);
            }
            Fit::At(_) if entry.pieces.len() == REASSEMBLY_PIECES_MAX => {
                self.counters.scattered += 1;
                self.condemn(at);
            }
            Fit::At(place) => match joined(entry.ecn, f.ecn) {
                Some(ecn) => {
                    self.bytes -= entry.cost();
                    entry.put(place, f, ecn);
                    self.bytes += entry.cost();
                }
                None => {
                    self.counters.mixed_ecn += 1;
                    self.condemn(at);
                }
            },
        }
    }

    /// RFC 5722 §3: the pieces go now, those to come are known by the entry that stays until its
    /// time.
    fn condemn(&mut self, at: usize) {
        let entry = &mut self.entries[at];
        self.bytes -= entry.cost();
        entry.pieces = Vec::new();
        entry.quote = Vec::new();
        entry.total = None;
        entry.condemned = true;
    }

    fn make_room(&mut self) {
        while self.bytes > REASSEMBLY_BYTES_MAX {
            let at = self
                .entries
                .iter()
                .position(|e| !e.condemned)
                .expect("bytes belong to someone");
            self.evict(at);
        }
    }

    fn evict(&mut self, at: usize) {
        self.counters.evicted += 1;
        self.take(at);
    }

    fn take(&mut self, at: usize) -> Entry {
        let entry = self.entries.remove(at);
        self.bytes -= entry.cost();
        entry
    }
}

/// Whether a first fragment has all headers, of the transport's all but options.
fn has_headers(f: &Fragment<'_>) -> bool {
    let (protocol, payload) = match f.key.src {
        IpAddr::V4(_) => (f.protocol, f.payload),
        IpAddr::V6(_) => match ipv6::walk(f.protocol, f.payload, 0, 0, false) {
            Ok(upper) => (upper.protocol, upper.payload),
            Err(_) => return false,
        },
    };
    let least = match protocol {
        protocol::TCP => tcp::LEN,
        protocol::UDP | protocol::ICMP | protocol::ICMPV6 => 8,
        _ => 0,
    };
    payload.len() >= least
}

fn whole(f: &Fragment<'_>) -> Datagram {
    let FragmentKey { src, dst, .. } = f.key;
    Datagram {
        src,
        dst,
        protocol: f.protocol,
        ecn: f.ecn,
        payload: f.payload.to_vec(),
        quote: quote(f.packet),
    }
}

/// The ECN field of pieces that say `before` and one more (RFC 3168 §5.3): congestion is never forgotten, nor
/// told to a transport that did not ask; `None` where both would have to be. Where the RFC leaves it open,
/// the least is claimed: not ECN-capable before ECT(0), and that before ECT(1), which may mean more (RFC 9331).
fn joined(before: Option<Ecn>, ecn: Ecn) -> Option<Ecn> {
    use Ecn::{Ce, Ect0, Ect1, NotEct};
    Some(match (before.unwrap_or(ecn), ecn) {
        (Ce, NotEct) | (NotEct, Ce) => return None,
        (Ce, Ce | Ect0 | Ect1) | (Ect0 | Ect1, Ce) => Ce,
        (NotEct, NotEct | Ect0 | Ect1) | (Ect0 | Ect1, NotEct) => NotEct,
        (Ect0, Ect0 | Ect1) | (Ect1, Ect0) => Ect0,
        (Ect1, Ect1) => Ect1,
    })
}

/// No ICMP error quotes more than its own size.
fn quote(packet: &[u8]) -> Vec<u8> {
    packet[..packet.len().min(ICMPV6_ERROR_MAX)].to_vec()
}

/// How a payload is cut that does not fit whole: the parts of `payload_len` bytes of which each but the last is the largest
/// multiple of eight that is at most `part_max`, as (offset, length, more).
pub fn cuts(payload_len: usize, part_max: usize) -> impl Iterator<Item = (usize, usize, bool)> {
    let step = match payload_len <= part_max {
        true => part_max,
        false => part_max & !7,
    };
    assert!(step > 0, "an MTU has room for eight bytes of payload");
    (0..payload_len.max(1)).step_by(step).map(move |offset| {
        let more = offset + step < payload_len;
        (offset, if more { step } else { payload_len - offset }, more)
    })
}

/// Cut an IPv4 payload into packets of at most `mtu` bytes, each complete with its header. `header`
/// gives everything but the fields of fragmentation; the caller has chosen `ident` and checked that
/// it may be cut.
pub fn cut_v4(header: &Ipv4Header, payload: &[u8], mtu: usize) -> impl Iterator<Item = Vec<u8>> {
    debug_assert!(!header.dont_fragment, "what may not be cut is not");
    cuts(payload.len(), mtu - ipv4::LEN).map(move |(offset, len, more)| {
        let header = Ipv4Header {
            more_fragments: more,
            fragment_offset: offset,
            ..*header
        };
        let mut packet = vec![0; ipv4::LEN + len];
        header.emit(len, &mut packet);
        packet[ipv4::LEN..].copy_from_slice(&payload[offset..offset + len]);
        packet
    })
}

/// Cut an IPv6 payload into packets of at most `mtu` bytes, each complete with its header and
/// fragment header (RFC 8200 §4.5).
pub fn cut_v6(
    header: &Ipv6Header,
    ident: u32,
    payload: &[u8],
    mtu: usize,
) -> impl Iterator<Item = Vec<u8>> {
    const HEADERS: usize = ipv6::LEN + ipv6::FRAGMENT_LEN;
    cuts(payload.len(), mtu - HEADERS).map(move |(offset, len, more)| {
        let fixed = Ipv6Header {
            next_header: protocol::FRAGMENT,
            ..*header
        };
        let fragment = FragmentHeader {
            next_header: header.next_header,
            offset,
            more,
            ident,
        };
        let mut packet = vec![0; HEADERS + len];
        fixed.emit(ipv6::FRAGMENT_LEN + len, &mut packet);
        fragment.emit(&mut packet[ipv6::LEN..]);
        packet[HEADERS..].copy_from_slice(&payload[offset..offset + len]);
        packet
    })
}

#[cfg(test)]
impl Reassembler {
    /// Datagrams waiting, condemned ones included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when no datagram waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes held, with overheads.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests;
