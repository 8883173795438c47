//! TCP sequence numbers: arithmetic modulo 2^32 (RFC 9293 §3.4).
//!
//! There is no order over all sequence numbers, hence no `Ord`: `a.lt(b)` asks whether `a` comes
//! before `b` when both lie within 2^31 of each other, as all numbers of one connection do that are
//! in use at one time. At a distance of exactly 2^31 the answer is "before" both ways.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A TCP sequence number.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SeqNumber(pub u32);

impl SeqNumber {
    /// The signed distance from `earlier` to `self`.
    #[inline]
    #[must_use]
    pub const fn distance(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0).cast_signed()
    }

    /// True when `self` comes before `other`.
    #[inline]
    #[must_use]
    pub const fn lt(self, other: Self) -> bool {
        self.distance(other) < 0
    }

    /// True when `self` comes before `other` or is equal to it.
    #[inline]
    #[must_use]
    pub const fn le(self, other: Self) -> bool {
        self.distance(other) <= 0
    }

    /// True when `self` comes after `other`.
    #[inline]
    #[must_use]
    pub const fn gt(self, other: Self) -> bool {
        self.distance(other) > 0
    }

    /// True when `self` comes after `other` or is equal to it.
    #[inline]
    #[must_use]
    pub const fn ge(self, other: Self) -> bool {
        self.distance(other) >= 0
    }

    /// The later of two.
    #[inline]
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.lt(other) { other } else { self }
    }

    /// The earlier of two.
    #[inline]
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if other.lt(self) { other } else { self }
    }
}

impl Add<u32> for SeqNumber {
    type Output = Self;

    #[inline]
    fn add(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }
}

impl AddAssign<u32> for SeqNumber {
    #[inline]
    fn add_assign(&mut self, count: u32) {
        *self = *self + count;
    }
}

impl Sub<u32> for SeqNumber {
    type Output = Self;

    #[inline]
    fn sub(self, count: u32) -> Self {
        Self(self.0.wrapping_sub(count))
    }
}

/// The signed distance: positive when `self` is the later one.
impl Sub for SeqNumber {
    type Output = i32;

    #[inline]
    fn sub(self, earlier: Self) -> i32 {
        self.distance(earlier)
    }
}

impl fmt::Display for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
