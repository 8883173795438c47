//! What is in the maps: the words that user space writes and the program reads.
//!
//! Three arrays are memory that both share, in 64-bit words. The *index* leads from the ends of a packet to a place and a
//! way; the *record* at that place says what becomes of packets that go this way; *hops* have link addresses.
//!
//! ```text
//! index    buckets of eight entries, a cache line each. An entry is 0, or
//!          hash: high 32 bits | place: 31 bits | way: 1 bit, with the lowest bit of the hash's part set
//! record    0  number: u64, odd while a flow is there   8  last seen: u64
//!          16  what: protocol, 1 for IPv6, 1 where packets come one way alone, links that they come by: 4 bits each way
//!          20  pair: u32   24  hops, each way: u32
//!          32  the sums' changes, each way: of the upper sum 2, of IPv4's 2
//!          40  ports of client, listener, ours, server: 2 each
//!          48  their addresses: 4 each (64 bytes, a cache line), or 16 each (112, in 128)
//! hops      0  link address: 6   6  1 where it is known, else 0   7  the link that it is on     (8)
//! tallies   0  packets: u64   8  bytes: u64                                                     (16)
//! ```
//!
//! The first way comes from the client to the listener, and leaves from us to the server; the second comes from the server
//! to us, and leaves from the listener to the client. So the ends are there once, and the second way is the first one
//! backwards. Where ends are equal, nothing is rewritten there: other ways to forward are other ends, not another program.
//!
//! ```text
//! server sees    comes                 leaves              comes back           leaves
//! us             client -> listener    ours -> server      server -> ours       listener -> client
//! its client     client -> listener    client -> server    server -> client     listener -> client
//! its client,    client -> listener    the same            not by us
//!   as listener
//! ```
//!
//! Where packets come one way alone, the second way has no entry in the index, and its hop means nothing.
//!
//! Addresses, ports and sums are as in a packet, all else in the machine's byte order. *Last seen* is in nanoseconds of
//! the monotonic clock, as of a tick at most [`SEEN_STEP`] ago; the program writes it, and nothing else. Bytes are counted
//! from the IP header on. The sums' changes are what the Internet checksum's sum grows by (RFC 1624): of TCP and UDP by
//! addresses and ports, of IPv4 by addresses and the hop that is taken away. A pair of listener and server has two
//! tallies, one for each way, which are kept for each processor.

use exos_wire::{Mac, Sum};
use std::net::{IpAddr, SocketAddr};

/// Bytes of a bucket of the index: a line of the cache.
pub const BUCKET_LEN: usize = 64;
/// Entries of a bucket.
pub(super) const BUCKET_ENTRIES: usize = BUCKET_LEN / size_of::<u64>();

/// Where a record has what.
pub(super) const NUMBER: usize = 0;
pub(super) const SEEN: usize = 8;
pub(super) const WHAT: usize = 16;
pub(super) const ONE_WAY: usize = WHAT + 2;
pub(super) const LINKS: usize = WHAT + 3;
pub(super) const PAIR: usize = 20;
pub(super) const HOPS: usize = 24;
pub(super) const CHANGES: usize = 32;
pub(super) const PORTS: usize = 40;
pub(super) const ADDRESSES: usize = 48;

/// Of what is behind the first two words, its bytes over IPv4 and over IPv6.
const V4_LEN: usize = ADDRESSES + 4 * 4;
const V6_LEN: usize = ADDRESSES + 4 * 16;

/// How much later a packet has to come to be noted as seen: so records that are in use on several processors stay in all
/// of their caches nearly all the time.
pub const SEEN_STEP: std::time::Duration = std::time::Duration::from_nanos(1 << 28);

/// Where a hop says that it is known.
pub(super) const IS_KNOWN: usize = 6;
/// Where a hop has its link.
pub(super) const HOP_LINK: usize = 7;
/// Where a tally has its bytes.
pub(super) const BYTES: usize = 8;

/// Links at most: what four bits number.
pub const LINKS_MAX: usize = 16;

