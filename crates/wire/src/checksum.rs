//! The Internet checksum (RFC 1071): ones' complement sums that can be taken apart and put together.
//!
//! A [`Sum`] is the ones' complement sum of a run of bytes read as big-endian 16-bit words, folded
//! to 16 bits and *not* complemented. An odd last byte counts as the high half of a word.
//! [`Sum::finish`] gives the complement, which is what a packet carries.
//!
//! Sums of neighbouring runs combine without looking at the bytes again: a run that begins at an
//! odd offset contributes its sum with the halves swapped (RFC 1071 §2, "Byte Order
//! Independence"). That is why a document's checksum is computed once and a segment's checksum
//! costs a few additions.
//!
//! Ones' complement has two zeros, 0x0000 and 0xffff. The sum of bytes that are all zero is
//! 0x0000, of any others it is never 0x0000; [`Sum::minus`] gives 0xffff when nothing is left. Both
//! behave alike in every further addition, but `==` and [`Sum::finish`] tell them apart. That is
//! harmless for IP packets, whose header or pseudo-header always leaves something to be summed:
//! there a sum that went through any of these operations is 0xffff and never 0x0000.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A folded, uncomplemented ones' complement sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sum(u16);

impl Sum {
    /// The sum of no bytes.
    pub const ZERO: Self = Self(0);

    /// The sum of bytes, which begin at an even offset.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        // RFC 1071 §2 (B) and (C): add in the machine's byte order and in wider words, and swap
        // and fold once at the end. The two halves of each word are added apart so that carries
        // need no care (2^32 words fit, which is more than fits in memory) and the loop vectorises.
        let (words, tail) = bytes.as_chunks::<8>();
        let (mut low, mut high) = (0u64, 0u64);
        for word in words {
            let word = u64::from_ne_bytes(*word);
            low += word & 0xffff_ffff;
            high += word >> 32;
        }
        let (words, tail) = tail.as_chunks::<4>();
        if let [word] = words {
            low += u64::from(u32::from_ne_bytes(*word));
        }
        let (words, tail) = tail.as_chunks::<2>();
        if let [word] = words {
            low += u64::from(u16::from_ne_bytes(*word));
        }
        if let [byte] = tail {
            low += u64::from(u16::from_ne_bytes([*byte, 0]));
        }
        Self(u16::from_be(fold(low + high)))
    }

    /// The sum of both, where `other`'s bytes begin at an even offset.
    #[inline]
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Self(sum + carry as u16)
    }

    /// The sum of `self_len` bytes, whose sum is `self`, followed by those of `other`.
    #[inline]
    #[must_use]
    pub const fn followed_by(self, self_len: usize, other: Self) -> Self {
        self.plus(if self_len.is_multiple_of(2) {
            other
        } else {
            other.swapped()
        })
    }

    /// What remains when a part that begins at an even offset is taken away.
    #[inline]
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        self.plus(Self(!other.0))
    }

    /// The sum of the same bytes moved by one: the halves change places.
    #[inline]
    #[must_use]
    pub const fn swapped(self) -> Self {
        Self(self.0.swap_bytes())
    }

    /// The sum with one more word.
    #[inline]
    #[must_use]
    pub const fn plus_word(self, word: u16) -> Self {
        self.plus(Self(word))
    }

    /// The sum with two more words.
    #[inline]
    #[must_use]
    pub const fn plus_u32(self, words: u32) -> Self {
        self.plus_word((words >> 16) as u16).plus_word(words as u16)
    }

    /// The folded sum.
    #[inline]
    #[must_use]
    pub const fn value(self) -> u16 {
        self.0
    }

    /// A sum from its value, for sums that are stored.
    #[inline]
    #[must_use]
    pub const fn from_value(value: u16) -> Self {
        Self(value)
    }

    /// The checksum: the complement, to be stored big-endian.
    #[inline]
    #[must_use]
    pub const fn finish(self) -> u16 {
        !self.0
    }

    /// True when the bytes that were summed, their checksum field included, are intact.
    #[inline]
    #[must_use]
    pub const fn is_intact(self) -> bool {
        self.0 == 0xffff
    }

    /// The pseudo-header that TCP and UDP sum over IPv4 (RFC 9293 §3.1). `length` counts the
    /// transport header and its payload.
    #[inline]
    #[must_use]
    pub const fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, length: u32) -> Self {
        Self::ZERO
            .plus_u32(src.to_bits())
            .plus_u32(dst.to_bits())
            .plus_word(protocol as u16)
            .plus_u32(length)
    }

    /// The pseudo-header over IPv6 (RFC 8200 §8.1). `next_header` is the upper-layer protocol.
    #[inline]
    #[must_use]
    pub fn pseudo_v6(src: &Ipv6Addr, dst: &Ipv6Addr, next_header: u8, length: u32) -> Self {
        Self::of(&src.octets())
            .plus(Self::of(&dst.octets()))
            .plus_u32(length)
            .plus_word(u16::from(next_header))
    }

    /// The pseudo-header over either.
    ///
    /// # Panics
    /// When the addresses are of different families.
    #[inline]
    #[must_use]
    pub fn pseudo(src: IpAddr, dst: IpAddr, protocol: u8, length: u32) -> Self {
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Self::pseudo_v4(src, dst, protocol, length),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Self::pseudo_v6(&src, &dst, protocol, length),
            _ => panic!("a packet from {src} to {dst} would be of two address families"),
        }
    }
}

/// Folds a sum of 16-, 32- or 64-bit words; a sum that is not zero does not become zero.
#[inline]
const fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32); // 33 bits
    let sum = (sum & 0xffff) + (sum >> 16); // 18 bits
    let sum = (sum & 0xffff) + (sum >> 16); // 17 bits
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// The checksum after one of the words under it has changed (RFC 1624 §3, equation 3).
#[inline]
#[must_use]
pub const fn update16(checksum: u16, old: u16, new: u16) -> u16 {
    // HC' = ~(~HC + ~m + m'). Equation 4 would give the other zero for some packets (RFC 1624 §5).
    Sum(!checksum).plus_word(!old).plus_word(new).finish()
}

/// The checksum after an aligned pair of words under it has changed.
#[inline]
#[must_use]
pub const fn update32(checksum: u16, old: u32, new: u32) -> u16 {
    Sum(!checksum).plus_u32(!old).plus_u32(new).finish()
}
