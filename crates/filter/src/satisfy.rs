//! Can any packet pass all of these literals and at least one of each of these clauses?
//!
//! A search over partial packets. A partial packet ([`World`]) knows, for each base, between which bounds the number
//! of its bytes lies, and some of their bits. Each literal becomes alternatives that only fix bits and lengths
//! ("cubes"): a masked comparison one, a range at most 2 · 32 (its prefixes), a negation one for each bit that may
//! differ, and one for the word not being there. The search takes an alternative of each in turn and goes back on
//! contradiction. When it reaches the end, such a packet exists, as far as the bases are independent of each other.
//!
//! The bases are independent but for the facts in [`World::consistent`]: anyone who has a transport header has a protocol,
//! anyone who has a protocol is IPv4 or IPv6. Bytes that can be reached from two bases (the network header's first byte
//! is also one of the frame's) are treated as different bytes, so the search may find a packet where there is none,
//! never the other way round: "impossible" is always right.

use crate::layers::{IPV4, IPV6};
use crate::limits::OFFSET_MAX;
use crate::literal::{Base, Literal, Test, Width};

/// Longer than anything that tests can ask for, so that it never is the reason for a contradiction.
const LEN_MAX: usize = 8 * OFFSET_MAX;

/// What is left of the permitted effort.
pub(crate) struct Steps(usize);

impl Steps {
    pub(crate) fn at_most(steps: usize) -> Self {
        Self(steps)
    }