/// Bytes of a hop.
pub const HOP_LEN: usize = 8;
/// Bytes of a tally.
pub const TALLY_LEN: usize = 16;

/// A hop less, in the word of IPv4's header that has the hops in its high half: what its sum grows by.
const HOP_LESS: u16 = !0x0100;

/// Bytes from one record to the next, where some are of flows over IPv6 or none are.
pub const fn record_len(ipv6: bool) -> usize {
    let len = if ipv6 { V6_LEN } else { V4_LEN };
    len.next_multiple_of(BUCKET_LEN)
}

/// The ends of a flow, on the client's side and on the server's: all of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    /// Who began.
    pub client: SocketAddr,
    /// The address that the client speaks to.
    pub listener: SocketAddr,
    /// The source that the server sees.
    pub ours: SocketAddr,
    /// Who answers.
    pub server: SocketAddr,
}

/// A flow, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The transport protocol's number.
    pub protocol: u8,
    /// Its ends.
    pub ends: Ends,
    /// The links that its packets come by: towards the server, and towards the client. Below [`LINKS_MAX`].
    pub links: [u8; 2],
    /// Which hops its packets go to: towards the server, and towards the client.
    pub hops: [u32; 2],
    /// Which tallies count them: twice this, and the next one.
    pub pair: u32,
    /// Servers answer clients by themselves: packets come from the client alone.
    pub is_one_way: bool,
}

/// What a record has behind its first two words, in words of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Body {
    bytes: [u8; V6_LEN],
    len: usize,
}

/// What a packet is looked up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Protocol and family, as in a record.
    pub what: u32,
    /// Words of sender's and receiver's address as they are in a packet, of which `len` are there.
    pub addresses: [u32; 8],
    pub len: usize,
    /// Both ports, as in a packet.
    pub ports: u32,
}

/// Protocol and family, as the word that they are in a record.
pub(super) const fn what(protocol: u8, ipv6: bool) -> u32 {
    u32::from_ne_bytes([protocol, ipv6 as u8, 0, 0])
}

impl Ends {
    /// As they are in a record.
    const fn list(&self) -> [SocketAddr; 4] {
        [self.client, self.listener, self.ours, self.server]
    }

    /// The ends that packets come with and those that they leave with, this way: sender and receiver each.
    fn of_way(&self, way: usize) -> [[SocketAddr; 2]; 2] {
        match way {
            0 => [[self.client, self.listener], [self.ours, self.server]],
            _ => [[self.server, self.ours], [self.listener, self.client]],
        }
    }

    const fn is_ipv6(&self) -> bool {
        self.client.is_ipv6()
    }
}

impl Flow {
    /// The ways that its packets come.
    pub(super) const fn ways(&self) -> std::ops::Range<usize> {
        0..if self.is_one_way { 1 } else { 2 }
    }

    /// What packets of it are looked up by, this way.
    pub(super) fn key(&self, way: usize) -> Key {
        let [[src, dst], _] = self.ends.of_way(way);
        let mut key = Key {
            what: what(self.protocol, self.ends.is_ipv6()),
            addresses: [0; 8],
            len: 0,
            ports: u32::from_ne_bytes(ports([src, dst])),
        };
        for end in [src, dst] {
            with_octets(end.ip(), |octets| {
                for word in octets.as_chunks::<4>().0 {
                    key.addresses[key.len] = u32::from_ne_bytes(*word);
                    key.len += 1;
                }
            });
        }
        key
    }

    /// What it is in a record.
    pub(super) fn body(&self) -> Body {
        let mut body = Body {
            bytes: [0; V6_LEN],
            len: if self.ends.is_ipv6() { V6_LEN } else { V4_LEN },
        };
        let kind = what(self.protocol, self.ends.is_ipv6());
        body.put(WHAT, &kind.to_ne_bytes());
        body.put(ONE_WAY, &[self.is_one_way.into()]);
        let [to_server, to_client] = self.links;
        body.put(LINKS, &[to_server | to_client << 4]);
        body.put(PAIR, &self.pair.to_ne_bytes());
        for (way, hop) in self.hops.iter().enumerate() {
            body.put(HOPS + 4 * way, &hop.to_ne_bytes());
            let [upper, ip] = changes(self.ends.of_way(way));
            body.put(CHANGES + 4 * way, &upper.value().to_be_bytes());
            body.put(CHANGES + 4 * way + 2, &ip.value().to_be_bytes());
        }
        let mut at = ADDRESSES;
        for (n, end) in self.ends.list().into_iter().enumerate() {
            body.put(PORTS + 2 * n, &end.port().to_be_bytes());
            with_octets(end.ip(), |octets| {
                body.put(at, octets);
                at += octets.len();
            });
        }
        body
    }
}

