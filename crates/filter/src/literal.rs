//! The atoms of a filter: a test of one word of the packet, and its negation.
//!
//! A test names a base (the layer from which its offset counts), an offset, a width of 1, 2 or 4 bytes, a mask, and
//! the range of values that the masked word may have. A masked comparison is a range of one value. A mask of zero
//! asks only whether the word is there: that is how lengths are tested. Words are big-endian, as on the wire.
//!
//! Invariant: tests are canonical, so that equal tests compare equal: the mask fits the width, and a test that any
//! value passes has mask, low and high zero, and no other allows more than its mask.

use crate::layers::Layers;
use crate::limits::OFFSET_MAX;

/// From where an offset counts. The order is the one in which a conjunction's tests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Base {
    /// The Ethertype behind a VLAN tag: one word of 2 bytes at offset 0.
    Type,
    /// What IPv4 or IPv6 carries: one byte at offset 0. Not there in other and in malformed packets.
    Protocol,
    /// The network header.
    Network,
    /// The transport header. Not there in fragments behind the first.
    Transport,
    /// The frame, from its first byte.
    Link,
}

/// Bytes of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    /// One byte.
    Byte = 1,
    /// Two bytes.
    Half = 2,
    /// Four bytes.
    Word = 4,
}

impl Width {
    /// Number of bytes.
    pub const fn bytes(self) -> usize {
        self as usize
    }

    /// The largest value.
    pub const fn max(self) -> u32 {
        match self {
            Self::Byte => 0xff,
            Self::Half => 0xffff,
            Self::Word => u32::MAX,
        }
    }
}

/// The word at `base` + `offset` is there, and masked it lies in `low..=high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Test {
    base: Base,
    offset: u16,
    width: Width,
    mask: u32,
    low: u32,
    high: u32,
}

impl Test {
    /// The masked word lies in `low..=high`.
    ///
    /// Panics when the word lies outside its base: [`Base::Type`] is 2 bytes at 0, [`Base::Protocol`] 1 byte at 0,
    /// the others end at [`OFFSET_MAX`].
    pub fn range(base: Base, offset: usize, width: Width, mask: u32, low: u32, high: u32) -> Self {
        match base {
            Base::Type => assert!(offset == 0 && width == Width::Half, "the type is one word"),
            Base::Protocol => assert!(
                offset == 0 && width == Width::Byte,
                "the protocol is one byte"
            ),
            _ => assert!(offset + width.bytes() <= OFFSET_MAX, "offset {offset}"),
        }
        let offset = offset as u16;
        let mask = mask & width.max();
        if low == 0 && high >= mask {
            return Self {
                base,
                offset,
                width,
                mask: 0,
                low: 0,
                high: 0,
            };
        }
        Self {
            base,
            offset,
            width,
            mask,
            low,
            high: high.min(mask),
        }
    }

    /// The masked word equals `value`.
    pub fn masked(base: Base, offset: usize, width: Width, mask: u32, value: u32) -> Self {
        Self::range(base, offset, width, mask, value, value)
    }

    /// The word equals `value`.
    pub fn equal(base: Base, offset: usize, width: Width, value: u32) -> Self {
        Self::masked(base, offset, width, width.max(), value)
    }

    /// The word is there, whatever its value.
    pub fn present(base: Base, offset: usize, width: Width) -> Self {
        Self::masked(base, offset, width, 0, 0)
    }

    /// The Ethertype is `value`.
    pub fn ethertype(value: u16) -> Self {
        Self::equal(Base::Type, 0, Width::Half, value.into())
    }

    /// The protocol is `value`.
    pub fn protocol(value: u8) -> Self {
        Self::equal(Base::Protocol, 0, Width::Byte, value.into())
    }

    /// From where the offset counts.
    pub const fn base(&self) -> Base {
        self.base
    }

    /// Bytes from the base.
    pub const fn offset(&self) -> usize {
        self.offset as usize
    }

    /// Bytes of the word.
    pub const fn width(&self) -> Width {
        self.width
    }

    /// Which bits of the word count.
    pub const fn mask(&self) -> u32 {
        self.mask
    }