    /// Take one; false when there are none left.
    fn take(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

/// True when no packet passes all `units` and one literal of each clause. False when one does, or when the steps ran
/// out.
pub(crate) fn is_impossible(
    units: impl IntoIterator<Item = Literal>,
    clauses: &[Vec<Literal>],
    steps: &mut Steps,
) -> bool {
    let mut goals: Vec<Vec<Literal>> = units.into_iter().map(|l| vec![l]).collect();
    goals.extend(clauses.iter().cloned());
    let mut world = World::default();
    // What has one way only comes first: it prunes everything behind it.
    goals.sort_by_key(|goal| {
        (
            goal.len(),
            goal.first().is_some_and(|l| alternatives_at_most(*l) > 1),
        )
    });
    !search(&mut world, &goals, steps)
}

fn alternatives_at_most(literal: Literal) -> usize {
    let (low, high) = literal.test.bounds();
    if !literal.negated && (low == high || literal.test.is_presence()) {
        1
    } else {
        2
    }
}

/// Whether the world can be extended to pass all goals. True as well when the steps run out.
fn search(world: &mut World, goals: &[Vec<Literal>], steps: &mut Steps) -> bool {
    if !steps.take() {
        return true;
    }
    let Some((goal, rest)) = goals.split_first() else {
        return true;
    };
    if goal.iter().any(|l| world.entails(l)) {
        return search(world, rest, steps);
    }
    goal.iter().any(|literal| {
        alternatives(literal).into_iter().any(|alternative| {
            let mut next = world.clone();
            next.assume(&alternative) && search(&mut next, rest, steps)
        })
    })
}

/// One way to pass a literal.
enum Alternative {
    /// The word is there and these bits of it are these.
    Bits {
        base: Base,
        offset: usize,
        width: Width,
        mask: u32,
        value: u32,
    },
    /// The word is not there.
    Absent { base: Base, end: usize },
}

fn alternatives(literal: &Literal) -> Vec<Alternative> {
    let test = &literal.test;
    let bits = |(mask, value)| Alternative::Bits {
        base: test.base(),
        offset: test.offset(),
        width: test.width(),
        mask,
        value,
    };
    let mut ways: Vec<Alternative> = accepted(test, literal.negated)
        .into_iter()
        .map(bits)
        .collect();
    if literal.negated {
        ways.push(Alternative::Absent {
            base: test.base(),
            end: test.end(),
        });
    }
    ways
}

/// The values of a word that is there, as (mask, value) pairs.
fn accepted(test: &Test, negated: bool) -> Vec<(u32, u32)> {
    let (low, high) = test.bounds();
    let max = test.width().max();
    let mut cubes = Vec::new();
    if !negated {
        prefixes(low, high.min(max), max, &mut cubes);
    } else if test.mask() == test.width().max() || low != high {
        if low > 0 {
            prefixes(0, low - 1, max, &mut cubes);
        }
        if high < max {
            prefixes(high + 1, max, max, &mut cubes);
        }
    } else if low & !test.mask() != 0 {
        // A value that the masked word never has: every word differs.
        cubes.push((0, 0));
    } else {
        // Not one value under a mask: one of the bits differs.
        let bits = (0..32).map(|i| 1 << i).filter(|bit| test.mask() & bit != 0);
        return bits.map(|bit| (bit, !low & bit)).collect();
    }
    // The ranges bound the masked word: bits outside the mask are zero there and free in the packet.
    cubes.retain(|(mask, value)| mask & value & !test.mask() == 0);
    for cube in &mut cubes {
        cube.0 &= test.mask();
    }
    cubes
}

/// The range `low..=high` as the fewest aligned blocks, each a (mask, value) pair.
fn prefixes(low: u32, high: u32, max: u32, out: &mut Vec<(u32, u32)>) {
    let (mut low, high) = (u64::from(low), u64::from(high));
    while low <= high {
        let aligned = if low == 0 { 32 } else { low.trailing_zeros() };
        let fits = (high - low + 1).ilog2();
        let block = 1u64 << aligned.min(fits);
        out.push((max & !((block - 1) as u32), low as u32));
        low += block;
    }
}

/// What is known of the bytes behind one base.
#[derive(Clone)]
struct Space {
    /// The base has at least this many bytes; -1: nothing known, it may not be there.
    least: i32,
    /// It has at most this many; -1: it is not there.
    most: i32,
    /// Known bits, sorted by offset: (offset, mask, value).
    bytes: Vec<(u16, u8, u8)>,
}

impl Space {
    fn new(most: usize) -> Self {
        Self {
            least: -1,
            most: most as i32,
            bytes: Vec::new(),
        }
    }

    /// At least `end` bytes; false on contradiction.
    fn present(&mut self, end: usize) -> bool {
        self.least = self.least.max(end as i32);
        self.least <= self.most
    }

    /// Fewer than `end` bytes; false on contradiction.
    fn absent(&mut self, end: usize) -> bool {
        self.most = self.most.min(end as i32 - 1);
        self.least <= self.most
    }

    /// Bits of one byte; false on contradiction.
    fn fix(&mut self, offset: u16, mask: u8, value: u8) -> bool {
        match self.bytes.binary_search_by_key(&offset, |b| b.0) {
            Ok(i) => {
                let (_, known, bits) = &mut self.bytes[i];
                if (*bits ^ value) & *known & mask != 0 {
                    return false;
                }
                *known |= mask;
                *bits |= value & mask;
            }
            Err(i) => self.bytes.insert(i, (offset, mask, value & mask)),
        }
        true
    }

    /// The known bits of a word: (mask, value).
    fn word(&self, offset: usize, width: Width) -> (u32, u32) {
        (offset..offset + width.bytes()).fold((0, 0), |(mask, value), at| {
            let known = self.bytes.binary_search_by_key(&(at as u16), |b| b.0);
            let (m, v) = known.map_or((0, 0), |i| (self.bytes[i].1, self.bytes[i].2));
            (mask << 8 | u32::from(m), value << 8 | u32::from(v))
        })
    }
}

/// A partial packet.
#[derive(Clone)]
struct World {
    spaces: [Space; 5],
}

impl Default for World {
    fn default() -> Self {
        // In the order of `Base`: type, protocol, network, transport, link.
        Self {
            spaces: [
                Space::new(2),
                Space::new(1),
                Space::new(LEN_MAX),
                Space::new(LEN_MAX),
                Space::new(LEN_MAX),
            ],
        }
    }
}

impl World {
    fn space(&mut self, base: Base) -> &mut Space {
        &mut self.spaces[base as usize]
    }

    /// Add what an alternative says; false on contradiction.
    fn assume(&mut self, alternative: &Alternative) -> bool {
        match *alternative {
            Alternative::Absent { base, end } => self.space(base).absent(end) && self.consistent(),
            Alternative::Bits {
                base,
                offset,
                width,
                mask,
                value,
            } => {
                let n = width.bytes();
                self.space(base).present(offset + n)
                    && (0..n).all(|i| {
                        let shift = 8 * (n - 1 - i);
                        let (m, v) = ((mask >> shift) as u8, (value >> shift) as u8);
                        m == 0 || self.space(base).fix((offset + i) as u16, m, v)
                    })
                    && self.consistent()
            }
        }
    }

    /// The facts that connect the bases; false when one is broken.
    fn consistent(&mut self) -> bool {
        if let Some(bytes) = self.least(Base::Transport) {
            // Behind a whole IPv4 header at least.
            if !self.space(Base::Protocol).present(1)
                || !self.space(Base::Network).present(20 + bytes)
            {
                return false;
            }
        }
        if self.least(Base::Protocol).is_some() {
            let is_ip = [IPV4, IPV6].iter().any(|t| self.type_may_be(*t));
            if !is_ip || !self.space(Base::Network).present(20) {
                return false;
            }
        }
        // A network header begins where the type ends, and that is at the frame's 14th byte at least.
        if let Some(bytes) = self.least(Base::Network)
            && !(self.space(Base::Type).present(2) && self.space(Base::Link).present(14 + bytes))
        {
            return false;
        }
        self.least(Base::Type).is_none() || self.space(Base::Link).present(14)
    }

    /// Bytes that the base has at least; None when it may not be there.
    fn least(&self, base: Base) -> Option<usize> {
        usize::try_from(self.spaces[base as usize].least).ok()
    }

    fn type_may_be(&self, ethertype: u16) -> bool {
        let (mask, value) = self.spaces[Base::Type as usize].word(0, Width::Half);
        (u32::from(ethertype) ^ value) & mask == 0
    }

    /// Whether the literal holds whatever the rest of the packet is. May say no wrongly.
    fn entails(&self, literal: &Literal) -> bool {
        let test = &literal.test;
        let space = &self.spaces[test.base() as usize];
        if literal.negated && space.most < test.end() as i32 {
            return true;
        }
        let (known, value) = space.word(test.offset(), test.width());
        let all_known = test.mask() & !known == 0;
        if literal.negated {
            let (low, high) = test.bounds();
            let differs = low == high && (low ^ value) & known & test.mask() != 0;
            return differs || (all_known && !test.accepts(value));
        }
        space.least >= test.end() as i32 && all_known && test.accepts(value)
    }
}
