//! A filter for what comes in, turned into the filter for what goes out: of the same conversations, seen from the other
//! end.
//!
//! The mirror of a packet has source and destination exchanged: Ethernet and IP addresses, and the ports of TCP, UDP
//! and SCTP. The mirror of a filter matches the mirrors of the packets that the filter matches, among packets of IPv4
//! and IPv6. Nothing else changes sides: a filter for ICMP echo replies mirrors to one for echo replies.
//!
//! A word must lie in the header that its offset counts from. `ether[36:2]` is a port in one packet and an address in
//! the next: what it would have to be exchanged with cannot be said, and it is refused.
//!
//! Addresses and ports lie elsewhere for each version of IP and each protocol. A conjunction that looks there without
//! saying which it means is split into one for each.

use std::fmt;

use crate::filter::{Conjunction, Filter, TooLarge};
use crate::layers::{IPV4, IPV6};
use crate::literal::{Base, Literal, Test, Width};
use exos_wire::protocol::{TCP, UDP};

/// The Stream Control Transmission Protocol (RFC 9260).
const SCTP: u8 = 132;

/// Protocols that begin with a source and a destination port.
const WITH_PORTS: [u8; 3] = [TCP, UDP, SCTP];

/// Where two fields that change places lie in their header, and how long each is.
#[derive(Clone, Copy)]
struct Pair {
    first: usize,
    second: usize,
    len: usize,
}

/// Bytes of an Ethernet header without a tag.
const ETHERNET_LEN: usize = 14;

const STATIONS: Pair = Pair::new(0, 6, 6);
const V4_ADDRESSES: Pair = Pair::new(12, 16, 4);
const V6_ADDRESSES: Pair = Pair::new(8, 24, 16);
const PORTS: Pair = Pair::new(0, 2, 2);

/// Why a filter has no mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoMirror {
    /// A word reaches across the border of an address or a port.
    Across(Test),
    /// A word lies behind the header that its offset counts from, where another layer's addresses or ports may be.
    Behind(Test),
    /// The result is too large.
    TooLarge,
}

impl fmt::Display for NoMirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Across(test) => write!(
                f,
                "the word of {} bytes at {} of the {:?} header reaches across the border of an address or a port; \
                 test addresses and ports by themselves",
                test.width().bytes(),
                test.offset(),
                test.base()
            ),
            Self::Behind(test) => write!(
                f,
                "the word of {} bytes at {} of the {:?} header lies behind that header, where an address or a port may \
                 be; count from the layer that it belongs to, as in udp[2:2] or ip[16:4]",
                test.width().bytes(),
                test.offset(),
                test.base()
            ),
            Self::TooLarge => TooLarge.fmt(f),
        }
    }
}

impl std::error::Error for NoMirror {}

impl From<TooLarge> for NoMirror {
    fn from(_: TooLarge) -> Self {
        Self::TooLarge
    }
}

/// What is known of the packets of a conjunction.
#[derive(Clone, Copy)]
struct Known {
    addresses: Option<Pair>,
    ports: Option<Pair>,
}

impl Filter {
    /// The filter for the same conversations in the other direction, among packets of IPv4 and IPv6.
    ///
    /// # Errors
    ///
    /// A word lies across the border of a field that changes places, or behind the header that its offset counts from:
    /// beyond 14 bytes of Ethernet, 20 of IPv4, 40 of IPv6. Or the result is too large.
    pub fn mirrored(&self) -> Result<Self, NoMirror> {
        let mut mirror = Self::nothing();
        let mut needed = self.conjunctions().to_vec();
        for conjunction in self.conjunctions() {
            match mirrored_conjunction(conjunction) {
                Ok(part) => mirror = mirror.or(&part)?,
                Err(error) => {
                    // `not src host A` leaves a part about ARP in everything, which often adds nothing.
                    needed.retain(|other| other != conjunction);
                    let (alone, rest) = (Self::any_of([conjunction]), Self::any_of(&needed));
                    if !alone?.is_subset_of(&rest?) {
                        return Err(error);
                    }
                }
            }
        }
        Ok(mirror)
    }

    fn any_of<'a>(all: impl IntoIterator<Item = &'a Conjunction>) -> Result<Self, TooLarge> {
        all.into_iter()
            .try_fold(Self::nothing(), |any, conjunction| {
                any.or(&Self::all_of(conjunction.literals().iter().copied())?)
            })
    }
}

fn mirrored_conjunction(conjunction: &Conjunction) -> Result<Filter, NoMirror> {
    let mut mirror = Filter::nothing();
    for (guards, known) in cases(conjunction) {
        // Nothing is left of a case that the conjunction excludes, ARP for example.
        let literals = guards.into_iter().chain(conjunction.literals().to_vec());
        for case in Filter::all_of(literals)?.conjunctions() {
            let literals = case.literals().iter().map(|l| mirrored(*l, known));
            let part = Filter::all_of(literals.collect::<Result<Vec<_>, _>>()?)?;
            mirror = mirror.or(&part)?;
        }
    }
    Ok(mirror)
}