    /// The least and the greatest value allowed for the masked word.
    pub const fn bounds(&self) -> (u32, u32) {
        (self.low, self.high)
    }

    /// Bytes that the base must have for the word to be there.
    pub const fn end(&self) -> usize {
        self.offset as usize + self.width.bytes()
    }

    /// Whether the test asks only for the word to be there.
    pub const fn is_presence(&self) -> bool {
        self.mask == 0 && self.low == 0
    }

    /// Whether no value passes: the range is empty, or asks for bits outside the mask.
    pub const fn accepts_nothing(&self) -> bool {
        let asks_outside = self.low == self.high && self.low & !self.mask != 0;
        self.low > self.high || self.low > self.mask || asks_outside
    }

    /// Whether a word of this value passes.
    pub const fn accepts(&self, word: u32) -> bool {
        let masked = word & self.mask;
        self.low <= masked && masked <= self.high
    }

    /// The test's meaning.
    pub fn matches(&self, packet: &[u8], layers: &Layers) -> bool {
        self.word(packet, layers)
            .is_some_and(|word| self.accepts(word))
    }

    /// The word that the test looks at, if the packet has it.
    fn word(&self, packet: &[u8], layers: &Layers) -> Option<u32> {
        let start = match self.base {
            Base::Type => return layers.ethertype.map(u32::from),
            Base::Protocol => return layers.protocol.map(u32::from),
            Base::Network => layers.network?,
            Base::Transport => layers.transport?,
            Base::Link => 0,
        };
        let bytes = packet.get(start + self.offset()..start + self.end())?;
        Some(
            bytes
                .iter()
                .fold(0, |word, &byte| word << 8 | u32::from(byte)),
        )
    }

    /// Whether every packet that passes `self` passes `other`. May say no wrongly for tests of different shape.
    pub fn implies(&self, other: &Self) -> bool {
        if !self.same_word(other) {
            return other.is_presence() && self.base == other.base && self.end() >= other.end();
        }
        if other.is_presence() {
            return true;
        }
        if self.mask == other.mask {
            return other.low <= self.low && self.high <= other.high;
        }
        // A single value fixes all bits of its mask.
        self.low == self.high && other.mask & !self.mask == 0 && other.accepts(self.low)
    }

    /// Whether no packet passes both. May say no wrongly for tests of different shape.
    pub fn excludes(&self, other: &Self) -> bool {
        if !self.same_word(other) {
            return false;
        }
        if self.mask == other.mask {
            return self.high < other.low || other.high < self.low;
        }
        let both_single = self.low == self.high && other.low == other.high;
        let common = self.mask & other.mask;
        both_single && (self.low ^ other.low) & common != 0
    }

    fn same_word(&self, other: &Self) -> bool {
        (self.base, self.offset, self.width) == (other.base, other.offset, other.width)
    }
}

/// A test, or its negation: the word is not there or does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Literal {
    /// The test.
    pub test: Test,
    /// Whether the literal holds when the test fails.
    pub negated: bool,
}

impl Literal {
    /// The opposite.
    #[must_use]
    pub const fn negate(self) -> Self {
        Self {
            test: self.test,
            negated: !self.negated,
        }
    }

    /// The literal's meaning.
    pub fn matches(&self, packet: &[u8], layers: &Layers) -> bool {
        self.test.matches(packet, layers) != self.negated
    }

    /// Whether every packet that passes `self` passes `other`. May say no wrongly.
    pub fn implies(&self, other: &Self) -> bool {
        match (self.negated, other.negated) {
            (false, false) => self.test.implies(&other.test),
            (false, true) => self.test.excludes(&other.test),
            (true, true) => other.test.implies(&self.test),
            (true, false) => false,
        }
    }

    /// Whether no packet passes both. May say no wrongly.
    pub fn excludes(&self, other: &Self) -> bool {
        self.implies(&other.negate())
    }
}

impl From<Test> for Literal {
    fn from(test: Test) -> Self {
        Self {
            test,
            negated: false,
        }
    }
}
