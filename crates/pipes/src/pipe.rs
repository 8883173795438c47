//! Pipes: what each does to a word, and what that says about the order in which words may come.
//!
//! Words are numbers in the network's order. Where a message ends within a word, the word is as though zeros followed, and of what it
//! becomes the bytes that exist are kept. Only [`Pipe::Swap`] has no such meaning; it wants whole words.

/// Bytes of the words that a pipe works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gauge {
    /// Bytes.
    One,
    /// 16 bits.
    Two,
    /// 32 bits.
    Four,
    /// 64 bits.
    Eight,
}

/// What is done with each word of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pipe {
    /// Its register becomes the ones' complement sum of all words of 16 bits (RFC 1071), not inverted.
    Checksum,
    /// Its register becomes the sum of all words, modulo 2^64.
    Sum(Gauge),
    /// Its register becomes the FNV-1a hash of all words: of single bytes the usual one of 64 bits, but from the register's value on,
    /// which begins at 0 and not at FNV's offset.
    Hash(Gauge),
    /// The bytes of each word are turned round.
    Swap(Gauge),
    /// Bits that are in this change.
    Xor(Gauge, u64),
    /// Bits that are in this stay.
    And(Gauge, u64),
    /// Bits that are in this are set.
    Or(Gauge, u64),
}

/// FNV's prime for 64 bits.
pub(crate) const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

impl Gauge {
    /// How many bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    /// The largest word.
    pub(crate) const fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes())
    }

    /// 64 bits full of this word, as they lie in memory of a machine whose low byte is first.
    pub(crate) fn repeat(self, word: u64) -> u64 {
        let bytes = self.bytes();
        let mut all = [0; 8];
        for part in all.chunks_mut(bytes) {
            part.copy_from_slice(&word.to_be_bytes()[8 - bytes..]);
        }
        u64::from_le_bytes(all)
    }
}

impl Pipe {
    /// The words that it works on.
    pub const fn gauge(self) -> Gauge {
        match self {
            Self::Checksum => Gauge::Two,
            Self::Sum(gauge)
            | Self::Hash(gauge)
            | Self::Swap(gauge)
            | Self::Xor(gauge, _)
            | Self::And(gauge, _)
            | Self::Or(gauge, _) => gauge,
        }
    }

    /// Whether it changes the message. What does not has a register.
    pub const fn modifies(self) -> bool {
        !matches!(self, Self::Checksum | Self::Sum(_) | Self::Hash(_))
    }

    /// Whether it comes to one result in whichever order the words come.
    pub const fn commutative(self) -> bool {
        !matches!(self, Self::Hash(_))
    }

    /// Whether its register is a sum of all words.
    pub(crate) const fn sums(self) -> bool {
        matches!(self, Self::Checksum | Self::Sum(_))
    }

    /// The number that it has besides its gauge.
    pub(crate) const fn operand(self) -> Option<u64> {
        match self {
            Self::Xor(_, word) | Self::And(_, word) | Self::Or(_, word) => Some(word),
            Self::Checksum | Self::Sum(_) | Self::Hash(_) | Self::Swap(_) => None,
        }
    }

    /// What becomes of a word, and of this pipe's register.
    pub(crate) const fn word(self, word: u64, register: &mut u64) -> u64 {
        match self {
            Self::Checksum => *register = ones_add(*register, word),
            Self::Sum(_) => *register = register.wrapping_add(word),
            Self::Hash(_) => *register = (*register ^ word).wrapping_mul(FNV_PRIME),
            Self::Swap(gauge) => return word.swap_bytes() >> (64 - 8 * gauge.bytes()),
            Self::Xor(_, key) => return word ^ key,
            Self::And(_, mask) => return word & mask,
            Self::Or(_, bits) => return word | bits,
        }
        word
    }
}

/// The ones' complement sum of two numbers, in 16 bits (RFC 1071 §1).
pub(crate) const fn ones_add(a: u64, b: u64) -> u64 {
    fold(fold(a) + fold(b))
}

/// 16 bits that are congruent modulo 65,535; zero only of zero.
pub(crate) const fn fold(mut sum: u64) -> u64 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}