/// The cases to tell apart, each with the literals that say it. Together they are all packets of IP.
fn cases(conjunction: &Conjunction) -> Vec<(Vec<Literal>, Known)> {
    let looks = |base, pair: &[Pair]| {
        let mut literals = conjunction.literals().iter();
        literals.any(|l| l.test.base() == base && pair.iter().any(|p| p.touches(&l.test)))
    };
    let says = |test: Test| conjunction.literals().contains(&test.into());
    let version = |kind, pair| (Test::ethertype(kind), Some(pair));
    let versions = [version(IPV4, V4_ADDRESSES), version(IPV6, V6_ADDRESSES)];
    let protocols = WITH_PORTS.map(|protocol| (Test::protocol(protocol), Some(PORTS)));
    let by_version = looks(Base::Network, &[V4_ADDRESSES, V6_ADDRESSES]);
    let by_protocol = looks(Base::Transport, &[PORTS]);
    let versions = told_apart(by_version, &versions, false, says);
    let protocols = told_apart(by_protocol, &protocols, true, says);
    let mut cases = Vec::new();
    for (version, addresses) in &versions {
        for (protocol, ports) in &protocols {
            let guards = [version.as_slice(), protocol.as_slice()].concat();
            let known = Known {
                addresses: *addresses,
                ports: *ports,
            };
            cases.push((guards, known));
        }
    }
    cases
}

/// The cases of one kind: none when it does not matter, the one that is said, or all, and with `rest` what is none of
/// them.
fn told_apart(
    matters: bool,
    all: &[(Test, Option<Pair>)],
    rest: bool,
    says: impl Fn(Test) -> bool,
) -> Vec<(Vec<Literal>, Option<Pair>)> {
    if !matters {
        return vec![(Vec::new(), None)];
    }
    if let Some((_, pair)) = all.iter().find(|(test, _)| says(*test)) {
        return vec![(Vec::new(), *pair)];
    }
    let one = |(test, pair): &(Test, Option<Pair>)| (vec![Literal::from(*test)], *pair);
    let mut cases: Vec<_> = all.iter().map(one).collect();
    if rest {
        let none = all.iter().map(|(test, _)| Literal::from(*test).negate());
        cases.push((none.collect(), None));
    }
    cases
}

fn mirrored(literal: Literal, known: Known) -> Result<Literal, NoMirror> {
    // Whether the bytes are there does not depend on what is in them.
    if literal.test.end() > header_len(literal.test.base(), known) && !literal.test.is_presence() {
        return Err(NoMirror::Behind(literal.test));
    }
    let pair = match literal.test.base() {
        Base::Link => Some(STATIONS),
        Base::Network => known.addresses,
        Base::Transport => known.ports,
        Base::Type | Base::Protocol => None,
    };
    let test = match pair {
        Some(pair) => pair.exchange(&literal.test)?,
        None => literal.test,
    };
    Ok(Literal { test, ..literal })
}

/// Bytes from a base on that surely are its own layer's: the addresses end the headers of both versions of IP. Words
/// that depend on the version are split by it before, and words behind the longer header belong to neither.
fn header_len(base: Base, known: Known) -> usize {
    match base {
        Base::Link => ETHERNET_LEN,
        Base::Network => known.addresses.unwrap_or(V6_ADDRESSES).end(),
        Base::Transport | Base::Type | Base::Protocol => usize::MAX,
    }
}

impl Pair {
    const fn new(first: usize, second: usize, len: usize) -> Self {
        Self { first, second, len }
    }

    const fn end(&self) -> usize {
        self.second + self.len
    }

    fn touches(&self, test: &Test) -> bool {
        test.end() > self.first && test.offset() < self.end()
    }

    /// The test of the same word after the exchange.
    fn exchange(&self, test: &Test) -> Result<Test, NoMirror> {
        let within = |start| start <= test.offset() && test.end() <= start + self.len;
        let offset = match () {
            () if !self.touches(test) => test.offset(),
            () if within(self.first) => test.offset() - self.first + self.second,
            () if within(self.second) => test.offset() - self.second + self.first,
            // Whether the bytes are there does not depend on what is in them.
            () if test.is_presence() => test.offset(),
            () => return self.exchange_both(test),
        };
        let (low, high) = test.bounds();
        let (base, width, mask) = (test.base(), test.width(), test.mask());
        Ok(Test::range(base, offset, width, mask, low, high))
    }

    /// A word of exactly both fields: its halves change places, if it is one value that is asked for.
    fn exchange_both(&self, test: &Test) -> Result<Test, NoMirror> {
        let (low, high) = test.bounds();
        let both = self.len == 2 && test.offset() == self.first && test.width() == Width::Word;
        if !both || low != high {
            return Err(NoMirror::Across(*test));
        }
        let turn = |word: u32| word.rotate_left(16);
        let (mask, value) = (turn(test.mask()), turn(low));
        Ok(Test::masked(
            test.base(),
            test.offset(),
            test.width(),
            mask,
            value,
        ))
    }
}