impl Body {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        let bytes = self.bytes[at..].first_chunk();
        *bytes.expect("fields are inside")
    }

    /// Its words, with those before it left out.
    pub(super) fn words(&self) -> impl Iterator<Item = u64> {
        let words = self.bytes[WHAT..self.len].as_chunks::<8>().0;
        words.iter().map(|word| u64::from_ne_bytes(*word))
    }

    /// What is behind the first two words of a record.
    pub(super) fn of_words(words: impl Iterator<Item = u64>) -> Self {
        let mut bytes = [0; V6_LEN];
        for (place, word) in bytes[WHAT..].as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_ne_bytes();
        }
        Self { bytes, len: V6_LEN }
    }

    /// The flow that this is.
    pub(super) fn flow(&self) -> Flow {
        let [protocol, family, one_way, links] = self.get(WHAT);
        let end = |n: usize| {
            let ip: IpAddr = match family {
                0 => self.get::<4>(ADDRESSES + 4 * n).into(),
                _ => self.get::<16>(ADDRESSES + 16 * n).into(),
            };
            SocketAddr::new(ip, u16::from_be_bytes(self.get(PORTS + 2 * n)))
        };
        let word = |at: usize| u32::from_ne_bytes(self.get(at));
        Flow {
            protocol,
            ends: Ends {
                client: end(0),
                listener: end(1),
                ours: end(2),
                server: end(3),
            },
            links: [links & 0xf, links >> 4],
            hops: [word(HOPS), word(HOPS + 4)],
            pair: word(PAIR),
            is_one_way: one_way != 0,
        }
    }
}

fn with_octets(ip: IpAddr, mut take: impl FnMut(&[u8])) {
    match ip {
        IpAddr::V4(ip) => take(&ip.octets()),
        IpAddr::V6(ip) => take(&ip.octets()),
    }
}

fn ports([src, dst]: [SocketAddr; 2]) -> [u8; 4] {
    let ([s0, s1], [d0, d1]) = (src.port().to_be_bytes(), dst.port().to_be_bytes());
    [s0, s1, d0, d1]
}

/// What the sums of TCP or UDP and of IPv4's header grow by. Ends that stay change nothing: a difference of equal sums would
/// be the other zero of one's complement, which makes a zero of a checksum of all ones.
fn changes([from, to]: [[SocketAddr; 2]; 2]) -> [Sum; 2] {
    if from == to {
        return [Sum::ZERO, Sum::ZERO.plus_word(HOP_LESS)];
    }
    let addresses = address_sum(to).minus(address_sum(from));
    let upper = addresses.plus(port_sum(to)).minus(port_sum(from));
    [upper, addresses.plus_word(HOP_LESS)]
}

fn address_sum(ends: [SocketAddr; 2]) -> Sum {
    let mut sum = Sum::ZERO;
    for end in ends {
        with_octets(end.ip(), |octets| sum = sum.plus(Sum::of(octets)));
    }
    sum
}

fn port_sum([src, dst]: [SocketAddr; 2]) -> Sum {
    Sum::ZERO.plus_word(src.port()).plus_word(dst.port())
}

/// A next hop on a link, known or not.
pub fn hop(link: u8, mac: Option<Mac>) -> u64 {
    let [m0, m1, m2, m3, m4, m5] = mac.unwrap_or(Mac::ZERO).0;
    u64::from_ne_bytes([m0, m1, m2, m3, m4, m5, mac.is_some().into(), link])
}
